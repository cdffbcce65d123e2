// A metric's curve in the size of a word.

import { s } from "../lib/dom.js";

const WIDTH = 44, HEIGHT = 18;

/** A small curve; values that are not finite break it. */
export function spark(values) {
  const found = (values || []).filter((value) => Number.isFinite(value));
  if (found.length < 2) return null;
  const low = Math.min(...found);
  const span = Math.max(...found) - low || 1;
  let pen = "M";
  let d = "";
  values.forEach((value, index) => {
    if (!Number.isFinite(value)) pen = "M";
    else {
      d += `${pen}${(1 + (index / (values.length - 1)) * (WIDTH - 2)).toFixed(1)} ${(HEIGHT - 2 - ((value - low) / span) * (HEIGHT - 4)).toFixed(1)}`;
      pen = "L";
    }
  });
  return s("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" }, s("path", { d }));
}
