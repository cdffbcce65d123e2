// The job's state and its reason, whether they are current, the shown try, and the reader's actions.

import { h, hidden, icon } from "../lib/dom.js";
import { seconds } from "../lib/format.js";
import { notice, segments } from "../lib/parts.js";
import { badge, hasEnded, stateIcon } from "../lib/states.js";
import { confirmAction } from "./dialog.js";

const ACTIONS = {
  resume: { text: "Resume", busy: "Resuming …", symbol: "play", style: "solid" },
  suspend: { text: "Suspend", busy: "Suspending …", symbol: "pause", style: "" },
  stop: { text: "Stop", busy: "Stopping …", symbol: "square", style: "" },
};

/** Whether an action makes sense in this phase, even if it is not allowed. */
function applies(name, phase) {
  if (hasEnded(phase)) return false;
  if (name === "stop") return true;
  return (name === "resume") === (phase === "suspended");
}

function why(app, action) {
  if (app.unreachable()) return "Not possible while the last known state is shown.";
  if (action.allowed) return null;
  return action.why || "Not possible now.";
}

function button(app, name) {
  const { text, busy, symbol, style } = ACTIONS[name];
  const action = app.view.actions && app.view.actions[name];
  if (!action || !applies(name, app.view.status.phase)) return null;
  if (!action.allowed && !action.why) return null;
  const pending = app.pending === name;
  const refused = pending ? "The cluster has not reported it yet." : why(app, action);
  const onclick = () => refused || confirmAction(app, name);
  return h("button", { type: "button", class: `button ${style}`, "data-key": name, "aria-disabled": refused ? "true" : null, title: refused, onclick },
    icon(symbol, "small"), pending ? busy : text, refused ? hidden(`: ${refused}`) : null);
}

function freshness(app) {
  if (app.unreachable()) return h("span", { class: "live stale" }, h("i", { class: "dot" }), `As of ${seconds(app.view.as_of)}`);
  if (hasEnded(app.view.status.phase)) return null;
  return h("span", { class: "live", title: `Updated ${seconds(app.view.as_of)}` }, h("i", { class: "dot" }), "Live");
}

/** The selection of the shown try, if there are several. */
export function tries(app) {
  const all = app.view.tries || [];
  if (all.length < 2) return null;
  const newest = String(all[all.length - 1].number);
  const options = all.map((each) => [String(each.number), stateIcon(each.phase), ` Try ${each.number}`]);
  return segments("Try of the task", options, app.choices.try || newest, (id) => app.choose("try", id === newest ? "" : id));
}

/** The notice at the top: why the page does not show the current state. */
export function outdated(app) {
  if (!app.unreachable()) return null;
  const { stale, as_of: asOf } = app.view;
  const next = app.nextIn ? ` Next attempt in ${app.nextIn} s.` : "";
  const unanswered = `Airflow does not answer (${(app.refused && app.refused.message) || "no connection"}). The job itself is not affected.${next}`;
  return notice("warn", "alert", h("b", {}, `Last known state, from ${seconds(asOf)}. `), app.refused || !stale ? unanswered : stale.why);
}

export function header(app) {
  const { status, summary, detail, progress, hang } = app.view;
  const stalled = (progress && progress.stalled) || hang;
  return h("header", { class: "status" },
    h("div", { class: "line" },
      status.phase ? badge(status.phase) : null,
      stalled ? h("span", { class: "badge warning" }, icon("alert", "small"), "No progress") : null,
      h("div", {}, h("p", { class: "why" }, summary), detail ? h("p", { class: "detail-line" }, detail) : null)),
    h("div", { class: "actions" }, freshness(app), tries(app), button(app, "resume"), button(app, "suspend"), button(app, "stop")));
}
