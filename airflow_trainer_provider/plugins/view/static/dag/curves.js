// The curves of up to five runs, distinguished by colour, dash and label, to compare their shapes.

import { h } from "../lib/dom.js";
import { head } from "../lib/parts.js";
import { chart } from "../chart/draw.js";
import { axisOf } from "../chart/model.js";
import { last, smooth } from "../chart/smooth.js";
import { keyOf } from "./run.js";

const DENSE = 40, SPARSE = 24;
/** The share of the width that the labels at the ends take, and the width of a letter. */
const LABELS = 0.2, LETTER = 6.8;

/** The attempts of a run as one curve: of repeated steps only the last attempt's values are shown. */
function joined(entries) {
  const points = new Map();
  for (const { step, value } of entries) step.forEach((at, index) => at !== null && points.set(at, value[index]));
  const x = [...points.keys()].sort((a, b) => a - b);
  const y = x.map((at) => points.get(at));
  return { x, y: y.length > DENSE ? smooth(y) : y };
}

function tag(app, run) {
  const { champion } = app.view;
  if (champion && keyOf(champion) === keyOf(run)) return " (champion)";
  return run.is_active ? " (running)" : "";
}

/** A label, shortened to the available room; the legend has the whole label. */
function cut(app, text) {
  const letters = Math.max(6, Math.floor((app.ui.chartSize.width * LABELS) / LETTER));
  return text.length > letters ? `${text.slice(0, letters - 1).trimEnd()}…` : text;
}

/** The lines, in the order in which the runs were picked; a run without a curve keeps its colour. */
function lines(app) {
  const runs = new Map(app.view.runs.map((run) => [keyOf(run), run]));
  return app.curves.runs.map((each, index) => ({ run: runs.get(keyOf(each)), index, ...joined(each.entries) }))
    .filter(({ run, y }) => run && last(y) !== null)
    .map(({ run, index, x, y }) => ({ x, y, tone: `run-${index}`, name: app.label(run), title: `${app.label(run)}${tag(app, run)}`, label: cut(app, `${app.label(run)}${tag(app, run)}`), dots: y.length <= SPARSE }));
}

/** The index of a run among the picked ones, which selects its colour; -1 if it is not picked. */
export const toneOf = (app, run) => app.picked().indexOf(keyOf(run));

const note = (text) => h("p", { class: "muted padded" }, text);

function body(app) {
  if (app.curvesError) return note(app.curvesError);
  if (!app.picked().length) return note("Choose runs in the table below.");
  if (!app.curves) return h("div", { class: "chart low", id: "chart" }, note("Loading the values …"));
  const found = lines(app);
  if (!found.length) return note("The scripts of these runs reported no values while they ran: there are no curves.");
  const longest = found.reduce((most, line) => (line.x[line.x.length - 1] > most.x[most.x.length - 1] ? line : most));
  longest.main = true;
  const model = { axis: axisOf({ axis: "step" }), label: `${app.curves.metric} by step`, lines: found, log: false, marks: [] };
  return [
    h("div", { class: "chart low", id: "chart" }, chart(model, app.ui.chartSize, app.ui.cursor, { move: app.moveCursor, say: app.announce })),
    h("div", { class: "legend" }, found.map((line) => h("span", {}, h("i", { class: `key ${line.tone}` }), line.title))),
  ];
}

export function curves(app) {
  const name = app.curves && app.curves.metric;
  return h("section", { "data-key": "curves" }, head("Curves", h("span", { class: "muted" }, `${name ? `${name} of ` : ""}the selected runs, up to 5`)),
    h("div", { class: "box chartbox whole" }, body(app)));
}
