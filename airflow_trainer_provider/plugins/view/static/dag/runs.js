// Metric, durations and outcome of the runs on one axis: whether the training gets better, and at what cost.

import { h, s } from "../lib/dom.js";
import { metric } from "../lib/format.js";
import { grow, head } from "../lib/parts.js";
import { STATES, stateIcon } from "../lib/states.js";
import { scales, tickText, ticks, timeTicks } from "../chart/scale.js";
import { KINDS, keyOf, outcomeWord, reading, total } from "./run.js";

const LEFT = 48, RIGHT = 12, METRIC = 150, DURATION = 84, TITLE = 24, GAP = 14, PER_LABEL = 7, TIP = 190;
const FILLS = { queued: "var(--lane-queued)", starting: "url(#hatch-starting)", running: "var(--lane-running)", redone: "url(#hatch-redone)" };
const MOVES = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

const oldestFirst = (app) => [...app.view.runs].reverse();

/** The positions of the panels; a panel without data is left out. */
function geometry(app, runs) {
  const width = app.ui.runsWidth;
  const column = (width - LEFT - RIGHT) / runs.length;
  const values = runs.map((run) => run.metrics[app.view.metric]).filter(Number.isFinite);
  const metricTop = TITLE;
  const durationTop = (values.length ? metricTop + METRIC + GAP : 0) + TITLE;
  const outcomeTop = durationTop + DURATION + 8;
  return { width, column, values, metricTop, durationTop, outcomeTop, height: outcomeTop + 42, x: (index) => LEFT + column * (index + 0.5) };
}

