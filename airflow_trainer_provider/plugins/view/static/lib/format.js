// Numbers, durations and times as text.

const MINUTE = 60, HOUR = 3600, DAY = 86400, GIB = 2 ** 30;

/** A whole number with separators, or a number with the given decimals; `–` if it is absent. */
export function number(value, decimals = 0) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

/** A step: whole, or with the decimals that it has. */
export const step = (value) => number(value, Number.isInteger(value) ? 0 : 1);

/** `1 step`, `2 steps`. */
export const count = (value, one, many = `${one}s`) => `${step(value)} ${value === 1 ? one : many}`;

const minus = (text) => text.replace(/-/g, "−");

/** A metric's value with four significant digits. Values that are not finite arrive as text. */
export function metric(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return minus(value);
  if (!Number.isFinite(value)) return minus(String(value));
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e15) return minus(value.toExponential(1).replace("e+", "e"));
  for (const [limit, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= limit) return minus(Number((value / (limit === 1e4 ? 1e3 : limit)).toPrecision(3)) + unit);
  }
  if (size < 0.001) return minus(value.toExponential(1));
  if (size < 0.1) return minus(String(Number(value.toPrecision(4))));
  return minus(size >= 1000 || Number.isInteger(value) ? number(value) : value.toPrecision(4));
}

/** A share as `32.8 %`. */
export const share = (value, decimals = 1) => `${number(value * 100, decimals)} %`;

/** A change as `−0.8 %`, with its sign. */
export const change = (value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${number(Math.abs(value) * 100, 1)} %`;

/** Bytes as GiB, or MiB below a tenth of one. */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  if (value < GIB / 10) return `${number(value / 2 ** 20)} MiB`;
  return `${number(value / GIB, value < 100 * GIB && !Number.isInteger(value / GIB) ? 1 : 0)} GiB`;
}

/** Seconds as two units: `2 h 12 min`, `8 min 38 s`; seconds only below ten minutes. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.max(0, Math.round(seconds));
  if (whole < MINUTE) return `${whole} s`;
  if (whole < 10 * MINUTE) return whole % MINUTE ? `${Math.floor(whole / MINUTE)} min ${whole % MINUTE} s` : `${whole / MINUTE} min`;
  const minutes = Math.round(whole / MINUTE);
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  const hours = Math.round(whole / HOUR);
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Seconds as their largest unit: `15 min`. */
export const age = (seconds) => duration(seconds).replace(/^(\d+ \w+) .*/, "$1");

/** A time of the API, which is ISO 8601 or seconds since 1970, as seconds since 1970. */
export function epoch(time) {
  if (time === null || time === undefined) return null;
  const seconds = typeof time === "number" ? time : Date.parse(time) / 1000;
  return Number.isFinite(seconds) ? seconds : null;
}

/** The time zone chosen in Airflow, which keeps it as a JSON string. */
export function timezone() {
  try {
    const zone = JSON.parse(localStorage.getItem("timezone"));
    new Intl.DateTimeFormat("en", { timeZone: zone || undefined });
    return zone || undefined;
  } catch {
    return undefined;
  }
}

let zone = timezone();
let formats = new Map();

/** Read the time zone again, after it has changed. */
export function resetTimezone() {
  zone = timezone();
  formats = new Map();
}

function part(options, seconds) {
  const key = JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat("en-GB", { ...options, timeZone: zone }));
  return formats.get(key).format(new Date(seconds * 1000));
}

/** `20 Nov`. */
export const day = (time) => part({ day: "numeric", month: "short" }, epoch(time));

/** A run's label: a time as its day, other text as it is. */
export const runLabel = (text) => (/^\d{4}-\d\d-\d\dT/.test(text) ? day(text) : text);

const onDay = (text, time, now) => (now !== undefined && day(time) !== day(now) ? `${day(time)} ${text}` : text);

/** `14:21`, or `20 Nov 14:21` if that is not the day of `now`. */
export function clock(time, now) {
  if (epoch(time) === null) return "–";
  return onDay(part({ hour: "2-digit", minute: "2-digit" }, epoch(time)), time, now);
}

/** `14:21:07`, or with its day if that is not the day of `now`. */
export function seconds(time, now) {
  if (epoch(time) === null) return "–";
  return onDay(part({ hour: "2-digit", minute: "2-digit", second: "2-digit" }, epoch(time)), time, now);
}

/** `16:33–16:56`, or one time where both are shown as the same. */
export function clockRange(earliest, latest, now) {
  const [from, to] = [clock(earliest, now), clock(latest, now)];
  if (from === to || epoch(latest) === null) return from;
  return day(earliest) === day(latest) ? `${from}–${clock(latest)}` : `${from} – ${to}`;
}

/** `in 2 h 12 min to 2 h 35 min`, as seen at `now`. */
export function fromNow(earliest, latest, now) {
  const [from, to] = [duration(epoch(earliest) - epoch(now)), duration(epoch(latest ?? earliest) - epoch(now))];
  if (epoch(earliest) <= epoch(now)) return epoch(latest ?? earliest) <= epoch(now) ? "any moment" : `within ${to}`;
  return from === to ? `in ${from}` : `in ${from} to ${to}`;
}
