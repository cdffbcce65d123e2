// The order of the sections: what is compared, the key figures, the runs over time, their curves, and all of them.

import { h } from "../lib/dom.js";
import { seconds } from "../lib/format.js";
import { notice } from "../lib/parts.js";
import { curves } from "./curves.js";
import { blocks, empty, noRuns, refusal } from "./empty.js";
import { numbers } from "./numbers.js";
import { runsChart } from "./runs.js";
import { table } from "./table.js";

const LIMITS = ["20", "50", "100"];

function choice(label, options, chosen, choose) {
  const items = options.map(([id, text]) => h("option", { value: id, selected: id === chosen }, text));
  return h("label", { class: "choice", "data-key": label }, h("span", {}, label),
    h("select", { "data-value": chosen, oninput: (event) => choose(event.currentTarget.value) }, items));
}

/** Reset selects to the choices of the app: a browser keeps a reader's choice even if the attributes differ. */
export function settle(root) {
  for (const each of root.querySelectorAll("select")) if (each.value !== each.dataset.value) each.value = each.dataset.value;
}

const same = (names) => names.map((name) => [name, name]);

function live(app) {
  if (app.refused) return h("span", { class: "live stale" }, h("i", { class: "dot" }), `As of ${seconds(app.answered)}`);
  return app.isActive() ? h("span", { class: "live" }, h("i", { class: "dot" }), "Live") : null;
}

function choices(app) {
  const { tasks, task_id: task, metrics } = app.view;
  const names = metrics.map((each) => each.name);
  const metric = names.includes(app.choices.metric) ? app.choices.metric : app.view.metric;
  const limit = LIMITS.includes(app.choices.limit) ? app.choices.limit : String(app.view.limit);
  const limits = [...new Set([...LIMITS, limit])].map((each) => [each, `Last ${each}`]);
  return h("div", { class: "choices" },
    tasks.length > 1 ? choice("Task", same(tasks), task, (id) => app.choose("task_id", id)) : null,
    names.length ? choice("Metric", same(names), metric, (id) => app.choose("metric", id)) : null,
    choice("Runs", limits, limit, (id) => app.choose("limit", id)),
    h("span", { class: "grow" }), live(app));
}

function outdated(app) {
  if (!app.refused) return null;
  const why = (app.refused.message || "no connection").replace(/\.$/, "");
  const next = app.nextIn ? ` Next attempt in ${app.nextIn} s.` : "";
  return notice("warn", "alert", h("b", {}, `Last known state, from ${seconds(app.answered)}. `), `Airflow does not answer (${why}).${next}`);
}

function sections(app) {
  if (app.view.pending) return app.refused ? refusal(app) : blocks();
  return app.view.runs.length ? [numbers(app), runsChart(app), curves(app), table(app)] : noRuns(app);
}

/** The whole page of a DAG. */
export function page(app) {
  const none = empty(app);
  if (none) return none;
  return h("div", { class: "page" }, app.view.pending ? null : outdated(app), choices(app), sections(app));
}
