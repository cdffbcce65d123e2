// The tab without a job: one sentence, and the next step.

import { h } from "../lib/dom.js";
import { tries } from "./header.js";

const box = (title, ...text) => h("div", { class: "empty" }, h("h2", {}, title), text.filter(Boolean).map((each) => h("p", {}, each)));

function refusal(app) {
  const { status, message } = app.refused;
  if (status === 401) return box("Not logged in", "Airflow's login has ended. Log in again, and reload this page.");
  if (status === 403) return box("No access to this job", `Reading it needs read access to the task instances of the DAG ${app.task.dag_id}.`);
  if (status === 404) return box("Not found", message && message !== "Not Found" ? message : `Airflow knows no task instance ${app.task.task_id} of this run.`);
  return box("Airflow does not answer", `${message || "No connection"}. ${app.nextIn ? `Next attempt in ${app.nextIn} s.` : ""}`);
}

function skeleton() {
  const block = (name) => h("div", { class: `skeleton ${name}` });
  return h("div", { class: "page", "aria-label": "Loads" }, h("div", { class: "skeleton-line" }, block("badge-size"), block("sentence-size")), block("bar-size"),
    h("div", { class: "stats" }, [1, 2, 3, 4].map(() => block("stat-size"))), h("div", { class: "columns" }, block("chart-size"), block("chart-size")));
}

/** The page without a job; null if there is a job. */
export function empty(app) {
  // Without the right to read, data from earlier responses is no longer shown.
  if (app.isDenied() || !app.view) return app.refused ? page(refusal(app)) : skeleton();
  if (app.view.is_training === false) return page(box("Not a training task", app.view.summary, app.view.detail));
  const { phase } = app.view.status || {};
  return app.view.job || phase ? null : page(tries(app), box("No job", app.view.summary, app.view.detail));
}

const page = (...content) => h("div", { class: "page" }, content);
