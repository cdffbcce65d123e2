// The tab without runs: one sentence, and the next step.

import { h } from "../lib/dom.js";

const box = (title, ...text) => h("div", { class: "empty" }, h("h2", {}, title), text.filter(Boolean).map((each) => h("p", {}, each)));

const page = (...content) => h("div", { class: "page" }, content);

/** The reason if there is no response. */
export function refusal(app) {
  const { status, message } = app.refused;
  if (status === 401) return box("Not logged in", "Airflow's login has ended. Log in again, and reload this page.");
  if (status === 403) return box("No access to this DAG", `Reading its training needs read access to the task instances of the DAG ${app.dag}.`);
  if (status === 404) return box("Not found", message);
  return box("Airflow does not answer", `${message || "No connection"}. ${app.nextIn ? `Next attempt in ${app.nextIn} s.` : ""}`);
}

const block = (name) => h("div", { class: `skeleton ${name}` });

/** The layout of the sections while they load. */
export const blocks = () => [h("div", { class: "stats" }, [1, 2, 3, 4, 5].map(() => block("stat-size"))), block("chart-size"), block("chart-size")];

const skeleton = () => h("div", { class: "page", "aria-label": "Loads" }, block("sentence-size"), blocks());

/** A training task that has not run yet. */
export const noRuns = (app) => box("No training run yet", `Each run of the task ${app.view.task_id} appears here, with its result, its durations and what changed.`);

/** The page without runs; null if there are runs, or may be. */
export function empty(app) {
  // Without the right to read, data from earlier responses is no longer shown.
  if (app.isDenied() || !app.view) return app.refused ? page(refusal(app)) : skeleton();
  return app.view.tasks.length ? null : page(box("No training task", "No task of this DAG is one of the trainer provider's operators."));
}
