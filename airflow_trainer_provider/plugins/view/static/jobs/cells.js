// The cells of a job's row: two lines each at most.

import { h, icon } from "../lib/dom.js";
import { clock, clockRange, duration, epoch, number, share, step } from "../lib/format.js";
import { airflowLink } from "../lib/frame.js";
import { badge } from "../lib/states.js";
import { FRAMEWORKS } from "../task/facts.js";
import { tabPath } from "./menu.js";

const small = (text) => h("small", { class: "cut block", title: text }, text);

/** Text in the two lines that a row has. */
const note = (text, tone = "") => h("span", { class: `note ${tone}`, title: text }, text);

/** `scheduled__2026-11-21T14:19:00+00:00` as `scheduled 21 Nov 14:19`, in the reader's time zone. */
function runLabel(app, run) {
  const found = /^(\w+?)__(\d{4}-\d\d-\d\dT\d\d:\d\d[^_]*)/.exec(run);
  return found && epoch(found[2]) !== null ? `${found[1]} ${clock(found[2], app.now())}` : run;
}

export function state(row) {
  return [badge(row.state), row.stale_since ? h("small", {}, icon("alert", "small"), " last known") : null];
}

/** The DAG's name is cut first. */
export function task(app, row) {
  const name = row.map_index < 0 ? row.task_id : `${row.task_id}[${row.map_index}]`;
  const address = airflowLink("two", tabPath(row), h("span", { class: "cut" }, row.dag_id), h("span", { class: "keep" }, ` / ${name}`));
  address.title = `${row.dag_id} / ${name}\n${row.run_id}\n${row.name}`;
  return [address, small(runLabel(app, row.run_id))];
}

export const frameworkTitle = (name) => FRAMEWORKS[name] || name || "–";

export const framework = (row) => [frameworkTitle(row.framework), small(row.backend || "–")];

export function size(row) {
  if (!row.nodes) return "–";
  const each = row.gpus / row.nodes;
  if (!row.gpus) return `${number(row.nodes)} × CPU`;
  return Number.isInteger(each) ? `${number(row.nodes)} × ${number(each)} GPU` : `${number(row.gpus)} GPU`;
}

function place(app, row) {
  const { position: at } = row;
  if (!at) return note(row.note);
  const start = at.earliest || at.latest;
  return [h("span", { class: "cut block" }, `Position ${number(at.position)}${at.length ? ` of ${number(at.length)}` : ""} `, h("span", { class: "muted" }, at.queue ? `in ${at.queue}` : null)),
    small(start ? `starts ${clockRange(start, at.latest || start, app.now())}` : "start unknown")];
}

function bar(part, row) {
  const done = Math.max(0, Math.min(1, part));
  const tone = row.state === "suspended" ? "idle" : row.stale_since ? "amber" : "";
  return h("span", { class: "barcell" }, share(done, 0),
    h("span", { class: `bar thin ${tone}`, role: "progressbar", "aria-label": "Progress", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(done * 100) },
      h("i", { class: "fill", style: { width: `${done * 100}%` } })));
}

function ends(app, row) {
  const { eta } = row.progress;
  if (row.state !== "running" || row.stale_since) return small(row.note);
  return small(eta ? `ends ${clockRange(eta.earliest, eta.latest, app.now())}` : "end unknown");
}

function ofSteps(app, row) {
  const { step: at, total_steps: total, percent } = row.progress;
  if (total && at !== null) return [bar(at / total, row), ends(app, row)];
  if (percent !== null) return [bar(percent / 100, row), ends(app, row)];
  return at === null ? null : [`Step ${step(at)}`, small("no total is reported")];
}

/** The job's progress, its position in its queue, or why it has neither. */
export function progress(app, row) {
  if (row.state === "queued") return place(app, row);
  const steps = row.is_active && row.progress ? ofSteps(app, row) : null;
  if (steps) return steps;
  if (row.state === "running" && !row.stale_since) return [h("span", { class: "muted" }, "No progress reported"), small(row.note)];
  return note(row.note, row.state === "succeeded" ? "muted" : "");
}

export function started(app, row) {
  if (row.started_at) return clock(row.started_at, app.now());
  return ["–", row.queued_at ? small(`queued ${clock(row.queued_at, app.now())}`) : null];
}

/** How long the job has run, or has waited so far. */
export function time(app, row) {
  const from = epoch(row.started_at) ?? epoch(row.queued_at);
  if (from === null) return "–";
  const to = row.is_active ? app.now() : epoch(row.finished_at);
  const text = to === null ? "–" : duration(to - from);
  return row.started_at || !row.is_active ? text : [h("span", { class: "muted" }, text), small("waiting")];
}
