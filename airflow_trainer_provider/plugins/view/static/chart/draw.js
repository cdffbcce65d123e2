// A line chart as SVG, with the reading of its values by pointer and keyboard.

import { h, s } from "../lib/dom.js";
import { metric } from "../lib/format.js";
import { limits, logTicks, scales, tickText, ticks } from "./scale.js";

const LEFT = 48, BOTTOM = 24, LABEL_HEIGHT = 13, PER_LETTER = 6.8;

function geometry(model, { width, height }) {
  const named = model.lines.filter((line) => line.label);
  const right = Math.min(width * 0.24, 16 + PER_LETTER * Math.max(4, ...named.map((line) => line.label.length)));
  const top = model.marks.length ? 22 : 10;
  const area = { left: LEFT, top, width: Math.max(40, width - LEFT - right), height: Math.max(40, height - top - BOTTOM) };
  const range = limits(model.lines, model.log);
  return { area, range, ...scales(range, area, model.log) };
}

function grid(model, place) {
  const { area, range } = place;
  const rows = model.log ? logTicks(range.low, range.high) : ticks(range.low, range.high, area.height > 180 ? 5 : 3);
  const columns = model.axis.ticks(range.left, range.right, Math.max(2, Math.floor(area.width / 90)));
  const edge = area.left + area.width;
  const foot = area.top + area.height;
  return [
    ...rows.flatMap((value) => [
      s("line", { class: "grid", x1: area.left, x2: edge, y1: place.y(value), y2: place.y(value) }),
      s("text", { x: area.left - 8, y: place.y(value) + 4, "text-anchor": "end" }, tickText(value, rows)),
    ]),
    ...columns.map((value) => s("text", { x: place.x(value), y: foot + 18, "text-anchor": "middle" }, model.axis.tick(value, columns))),
    s("line", { class: "axis-line", x1: area.left, x2: edge, y1: foot, y2: foot }),
  ];
}

/** The path of a line; a value that is not finite breaks it. */
function path(line, place, log) {
  let text = "";
  let pen = "M";
  line.x.forEach((x, index) => {
    const value = line.y[index];
    if (!Number.isFinite(value) || (log && value <= 0)) pen = "M";
    else {
      text += `${pen}${place.x(x).toFixed(1)} ${place.y(value).toFixed(1)}`;
      pen = "L";
    }
  });
  return text;
}

function dot(line, place, index) {
  const [x, y] = [place.x(line.x[index]), place.y(line.y[index])];
  if (line.tone === "eval") return s("rect", { class: "dot eval", x: x - 2.5, y: y - 2.5, width: 5, height: 5 });
  return s("circle", { class: `dot ${line.tone}`, cx: x, cy: y, r: 2.5 });
}

function drawn(line, place, log) {
  const parts = [s("path", { class: `line ${line.tone}`, d: path(line, place, log), "clip-path": "url(#plot)" })];
  if (line.dots) line.y.forEach((value, index) => Number.isFinite(value) && value <= place.range.high && value >= place.range.low && parts.push(dot(line, place, index)));
  return parts;
}

const lastFinite = (line) => line.y.findLastIndex((value) => Number.isFinite(value));

/** Labels at the ends of their lines, moved apart if they would overlap. */
function labels(model, place) {
  const floor = place.area.top + place.area.height;
  const all = model.lines.filter((line) => line.label && lastFinite(line) >= 0)
    .map((line) => ({ line, x: place.x(line.x[lastFinite(line)]) + 6, y: Math.max(place.area.top + 4, place.y(line.y[lastFinite(line)]) + 4) }))
    .sort((a, b) => a.y - b.y);
  all.forEach((each, index) => {
    for (const above of all.slice(0, index)) if (Math.abs(each.x - above.x) < 80) each.y = Math.max(each.y, above.y + LABEL_HEIGHT);
  });
  const over = all.length ? Math.max(0, all[all.length - 1].y - floor) : 0;
  return all.map(({ line, x, y }) => s("text", { class: `label ${line.tone}`, x, y: y - (over && y > floor - 3 * LABEL_HEIGHT ? over : 0) }, line.label));
}

function cut(text, letters) {
  return text.length > letters ? `${text.slice(0, Math.max(8, letters - 1))}…` : text;
}

