// The table of all runs: outcome, value compared with the champion's, cost, and changed parameters.

import { h, hidden, icon } from "../lib/dom.js";
import { change, count, duration, metric, number } from "../lib/format.js";
import { airflowLink } from "../lib/frame.js";
import { grow, head, segments } from "../lib/parts.js";
import { stateText } from "../lib/states.js";
import { toneOf } from "./curves.js";
import { KINDS, keyOf, outcomeWord, total } from "./run.js";

const FIRST = 20, CHIPS = 2, MOST_CURVES = 5;
/** Values that are longer than this are shown without their common prefix. */
const LONG = 24;

function pick(app, run) {
  const tone = toneOf(app, run);
  const full = tone < 0 && app.picked().length >= MOST_CURVES;
  const label = `Curve of ${app.label(run)}`;
  return h("button", { type: "button", class: "pick", "aria-pressed": tone < 0 ? "false" : "true", "aria-disabled": full ? "true" : null, "aria-label": label, title: full ? `${MOST_CURVES} curves at most` : label, onclick: () => full || app.pick(keyOf(run)) },
    h("i", { class: tone < 0 ? "key" : `key run-${tone}` }));
}

const isChampion = (app, run) => Boolean(app.view.champion) && keyOf(app.view.champion) === keyOf(run);

function versus(app, run) {
  if (isChampion(app, run)) return h("span", { class: "champion" }, icon("award", "small"), " champion");
  return run.versus_champion === null ? "–" : h("span", { class: "muted" }, change(run.versus_champion));
}

function bar(run, longest) {
  const parts = Object.entries(KINDS).filter(([kind]) => run.durations[kind]);
  if (!parts.length) return "–";
  const label = parts.map(([kind, word]) => `${word} ${duration(run.durations[kind])}`).join(", ");
  return [h("span", {}, duration(total(run))),
    h("div", { class: "durations mini", role: "img", "aria-label": label, title: label, style: { width: `${Math.max(4, (total(run) / longest) * 100)}%` } },
      parts.map(([kind]) => h("i", { class: kind, style: { "flex-grow": run.durations[kind] } })))];
}

/** Two values without the path or name with which both begin. */
function brief(from, to) {
  if (!from || !to || Math.max(from.length, to.length) <= LONG) return [from, to];
  let same = 0;
  while (same < from.length && from[same] === to[same]) same += 1;
  const cut = Math.max(...["/", ":", "=", ","].map((mark) => from.slice(0, same).lastIndexOf(mark))) + 1;
  return cut ? [`…${from.slice(cut)}`, `…${to.slice(cut)}`] : [from, to];
}

const whole = ({ name, from, to }) => `${name} ${from ?? "–"} → ${to ?? "–"}`;

function chip(changed) {
  const [from, to] = brief(changed.from, changed.to);
  return h("span", { class: "change cut", title: whole(changed) }, `${changed.name} `, h("i", {}, from ?? "–"), hidden(" to "), h("span", { "aria-hidden": "true" }, " → "), to ?? "–");
}

function changes(app, run) {
  const toChampion = app.choices.changes === "champion";
  const all = toChampion ? run.changed_from_champion : run.changed;
  if (!all) return h("span", { class: "muted", title: "Not known: there is nothing to compare with, or Airflow has not kept the parameters" }, "–");
  if (!all.length) return h("span", { class: "muted" }, "none");
  const open = app.ui.open.has(keyOf(run));
  const shown = open ? all : all.slice(0, CHIPS);
  const toggle = () => {
    const opened = new Set(app.ui.open);
    if (!opened.delete(keyOf(run))) opened.add(keyOf(run));
    app.show({ open: opened });
  };
  const more = all.length > CHIPS ? h("button", { type: "button", class: "more-changes", "aria-expanded": open ? "true" : "false", onclick: toggle }, open ? "Less" : `${all.length - CHIPS} more`) : null;
  return h("div", { class: "changes" }, shown.map(chip), more);
}

function row(app, run, longest) {
  const value = run.metrics[app.view.metric];
  const name = airflowLink("cut block", app.taskPath(run), app.label(run));
  name.title = run.run_id;
  return h("tr", { "data-key": keyOf(run), "data-run": keyOf(run), class: keyOf(run) === app.ui.pointed ? "on" : null },
    h("td", { class: "r-pick" }, pick(app, run)),
    h("td", { class: "r-run" }, name, run.tries > 1 ? h("small", {}, count(run.tries, "try", "tries")) : null),
    h("td", { class: "r-outcome" }, stateText(run.outcome, outcomeWord(run)), run.reason ? h("small", { class: "cut block", title: run.reason }, run.reason) : null),
    h("td", { class: "r-value num" }, value === undefined ? "–" : metric(value)),
    h("td", { class: "r-versus num" }, versus(app, run)),
    h("td", { class: "r-duration" }, bar(run, longest)),
    h("td", { class: "r-cost num" }, run.gpu_hours === null ? "–" : number(run.gpu_hours, 1), h("span", { class: "narrow-only" }, " GPU hours")),
    h("td", { class: "r-changes" }, changes(app, run)));
}

const column = (text, className = "") => h("th", { scope: "col", class: className }, text);

export function table(app) {
  const { runs, metric: name } = app.view;
  const shown = app.ui.all ? runs : runs.slice(0, FIRST);
  const longest = Math.max(1, ...runs.map(total));
  const since = segments("Changes since", [["previous", "Previous run"], ["champion", "Champion"]], app.choices.changes, (id) => app.choose("changes", id));
  return h("section", { "data-key": "table" }, head("All runs", grow(), h("span", { class: "muted small" }, "Parameters that changed since"), since),
    h("div", { class: "runs-scroll", tabindex: "0", role: "region", "aria-label": "All runs" }, h("table", { class: "runs" },
      h("thead", {}, h("tr", {}, column(hidden("Curve"), "r-pick"), column("Run", "r-run"), column("Outcome", "r-outcome"), column(name || "Metric", "r-value num cut"), column("vs. champion", "r-versus num"), column("Duration", "r-duration"), column("GPU h", "r-cost num"), column("Changed parameters", "r-changes"))),
      h("tbody", {}, shown.map((run) => row(app, run, longest))))),
    runs.length > shown.length ? h("button", { type: "button", class: "button tiny show-more", onclick: () => app.show({ all: true }) }, `Show ${runs.length - shown.length} more`) : null);
}
