// From values to pixels: scales and their ticks.

const STEPS = [1, 2, 2.5, 5, 10];

/** Round values between two limits, approximately as many as wanted. */
export function ticks(low, high, wanted) {
  const raw = (high - low) / Math.max(1, wanted);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const size = power * STEPS.find((each) => each >= raw / power - 1e-9);
  const first = Math.ceil(low / size - 1e-9);
  const last = Math.floor(high / size + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * size).toPrecision(12)));
}

function mantissas(decades) {
  if (decades > 1.5) return [1];
  return decades > 0.7 ? [1, 2, 5] : [1, 1.5, 2, 2.5, 3, 4, 5, 7];
}

/** Round values between two limits of a logarithmic scale. */
export function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
    for (const mantissa of mantissas(Math.log10(high / low))) {
      const value = Number((mantissa * 10 ** power).toPrecision(12));
      if (value >= low && value <= high) found.push(value);
    }
  }
  return found;
}

const TIMES = [10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800];

/** Round times between two limits, in seconds. */
export function timeTicks(low, high, wanted) {
  const size = TIMES.find((each) => (high - low) / each <= wanted) || TIMES[TIMES.length - 1] * Math.ceil((high - low) / 604800 / wanted);
  const first = Math.ceil(low / size);
  return Array.from({ length: Math.max(0, Math.floor(high / size) - first + 1) }, (_, index) => (first + index) * size);
}

/** The text of a tick, with the decimals that distinguish it from its neighbours. */
export function tickText(value, all) {
  const size = Math.max(...all.map(Math.abs));
  const short = (number) => String(Number(number.toPrecision(6))).replace("-", "−");
  if (size >= 1e6) return `${short(value / 1e6)}M`;
  if (size >= 1e4) return value === 0 ? "0" : `${short(value / 1e3)}k`;
  if (size > 0 && size < 1e-3) return value === 0 ? "0" : value.toExponential().replace("e-", "e−").replace(/^-/, "−");
  const decimals = [0, 1, 2, 3, 4, 5].find((n) => all.every((each) => Math.abs(each * 10 ** n - Math.round(each * 10 ** n)) < 1e-6));
  return value.toFixed(decimals ?? 6).replace("-", "−");
}

const finite = (value, log) => typeof value === "number" && Number.isFinite(value) && (!log || value > 0);

/** The limits of what is drawn, and the largest value that the scale leaves out, or null. */
export function limits(lines, log) {
  const x = lines.flatMap((line) => [line.x[0], line.x[line.x.length - 1]]);
  const [left, right] = [Math.min(...x), Math.max(...x)];
  const values = lines.flatMap((line) => line.y.filter((value) => finite(value, log)));
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (!values.length) return { left, right, low: log ? 0.1 : 0, high: 1, above: null };
  let above = null;
  const later = lines.flatMap((line) => line.y.filter((value, index) => finite(value, log) && line.x[index] > left + (right - left) * 0.06));
  // The first steps of a loss would flatten everything that follows.
  if (!log && later.length > 20 && high - low > 1.6 * (Math.max(...later) - low)) [above, high] = [high, Math.max(...later)];
  if (log) return { left, right, low: low * 0.97, high: high * 1.03, above };
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  return { left, right, low: low >= 0 && low < room ? 0 : low - room, high: high + room, above };
}

/** Where values lie on the page: functions from a value to a pixel. */
export function scales({ left, right, low, high }, area, log) {
  const at = log ? Math.log : (value) => value;
  const [bottom, top] = [at(low), at(high)];
  return {
    x: (value) => area.left + ((value - left) / (right - left || 1)) * area.width,
    y: (value) => area.top + ((top - at(log ? Math.max(value, low) : value)) / (top - bottom || 1)) * area.height,
    value: (pixel) => left + ((pixel - area.left) / area.width) * (right - left),
  };
}