function restartMarks(model, place) {
  const { area } = place;
  let free = 0;
  return model.marks.filter((mark) => mark.x >= place.range.left && mark.x <= place.range.right).flatMap((mark) => {
    const x = place.x(mark.x);
    const flip = x > area.left + area.width * 0.6;
    const text = cut(mark.text, Math.floor((flip ? x : area.left + area.width + 60 - x) / PER_LETTER));
    const start = flip ? x - 4 - text.length * PER_LETTER : x + 4;
    const fits = start >= free;
    if (fits) free = flip ? x : start + text.length * PER_LETTER;
    return [
      s("line", { class: "restart", x1: x, x2: x, y1: 16, y2: area.top + area.height }, s("title", {}, mark.text)),
      fits ? s("text", { class: "mark", x: x + (flip ? -4 : 4), y: 12, "text-anchor": flip ? "end" : "start" }, text, s("title", {}, mark.text)) : null,
    ];
  });
}

function picture(model, place, size) {
  const { area, range } = place;
  return s("svg", { viewBox: `0 0 ${size.width} ${size.height}`, width: size.width, height: size.height, "aria-hidden": "true" },
    s("clipPath", { id: "plot" }, s("rect", { x: area.left, y: area.top, width: area.width + 60, height: area.height + 1 })),
    grid(model, place),
    restartMarks(model, place),
    model.lines.map((line) => drawn(line, place, model.log)),
    range.above === null ? null : s("text", { class: "note", x: area.left + area.width, y: area.top + 14, "text-anchor": "end" }, `starts at ${metric(range.above)}, above this scale`),
    labels(model, place));
}

const mainLine = (model) => model.lines.find((line) => line.main) || model.lines[model.lines.length - 1];

function nearest(xs, x) {
  let best = 0;
  xs.forEach((each, index) => {
    if (Math.abs(each - x) <= Math.abs(xs[best] - x)) best = index;
  });
  return best;
}

/** The values of the lines near a position. */
export function reading(model, place, x) {
  const reach = (place.range.right - place.range.left) * 0.03;
  return model.lines.filter((line) => line.name).map((line) => ({ line, index: nearest(line.x, x) }))
    .filter(({ line, index }) => Math.abs(line.x[index] - x) <= reach)
    .map(({ line, index }) => ({ line, value: line.y[index] }));
}

/** The hair line and the box with the values, at the cursor. */
function overlay(model, place, size, cursor) {
  if (cursor === null) return h("div", { class: "overlay", id: "chart-overlay" });
  const x = place.x(cursor);
  const rows = reading(model, place, cursor);
  const left = x + 190 > size.width ? Math.max(0, x - 192) : x + 12;
  return h("div", { class: "overlay", id: "chart-overlay" },
    h("i", { class: "hair", style: { left: `${x}px`, top: `${place.area.top}px`, height: `${place.area.height}px` } }),
    h("div", { class: "tip", style: { left: `${left}px` } },
      h("b", {}, `${model.axis.name} ${model.axis.text(cursor)}`),
      rows.map(({ line, value }) => h("div", { class: "tip-row" }, h("span", {}, h("i", { class: `key ${line.tone}` }), line.name), h("b", {}, metric(value))))));
}

const MOVES = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

/** The chart. `cursor` is the selected position, or null; `move` selects another, and `say` announces its values. */
export function chart(model, size, cursor, { move, say }) {
  const place = geometry(model, size);
  const { x } = mainLine(model);
  const at = (value) => x[nearest(x, value)];
  const show = (value) => move(value, overlay(model, place, size, value));
  const onpointermove = (event) => show(at(place.value(event.clientX - event.currentTarget.getBoundingClientRect().left)));
  const onkeydown = (event) => {
    if (!(event.key in MOVES)) return;
    event.preventDefault();
    const index = Math.max(0, Math.min(x.length - 1, cursorIndex(x, event.currentTarget) + MOVES[event.key]));
    event.currentTarget.dataset.at = x[index];
    show(x[index]);
    const values = reading(model, place, x[index]).map(({ line, value }) => `${line.name} ${metric(value)}`).join(", ");
    say(`${model.axis.name} ${model.axis.text(x[index])}: ${values}`);
  };
  const leave = () => show(null);
  return h("div", { class: "plot", id: "plot-area", tabindex: "0", role: "application", "aria-roledescription": "chart", "aria-label": `${model.label}. Arrow keys read the values.`, "data-at": cursor, onpointermove, onpointerleave: leave, onblur: leave, onkeydown },
    picture(model, place, size), overlay(model, place, size, cursor));
}

/** The index of the point that the keyboard has selected; initially after the last one. */
function cursorIndex(xs, element) {
  const at = element.dataset.at;
  return at === undefined || at === "" ? xs.length : nearest(xs, Number(at));
}
