// A centred mean: it does not lag behind a falling loss, as a mean of the last values does.

const SHARE = 0.025;

/** The mean around each value; gaps are kept. At the last value it covers only the values before it. */
export function smooth(values) {
  const reach = Math.max(1, Math.round(values.length * SHARE));
  const sums = [0], counts = [0];
  for (const value of values) {
    const there = Number.isFinite(value);
    sums.push(sums[sums.length - 1] + (there ? value : 0));
    counts.push(counts[counts.length - 1] + (there ? 1 : 0));
  }
  const end = values.length - 1;
  return values.map((value, index) => {
    if (!Number.isFinite(value)) return null;
    const near = index === end ? 0 : Math.min(reach, index, end - index);
    const from = index === end ? Math.max(0, index - reach) : index - near;
    const to = index + near + 1;
    return (sums[to] - sums[from]) / (counts[to] - counts[from]);
  });
}

/** The last finite value, or null. */
export function last(values) {
  for (let index = values.length - 1; index >= 0; index -= 1) if (Number.isFinite(values[index])) return values[index];
  return null;
}

/** The value at the first x that is not below one, or null. */
export function valueAt(xs, values, x) {
  const index = xs.findIndex((each) => each >= x);
  return index < 0 ? null : values[index];
}