function rule(place, y, text) {
  return [s("line", { class: "grid", x1: LEFT, x2: place.width - RIGHT, y1: y, y2: y }), s("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, text)];
}

/** The best value so far, as a step line that begins at the first run with a value. */
function bestSoFar(app, runs, place, y) {
  const { better } = app.view.metrics.find((each) => each.name === app.view.metric);
  if (!better) return null;
  let best = null;
  let d = "";
  runs.forEach((run, index) => {
    const value = run.metrics[app.view.metric];
    if (Number.isFinite(value) && (best === null || (better === "lower" ? value < best : value > best))) best = value;
    const [from, to] = [place.x(index) - place.column / 2, place.x(index) + place.column / 2];
    if (best !== null) d += `${d ? "L" : "M"}${from.toFixed(1)} ${y(best).toFixed(1)}L${to.toFixed(1)} ${y(best).toFixed(1)}`;
  });
  return s("path", { class: "best", d });
}

function champion(app, runs, place, y) {
  const best = app.view.champion;
  const index = best ? runs.findIndex((run) => keyOf(run) === keyOf(best)) : -1;
  if (index < 0) return null;
  const x = place.x(index);
  const text = place.width < 560 ? metric(best.value) : `champion ${metric(best.value)}`;
  const half = (text.length * PER_LABEL) / 2;
  // The label is on the side of the line without better values.
  const below = app.view.metrics.find((each) => each.name === app.view.metric).better === "lower";
  return [
    s("circle", { class: "ring", cx: x, cy: y(best.value), r: 8 }),
    s("text", { class: "ring-label", x: Math.min(Math.max(x, LEFT + half), place.width - RIGHT - half), y: y(best.value) + (below ? 22 : -14), "text-anchor": "middle" }, text),
  ];
}

function metricPanel(app, runs, place) {
  if (!place.values.length) return null;
  const name = app.view.metric;
  const [least, most] = [Math.min(...place.values), Math.max(...place.values)];
  const room = (most - least) * 0.12 || Math.abs(most) * 0.1 || 1;
  const range = { left: 0, right: 1, low: least - room, high: most + room };
  const { y } = scales(range, { left: 0, width: 1, top: place.metricTop, height: METRIC }, false);
  const rows = ticks(range.low, range.high, 4);
  const points = runs.map((run, index) => [place.x(index), run.metrics[name]]).filter(([, value]) => Number.isFinite(value));
  const stepped = bestSoFar(app, runs, place, y);
  return [
    s("text", { x: LEFT, y: 12 }, stepped ? `${name}; the stepped line is the best so far` : name),
    rows.map((value) => rule(place, y(value), tickText(value, rows))),
    stepped,
    s("path", { class: "line train", d: points.map(([x, value], index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y(value).toFixed(1)}`).join("") }),
    points.map(([x, value]) => s("circle", { class: "point", cx: x, cy: y(value), r: Math.min(3.5, Math.max(1.5, place.column / 3)) })),
    champion(app, runs, place, y),
  ];
}

function axisTime(seconds) {
  if (seconds % 3600 === 0) return seconds ? `${seconds / 3600} h` : "0";
  return seconds % 60 === 0 ? `${seconds / 60} min` : `${seconds} s`;
}

function hatch(name, size) {
  return s("pattern", { id: `hatch-${name}`, width: size, height: size, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect", { width: 2, height: size, fill: `var(--lane-${name})` }));
}

function durationPanel(runs, place) {
  const longest = Math.max(1, ...runs.map(total));
  const foot = place.durationTop + DURATION;
  const y = (seconds) => foot - (seconds / longest) * DURATION;
  const wide = Math.min(26, place.column * 0.66);
  const bars = runs.flatMap((run, index) => {
    let from = 0;
    return Object.keys(KINDS).filter((kind) => run.durations[kind]).map((kind) => {
      const [low, high] = [y(from), y(from += run.durations[kind])];
      return s("rect", { x: place.x(index) - wide / 2, y: high, width: wide, height: Math.max(0.8, low - high - 0.8), fill: FILLS[kind] });
    });
  });
  return [s("defs", {}, hatch("starting", 4), hatch("redone", 3)), s("text", { x: LEFT, y: place.durationTop - 10 }, "Duration"),
    timeTicks(0, longest, 2).map((value) => rule(place, y(value), axisTime(value))), bars];
}

function dates(app, runs, place) {
  const texts = runs.map((run) => app.label(run));
  const every = Math.ceil((Math.max(...texts.map((text) => text.length)) * PER_LABEL) / place.column);
  return texts.map((text, index) => {
    if (index % every || (place.column < PER_LABEL && index + every > texts.length)) return null;
    const half = (text.length * PER_LABEL) / 2;
    return s("text", { x: Math.min(place.x(index), place.width - half), y: place.outcomeTop + 34, "text-anchor": "middle" }, text);
  });
}

/** The outcomes: HTML elements above the SVG, since each has an icon. */
function outcomes(runs, place) {
  const size = Math.max(2, Math.min(16, place.column - 2));
  const known = (run) => (STATES[run.outcome] ? run.outcome : "cancelled");
  return runs.map((run, index) => h("i", { class: `outcome st-${known(run)}`, style: { left: `${place.x(index) - size / 2}px`, top: `${place.outcomeTop}px`, width: `${size}px`, height: `${Math.max(8, size)}px` } },
    size >= 12 ? stateIcon(run.outcome) : null));
}

/** The box with the properties of the run under the pointer. */
export function tip(app) {
  const runs = oldestFirst(app);
  const index = runs.findIndex((run) => keyOf(run) === app.ui.pointed);
  if (index < 0) return h("div", { id: "runs-tip" });
  const run = runs[index];
  const place = geometry(app, runs);
  const right = place.x(index) + place.column / 2 + 8;
  const left = right + TIP > place.width ? Math.max(0, place.x(index) - place.column / 2 - TIP - 8) : right;
  return h("div", { id: "runs-tip", class: "tip", style: { left: `${left}px` } },
    h("b", {}, `${app.label(run)}, ${outcomeWord(run).toLowerCase()}`),
    reading(run, app.view.metric).map(([name, text]) => h("div", { class: "tip-row" }, h("span", {}, name), h("b", {}, text))));
}

/** The run at a position in the chart. */
function runAt(event, runs, place) {
  const x = event.clientX - event.currentTarget.getBoundingClientRect().left;
  const index = Math.floor((x - LEFT) / place.column);
  return runs[index] ? keyOf(runs[index]) : null;
}

/** The arrow keys step through the runs, and Enter goes to the run's row. */
function byKeyboard(app, runs) {
  return (event) => {
    const at = runs.findIndex((run) => keyOf(run) === app.ui.pointed);
    if (event.key === "Enter" && at >= 0) app.goTo(app.ui.pointed);
    if (!(event.key in MOVES)) return;
    event.preventDefault();
    const index = at < 0 ? runs.length - 1 : Math.max(0, Math.min(runs.length - 1, at + MOVES[event.key]));
    app.point(keyOf(runs[index]));
    const values = reading(runs[index], app.view.metric).map(([name, text]) => `${name} ${text}`).join(", ");
    app.announce(`${app.label(runs[index])}, ${outcomeWord(runs[index]).toLowerCase()}${values ? `: ${values}` : ""}`);
  };
}

function drawing(app) {
  const runs = oldestFirst(app);
  const place = geometry(app, runs);
  const columns = runs.map((run, index) => s("rect", { class: `column${keyOf(run) === app.ui.pointed ? " on" : ""}`, "data-run": keyOf(run), x: LEFT + place.column * index, y: 16, width: place.column, height: place.height - 16 }));
  const label = `${app.view.metric ? `${app.view.metric}, durations` : "Durations"} and outcomes of ${runs.length} runs. Arrow keys read the runs, Enter goes to the row.`;
  const to = (event) => app.point(runAt(event, runs, place));
  const go = (event) => {
    const key = runAt(event, runs, place);
    if (key) app.goTo(key);
  };
  const leave = () => app.point(null);
  return h("div", { class: "plot", tabindex: "0", role: "application", "aria-roledescription": "chart", "aria-label": label, onpointermove: to, onclick: go, onpointerleave: leave, onkeydown: byKeyboard(app, runs), style: { height: `${place.height}px` } },
    s("svg", { viewBox: `0 0 ${place.width} ${place.height}`, width: place.width, height: place.height, "aria-hidden": "true" },
      columns, metricPanel(app, runs, place), durationPanel(runs, place), dates(app, runs, place)),
    outcomes(runs, place), tip(app));
}

function legend(app) {
  const shown = Object.keys(KINDS).filter((kind) => app.view.runs.some((run) => run.durations[kind]));
  return h("div", { class: "legend" }, shown.map((kind) => h("span", {}, h("i", { class: `swatch ${kind}` }), KINDS[kind])));
}

export function runsChart(app) {
  const { metric: name, metrics } = app.view;
  const found = metrics.find((each) => each.name === name);
  const direction = found && found.better ? `${name}, ${found.better} is better` : name;
  return h("section", { "data-key": "runs" }, head("Runs", h("span", { class: "muted" }, direction || "no metric"), grow(), legend(app)),
    h("div", { class: "box runs-box" }, h("div", { id: "runs-chart" }, drawing(app))));
}
