// The Training page from its title to its pager, and the text for a page without jobs.

import { h, icon } from "../lib/dom.js";
import { count, number, seconds } from "../lib/format.js";
import { grow, notice } from "../lib/parts.js";
import { stateWord } from "../lib/states.js";
import { frameworkTitle } from "./cells.js";
import { isFiltered } from "./choices.js";
import { table } from "./table.js";

const VIEWS = { active: "Active", attention: "Need attention", waiting: "Waiting", failed: "Failed", all: "All" };
const STATES = ["queued", "starting", "running", "restarting", "suspended", "failed", "cancelled", "succeeded"];
const NONE = { active: "No job is active", attention: "No job needs attention", waiting: "No job waits", failed: "No job has failed", all: "No jobs" };

const SNIPPET = `from airflow_trainer_provider import PyTorchJobOperator

PyTorchJobOperator(
    task_id="train",
    image="registry.example/train:1",
    command=["python", "/app/train.py"],
    num_nodes=2,
    resources_per_node={"gpu": 1},
)`;

function title(app) {
  const { in_use: used, requested } = app.list.gpus;
  const gpus = used || requested ? `${number(used)} ${used === 1 ? "GPU" : "GPUs"} in use, ${number(requested)} requested by waiting jobs` : null;
  const live = app.unreachable() ? h("span", { class: "live stale" }, h("i", { class: "dot" }), `As of ${seconds(app.list.as_of)}`)
    : h("span", { class: "live", title: `Updated ${seconds(app.now())}` }, h("i", { class: "dot" }), "Live");
  return h("header", { class: "title" }, h("h1", {}, "Training"), h("span", { class: "muted" }, gpus), grow(), live);
}

function outdated(app) {
  if (!app.unreachable()) return null;
  const next = app.nextIn ? ` Next attempt in ${app.nextIn} s.` : "";
  return notice("warn", "alert", h("b", {}, `Last known state, from ${seconds(app.list.as_of)}. `),
    `Airflow does not answer (${(app.refused && app.refused.message) || "no connection"}). The jobs themselves are not affected.${next}`);
}

function views(app) {
  return h("div", { class: "views", role: "group", "aria-label": "Which jobs" }, Object.entries(VIEWS).map(([view, text]) =>
    h("button", { type: "button", "data-key": view, "aria-pressed": app.choices.view === view ? "true" : "false", onclick: () => app.choose({ view }) },
      view === "attention" ? icon("alert", "small") : null, text, " ", h("b", {}, number(app.list.counts[view])))));
}

/** A drop-down list; null if there is nothing to choose. */
function select(app, name, label, options, textOf = (each) => each) {
  const chosen = app.choices[name];
  const all = chosen && !options.includes(chosen) ? [...options, chosen] : options;
  if (all.length < 2 && !chosen) return null;
  return h("select", { class: "select", "data-key": name, "data-choice": name, "aria-label": label, onchange: (event) => app.choose({ [name]: event.target.value }) },
    h("option", { value: "" }, label), all.map((each) => h("option", { value: each, selected: each === chosen }, textOf(each))));
}

function filters(app) {
  const { framework, backend, namespace, owner } = app.list.choices;
  return h("div", { class: "filters" },
    h("label", { class: "search", "data-key": "search" }, icon("search", "small"), h("span", { class: "sr" }, "Search jobs"),
      h("input", { type: "search", "data-choice": "q", maxlength: "300", placeholder: "DAG, task, run, job or reason", autocomplete: "off", value: app.choices.q, oninput: (event) => app.search(event.target.value) })),
    select(app, "framework", "Framework", framework, frameworkTitle), select(app, "backend", "Backend", backend), select(app, "namespace", "Namespace", namespace),
    select(app, "state", "State", STATES, stateWord), select(app, "owner", "Owner", owner),
    app.choices.dag ? h("button", { type: "button", class: "button", "data-key": "dag", onclick: () => app.choose({ dag: "" }) }, h("span", { class: "cut" }, `DAG ${app.choices.dag}`), icon("cross", "small")) : null,
    isFiltered(app.choices) ? h("button", { type: "button", class: "button", "data-key": "clear", onclick: () => app.clear() }, "Clear filters") : null);
}

function pager(app) {
  const { counts, page: at, size } = app.list;
  const all = counts[app.choices.view];
  const pages = Math.max(1, Math.ceil(all / size));
  const first = (at - 1) * size + 1;
  const go = (text, to, off) => h("button", { type: "button", class: "button tiny", "aria-disabled": off ? "true" : null, onclick: () => off || app.choose({ page: String(to) }) }, text);
  return h("nav", { class: "pager", "aria-label": "Pages" }, h("span", { class: "muted" }, `${number(first)}–${number(first + app.list.jobs.length - 1)} of ${number(all)}`), grow(),
    pages > 1 ? [go("Previous", at - 1, at <= 1), h("span", {}, `Page ${number(at)} of ${number(pages)}`), go("Next", at + 1, at >= pages)] : null);
}

const box = (heading, ...content) => h("div", { class: "empty" }, h("h2", {}, heading), content);

function noMatch(app) {
  const { total, ended_days: days } = app.list;
  if (isFiltered(app.choices)) {
    return box("No job matches", h("p", {}, `None of the ${number(total)} jobs matches these filters.`),
      h("p", {}, h("button", { type: "button", class: "button", onclick: () => app.clear() }, "Clear filters")));
  }
  return box(NONE[app.choices.view], h("p", {}, `${count(total, "job")} went on or ended in the last ${number(days)} days.`),
    h("p", {}, h("button", { type: "button", class: "button", onclick: () => app.choose({ view: "all" }) }, "Show all")));
}

function noJobs(app) {
  return box("No training jobs yet",
    h("p", {}, `Jobs that a DAG submits with a training operator appear here, on every backend: those that go on, and those that ended in the last ${number(app.list.ended_days)} days.`),
    h("pre", { class: "code" }, SNIPPET),
    h("p", {}, "The list has the jobs of the DAGs whose task instances and XCom you may read."));
}

function refusal(app) {
  const { status, message } = app.refused;
  if (status === 401) return box("Not logged in", h("p", {}, "Airflow's login has ended. Log in again, and reload this page."));
  if (status === 403) return box("No access", h("p", {}, "Reading the jobs needs a login that Airflow accepts."));
  return box("Airflow does not answer", h("p", {}, `${message || "No connection"}. ${app.nextIn ? `Next attempt in ${app.nextIn} s.` : ""}`));
}

function skeleton() {
  const block = (name) => h("div", { class: `skeleton ${name}` });
  return h("div", { class: "page tight", "aria-label": "Loads" }, h("div", { class: "skeleton-line" }, block("sentence-size")),
    h("div", { class: "skeleton-line" }, [1, 2, 3, 4, 5].map(() => block("badge-size"))), block("bar-size"), [1, 2, 3, 4, 5, 6].map(() => block("row-size")));
}

/** The whole page. */
export function page(app) {
  // Without the right to read, data from earlier responses is no longer shown.
  if (app.isDenied() || !app.list) return app.refused ? h("div", { class: "page" }, refusal(app)) : skeleton();
  if (!app.list.total) return h("div", { class: "page" }, outdated(app), noJobs(app));
  const problem = app.problem ? notice("warn", "alert", app.problem) : null;
  return h("div", { class: "page tight" }, title(app), outdated(app), problem, views(app), filters(app),
    app.list.jobs.length ? [table(app), pager(app)] : noMatch(app));
}
