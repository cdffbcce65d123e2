// A replica's history as a lane: queued, starting, running, and what interrupted it.

import { h, icon } from "../lib/dom.js";
import { age, bytes, clock, duration, number, seconds } from "../lib/format.js";
import { airflowLink } from "../lib/frame.js";
import { stateIcon, stateText, stateWord } from "../lib/states.js";
import { timeTicks } from "../chart/scale.js";

const EVENTS = {
  lost: ["cross", "failed", "lost or failed"], failed: ["cross", "failed", "lost or failed"], restart: ["repeat", "restarting", "restarted"],
  stopped: ["square", "stopped", "stopped"], done: ["check", "succeeded", "completed"],
};
const SEGMENTS = { queued: "queued", starting: "starting", running: "running", stuck: "running, no step finishes" };

export const STEP = { lanes: 20, many: 8 };

const eventOf = (event) => EVENTS[event.kind] || EVENTS.stopped;

/** `rank 0`, `ranks 172–175`. */
export function ranksOf(row) {
  if (row.ranks === null || row.ranks === undefined || row.ranks === "") return "";
  return `${/[–,-]/.test(row.ranks) ? "ranks" : "rank"} ${row.ranks}`;
}

/** The times below the lanes' head. */
export function timeAxis({ from, to }, wanted = 4) {
  const times = timeTicks(from, to, wanted);
  const exact = times.length > 1 && times[1] - times[0] < 60;
  return h("div", { class: "axis", "aria-hidden": "true" }, times.map((time) => {
    const at = (time - from) / (to - from || 1);
    const edge = at < 0.06 ? "first" : at > 0.92 ? "last" : null;
    return h("span", { class: edge, style: { left: `${at * 100}%` } }, exact ? seconds(time) : clock(time));
  }));
}

function history(row, to) {
  const parts = row.segments.map(([state, start, end]) => `${stateWord(state)} ${seconds(start)} to ${seconds(end ?? to)}`);
  return [...parts, ...(row.events || []).map((event) => `${seconds(event.at)} ${event.text}`)].join("; ");
}

function lane(row, { from, to }) {
  const at = (time) => Math.max(0, Math.min(100, ((time - from) / (to - from || 1)) * 100));
  const shown = row.segments.map(([state, start, end]) => [state, start, end ?? to]).filter(([, start, end]) => end >= from && start <= to);
  const events = (row.events || []).filter((event) => event.at >= from && event.at <= to);
  return h("div", { class: "lane", role: "img", "aria-label": history(row, to) || "No history" }, h("i", { class: "base" }),
    shown.map(([state, start, end]) => h("i", { class: `segment ${SEGMENTS[state] ? state : "queued"}`, style: { left: `${at(start)}%`, width: `${at(end) - at(start)}%` }, title: `${stateWord(state)} ${seconds(start)}–${seconds(end)} (${duration(end - start)})` })),
    events.map((event) => h("span", { class: `event fg-${eventOf(event)[1]}`, style: { left: `${Math.min(99, at(event.at))}%` }, title: `${seconds(event.at)} ${event.text}` }, icon(eventOf(event)[0]))));
}

/** The legend of the lanes, with only the states and events that occur. */
export function laneLegend(rows, { from, to }) {
  const states = new Set(rows.flatMap((row) => row.segments.filter(([, , end]) => (end ?? to) >= from).map(([state]) => state)));
  const events = new Map(rows.flatMap((row) => (row.events || []).filter((event) => event.at >= from && event.at <= to)).map((event) => [eventOf(event)[2], eventOf(event)]));
  return h("div", { class: "lane-legend" },
    Object.entries(SEGMENTS).filter(([state]) => states.has(state)).map(([state, name]) => h("span", {}, h("i", { class: `segment ${state}` }), name)),
    [...events.values()].map(([symbol, tone, name]) => h("span", {}, h("span", { class: `fg-${tone}` }, icon(symbol, "small")), " ", name)));
}

