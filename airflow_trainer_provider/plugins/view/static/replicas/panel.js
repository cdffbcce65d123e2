// The replicas that are not ready, and since when.

import { h, icon } from "../lib/dom.js";
import { epoch, number } from "../lib/format.js";
import { grow, head, segments } from "../lib/parts.js";
import { notRunning } from "./down.js";
import { STEP, laneLegend, lanes, stateCounts } from "./lanes.js";
import { strip } from "./strip.js";

const FEW = 20, SLOWEST = 10, END = 120;
const ORDER = ["failed", "queued", "starting", "restarting", "stuck", "suspended", "running", "succeeded", "stopped", "cancelled"];

/** The time range of the lanes; for a failed job initially its end, which shows cause and consequence. */
function period(app, rows) {
  const { view } = app;
  const times = rows.flatMap((row) => row.segments.flatMap(([, from, to]) => [from, to])).filter(Number.isFinite);
  const last = view.status.finished_at ? Math.max(epoch(view.status.finished_at), ...times) : epoch(view.as_of);
  const first = Math.min(epoch(view.status.queued_at) ?? last, ...times);
  if (!view.failure) return { from: first, to: Math.max(last, first + 1) };
  const end = last + 2;
  const zoomed = app.choices.zoom !== "all" && end - first > END;
  return { from: zoomed ? end - END : first, to: end };
}

function zoom(app, rows) {
  if (!app.view.failure) return null;
  return segments("Time shown", [["", "Last 2 min"], ["all", "Whole run"]], app.choices.zoom, (id) => app.choose("zoom", id));
}

function countStates(rows) {
  return ORDER.map((state) => [state, rows.filter((row) => row.state === state).length]).filter(([, found]) => found);
}

function sentence(app, rows) {
  const counts = new Map(countStates(rows));
  const of = (state) => counts.get(state) || 0;
  if (app.view.failure && of("failed")) return of("stopped") ? `${number(of("failed"))} failed, ${number(of("stopped"))} stopped because of it` : `${number(of("failed"))} failed`;
  if (of("succeeded") === rows.length) return `${number(rows.length)} completed`;
  if (of("stuck")) return `${number(of("running") + of("stuck"))} of ${number(rows.length)} running, ${of("running") ? `${number(of("stuck"))} without progress` : "none finishes a step"}`;
  return `${number(of("running"))} of ${number(rows.length)} running`;
}

function options(app, rows, many) {
  const culprit = app.view.failure ? app.view.failure.replica : null;
  const failed = rows.find((row) => row.name === culprit);
  const median = app.replicas.step_seconds && app.replicas.step_seconds.median;
  return { culprit, failedAt: failed ? epoch(failed.finished_at) : null, many, median, slow: false };
}

/** The rows with the time of their end, which is their last event. */
function withEnds(rows) {
  return rows.map((row) => {
    const end = (row.events || []).filter((event) => ["failed", "stopped", "done"].includes(event.kind)).pop();
    return { ...row, segments: row.segments || [], finished_at: end ? end.at : null };
  });
}

function few(app, rows) {
  const shown = period(app, rows);
  return h("section", { class: "replicas", "data-key": "replicas" },
    head("Replicas", h("span", { class: "muted" }, sentence(app, rows)), grow(), laneLegend(rows, shown), zoom(app, rows)),
    lanes(rows, app, shown, options(app, rows, false)));
}

/** The lists that a reader chooses from: name, text, replicas. */
function filters(app, rows) {
  const failed = rows.filter((row) => row.state === "failed");
  const ended = Boolean(app.view.failure);
  const idle = ended ? failed : rows.filter((row) => !["running", "succeeded"].includes(row.state));
  const timed = rows.filter((row) => row.step_seconds).sort((a, b) => b.step_seconds - a.step_seconds).slice(0, SLOWEST);
  const again = rows.filter((row) => row.restarts);
  return [
    ["idle", `${ended ? "Failed" : "Not running"} ${number(idle.length)}`, idle],
    timed.length ? ["slow", `Slowest ${timed.length}`, timed] : null,
    again.length && !ended ? ["restarted", `Restarted ${number(again.length)}`, again] : null,
    ["all", `All ${number(rows.length)}`, rows]].filter(Boolean);
}

function listed(app, rows, found) {
  const text = app.ui.search.trim().toLowerCase();
  if (text) return rows.filter((row) => [row.name, row.ranks, row.node].some((each) => String(each || "").toLowerCase().includes(text)));
  if (app.ui.picked) return rows.filter((row) => row.name === app.ui.picked);
  return found[2];
}

function chosen(app, all) {
  const first = all[0][2].length ? "idle" : all.length > 2 ? all[1][0] : "all";
  return all.find(([id]) => id === (app.choices.replicas || first)) || all[0];
}

function find(app) {
  return h("label", { class: "search" }, icon("search", "small"), h("span", { class: "sr" }, "Find a replica"),
    h("input", { type: "search", id: "find-replica", placeholder: "Replica, rank or node", autocomplete: "off", oninput: (event) => app.show({ search: event.target.value, shown: STEP.many }) }));
}

function many(app, rows) {
  const shown = period(app, rows);
  const all = filters(app, rows);
  const filter = chosen(app, all);
  const list = listed(app, rows, filter);
  const free = app.ui.search || app.ui.picked;
  const choose = (id) => {
    app.ui.picked = null;
    app.ui.shown = STEP.many;
    app.choose("replicas", id);
  };
  const rest = list.length - app.ui.shown;
  return h("section", { class: "replicas", "data-key": "replicas" },
    head("Replicas", h("span", { class: "muted" }, sentence(app, rows)), grow(), stateCounts(countStates(rows)), zoom(app, rows)),
    notRunning(rows, shown, Boolean(app.view.failure)),
    strip(app, rows),
    h("div", { class: "subhead filters" }, segments("Replicas listed", all.map(([id, text]) => [id, text]), free ? "" : filter[0], choose),
      app.ui.picked && !app.ui.search ? h("span", { class: "muted" }, `Picked: ${app.ui.picked}`) : null, grow(), find(app)),
    list.length ? lanes(list.slice(0, app.ui.shown), app, shown, { ...options(app, rows, true), slow: filter[0] === "slow" && !free }) : h("p", { class: "muted padded" }, free ? "No replica matches." : "None."),
    rest > 0 ? h("p", { class: "show-more" }, h("button", { type: "button", class: "button tiny", onclick: () => app.show({ shown: app.ui.shown + STEP.lanes }) }, `Show ${Math.min(STEP.lanes, rest)} more of ${number(list.length)}`)) : null);
}

/** The replicas: a lane for each, or lanes of those that deviate and a strip of all. Null if none is known. */
export function replicas(app) {
  if (!app.replicas || !app.replicas.rows || !app.replicas.rows.length) return null;
  const rows = withEnds(app.replicas.rows);
  return rows.length > FEW ? many(app, rows) : few(app, rows);
}
