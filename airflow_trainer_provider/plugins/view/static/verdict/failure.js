// Why the job failed: the first failure, its traceback, and what to do.

import { h } from "../lib/dom.js";
import { duration, epoch, seconds, step } from "../lib/format.js";
import { airflowLink } from "../lib/frame.js";
import { copyButton, grow, stat } from "../lib/parts.js";
import { fold } from "./traceback.js";

const HELP = { yes: "the same job can succeed", no: "the same job fails again", unknown: "the error may have passed" };
const WORDS = { yes: "Yes", no: "No", unknown: "Unknown" };

const lines = (text) => (Array.isArray(text) ? text : text ? String(text).split("\n") : []);

function where({ replica, rank, ranks }) {
  if (!replica) return "First failure";
  if (rank !== null && rank !== undefined) return `First failure: ${replica}, rank ${rank}`;
  return `First failure: ${replica}${ranks ? `, ranks ${ranks}` : ""}`;
}

function endedBy({ exit_code: code, signal, reason }) {
  if (signal) return stat("Ended by", signal, reason);
  if (code !== null && code !== undefined) return stat("Ended by", `Exit code ${code}`, reason);
  return stat("Ended by", reason || "Unknown", reason ? null : "no exit code is known");
}

function when(view) {
  const { at, step: where_ } = view.failure;
  const time = epoch(at ?? view.status.finished_at);
  if (time === null) return null;
  const start = epoch(view.status.started_at);
  const notes = [where_ === null || where_ === undefined ? null : `step ${step(where_)}`, start === null || time < start ? null : `${duration(time - start)} after the start`];
  return stat("When", seconds(time, view.as_of), notes.filter(Boolean).join(", "));
}

function retry({ retry_can_help: help, infrastructure }) {
  const answer = WORDS[help] ? help : "unknown";
  return stat("Retry can help", WORDS[answer], answer === "yes" && infrastructure ? "the cluster failed, not the job" : HELP[answer]);
}

function log(app, failure) {
  const traceback = lines(failure.traceback);
  const last = lines(failure.last_log_lines);
  const link = airflowLink("button tiny", app.logPath(), failure.replica ? `Log of ${failure.replica}` : "Log");
  if (traceback.length) return [h("div", { class: "subhead" }, h("h3", {}, "Traceback"), grow(), copyButton(traceback.join("\n"), app.announce), link), fold(app, traceback)];
  if (!last.length) return h("div", { class: "subhead" }, h("h3", {}, "No traceback, and no line of its log was kept."), grow(), link);
  return [h("div", { class: "subhead" }, h("h3", {}, `No traceback. Last lines${failure.replica ? ` of ${failure.replica}` : ""}`), grow(), copyButton(last.join("\n"), app.announce), link),
    h("div", { class: "trace", tabindex: "0", role: "region", "aria-label": "Last log lines" }, last.map((text) => h("span", { class: "trace-line" }, text)))];
}

export function failure(app) {
  const { failure: found, airflow } = app.view;
  if (!found) return null;
  return h("section", { class: "card danger", "data-key": "failure", "aria-label": "First failure" },
    h("h2", {}, where(found)),
    found.message && !lines(found.traceback).length ? h("p", { class: "anywhere" }, found.message) : null,
    h("dl", { class: "card-stats" }, endedBy(found), when(app.view), retry(found), airflow ? stat("Airflow", airflow.title, airflow.note) : null),
    found.way_out ? h("p", { class: "todo" }, h("b", {}, "What to do:"), " ", found.way_out) : null,
    h("div", {}, log(app, found)));
}