function endNote(row, failedAt) {
  if (row.signal) {
    const late = failedAt && row.finished_at ? row.finished_at - failedAt : null;
    return `${row.signal}${late !== null && late >= 0 ? ` +${duration(late)}` : ""}`;
  }
  return null;
}

function since(row, to) {
  const [, start] = row.segments[row.segments.length - 1] || [];
  return start === undefined || row.state === "running" ? null : age(to - start);
}

function state(row, app, to, failedAt) {
  const ended = ["succeeded", "failed", "stopped", "cancelled"].includes(row.state);
  const word = row.state === "running" || row.state === "succeeded" || row.state === "stopped" || !row.reason ? stateWord(row.state) : row.reason;
  const text = row.exit_code !== null && row.exit_code !== undefined && row.state === "failed" ? `${word}, exit ${row.exit_code}` : word;
  const note = ended ? endNote(row, failedAt) : since(row, to);
  return stateText(row.state, text, note ? h("small", {}, ` ${note}`) : null);
}

function stepTime(row, median) {
  if (!row.step_seconds) return h("span", { class: "muted" }, "not reported");
  const times = median ? h("small", {}, ` ${number(row.step_seconds / median, 1)} × median`) : null;
  return h("span", {}, `${number(row.step_seconds, 2)} s`, times);
}

function details(row, app) {
  const last = (row.events || [])[row.events ? row.events.length - 1 : 0];
  const rows = [
    ["Node", row.node || "none yet"], ["Ranks", row.ranks || "–"], ["State", [stateWord(row.state), row.reason, row.message].filter(Boolean).join(": ")],
    ["Restarts", String(row.restarts || 0)], ["Last event", last ? `${seconds(last.at, app.view.as_of)} ${last.text}` : "none"],
    ["Step time", row.step_seconds ? `${number(row.step_seconds, 3)} s` : "not reported"]];
  return h("div", {}, h("dl", { class: "detail" }, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    h("p", {}, airflowLink("", app.logPath(), `Log of ${row.name}`)));
}

function twoRows(row, app, period, options) {
  const open = app.ui.open.has(row.name);
  const id = `more-${row.name}`;
  const press = () => {
    if (!app.ui.open.delete(row.name)) app.ui.open.add(row.name);
    app.redraw();
  };
  const culprit = row.name === options.culprit;
  return [
    h("tr", { class: culprit ? "row culprit" : "row", "data-key": row.name },
      h("td", { class: "c-name" }, h("button", { type: "button", class: "rowbutton", "aria-expanded": open ? "true" : "false", "aria-controls": open ? id : null, onclick: press },
        icon("right", "small"), h("span", { class: "cut" }, row.name, h("span", { class: "rank" }, ` ${ranksOf(row)}`)))),
      h("td", { class: "c-lane" }, lane(row, period)),
      h("td", { class: "c-state" }, options.slow ? stepTime(row, options.median) : state(row, app, period.to, options.failedAt)),
      h("td", { class: "c-memory" }, bytes(row.peak_memory_bytes))),
    open ? h("tr", { class: "more", "data-key": id, id }, h("td", { colspan: 4 }, details(row, app))) : null];
}

/** A table of lanes. options: culprit, failedAt, slow, median, many. */
export function lanes(rows, app, period, options) {
  return h("table", { class: options.many ? "lanes many" : "lanes" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "c-name" }, "Replica"), h("th", { scope: "col", class: "c-lane" }, timeAxis(period, app.narrow() ? 3 : 4), h("span", { class: "sr" }, "History")),
      h("th", { scope: "col", class: "c-state" }, options.slow ? "Step time" : "State"), h("th", { scope: "col", class: "c-memory" }, "Peak memory"))),
    h("tbody", {}, rows.map((row) => twoRows(row, app, period, options))));
}

/** Icons with the number of replicas in each state. */
export function stateCounts(counts) {
  return h("div", { class: "lane-legend" }, counts.map(([each, rows]) => h("span", { class: "st" }, h("span", { class: `fg-${each}` }, stateIcon(each)), `${number(rows)} ${stateWord(each).toLowerCase()}`)));
}

