// How many replicas did not run, over time: one strip that shows the incidents of e.g. 200 replicas.

import { h, s } from "../lib/dom.js";
import { number } from "../lib/format.js";
import { swatch } from "../lib/parts.js";
import { ticks } from "../chart/scale.js";
import { timeAxis } from "./lanes.js";

const POINTS = 400, WIDTH = 900, HEIGHT = 60;

function stateAt(row, time, to) {
  const found = row.segments.find(([, from, until]) => from <= time && time < (until ?? to + 1));
  return found ? found[0] : "queued";
}

function samples(rows, { from, to }) {
  const waiting = [], starting = [];
  for (let index = 0; index <= POINTS; index += 1) {
    const time = Math.min(from + ((to - from) * index) / POINTS, to - 0.001);
    const states = rows.map((row) => stateAt(row, time, to));
    waiting.push(states.filter((state) => state === "queued").length);
    starting.push(states.filter((state) => state === "starting").length);
  }
  return { waiting, both: waiting.map((value, index) => value + starting[index]) };
}

/** The scale leaves out the start of the job, when no replica ran yet. */
function top(both, total) {
  const settled = both.findIndex((value) => value <= total * 0.02);
  return Math.max(4, ...(settled < 0 ? both : both.slice(settled))) + 1;
}

/** The diagram of replicas that did not run. */
export function notRunning(rows, period, ended) {
  const { waiting, both } = samples(rows, period);
  const high = top(both, rows.length);
  const x = (index) => ((index / POINTS) * WIDTH).toFixed(1);
  const y = (value) => (HEIGHT - (Math.min(value, high) / high) * HEIGHT).toFixed(1);
  const outline = (values) => values.map((value, index) => `${x(index)},${y(value)}`);
  const area = (values, below, name) => s("polygon", { class: name, points: [...outline(values), ...outline(below).reverse()].join(" ") });
  const lines = ticks(0, high, 3).filter((value) => value > 0 && Number.isInteger(value));
  return h("div", { class: "down" },
    h("div", { class: "subhead" }, h("h3", {}, `Not running, of ${number(rows.length)}`), h("span", { class: "grow" }),
      h("span", { class: "legend" }, h("span", {}, swatch("queued"), ended ? "lost or stopped" : "lost, or waiting for a node"), h("span", {}, swatch("starting"), "starting"))),
    h("div", { class: "down-plot" },
      s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `Replicas that did not run, over time: ${both[both.length - 1]} at the end` },
        lines.map((value) => s("line", { class: "grid", x1: 0, x2: WIDTH, y1: y(value), y2: y(value) })),
        area(waiting, waiting.map(() => 0), "area-queued"), area(both, waiting, "area-starting"),
        s("line", { class: "axis-line", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT })),
      lines.map((value) => h("span", { class: "down-label", style: { top: `${y(value)}px` } }, number(value))),
      timeAxis(period, 6)));
}
