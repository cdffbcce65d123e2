// The order of the sections, by state: the sentence first, the verdict before the numbers.

import { h } from "../lib/dom.js";
import { airflowLink } from "../lib/frame.js";
import { notice } from "../lib/parts.js";
import { replicas } from "../replicas/panel.js";
import { empty } from "./empty.js";
import { facts } from "./facts.js";
import { failure } from "../verdict/failure.js";
import { hang } from "../verdict/hang.js";
import { header, outdated } from "./header.js";
import { metrics } from "./metrics.js";
import { progress } from "./progress.js";
import { durations, resultJson, resultNumbers } from "./result.js";
import { waiting } from "./waiting.js";

/** The facts are beside the section that they belong to; in a narrow frame they come last. */
const columns = (main, side, wide = null) =>
  h("div", { class: "columns", "data-key": "columns" }, h("div", { class: "main-column" }, main), side, wide ? h("div", { class: "wide" }, wide) : null);

const hasMetrics = (app) => (app.view.metrics || []).length > 0;

/** Whether there is a curve to draw. A metric that only the result has is shown as a number above. */
const hasCurve = (app) => (app.view.metrics || []).some((each) => each.spark.length > 0);

function whileWaiting(app) {
  const rows = replicas(app);
  return [waiting(app), rows ? columns([rows], facts(app)) : facts(app, true)];
}

function afterFailure(app) {
  const rest = hasMetrics(app) ? columns([metrics(app)], facts(app)) : facts(app, true);
  return app.view.failure ? [failure(app), replicas(app), rest] : [progress(app.view), replicas(app), rest];
}

/** An earlier try, of which Airflow keeps only its own record and the log. */
function withoutJob(app) {
  return [progress(app.view), h("div", {}, airflowLink("button", app.logPath(), "Log"))];
}

function afterSuccess(app) {
  const rows = replicas(app);
  if (!hasCurve(app)) return [resultNumbers(app), durations(app), columns([resultJson(app), rows], facts(app))];
  return [resultNumbers(app), durations(app), columns([metrics(app), resultJson(app)], facts(app), rows)];
}

function whileRunning(app) {
  const rows = replicas(app);
  const early = app.view.status.phase === "starting";
  if (early && !hasMetrics(app) && !rows) return [facts(app, true)];
  const beside = hasMetrics(app) ? [metrics(app)] : [early ? null : metrics(app), rows];
  return [hang(app), progress(app.view), columns(beside, facts(app), hasMetrics(app) ? rows : null)];
}

/** Whether a job that its queue has admitted waits for nodes. */
const noNodeFits = ({ status, wait }) => status.phase === "starting" && Boolean(wait && wait.nodes);

function sections(app) {
  const { phase } = app.view.status;
  if (!app.view.job) return withoutJob(app);
  if (phase === "succeeded") return afterSuccess(app);
  if (phase === "failed" || phase === "cancelled") return afterFailure(app);
  if (phase === "queued" || noNodeFits(app.view)) return whileWaiting(app);
  return whileRunning(app);
}

/** The whole page of a task instance. */
export function page(app) {
  const none = empty(app);
  if (none) return none;
  const problem = app.problem ? notice("warn", "alert", app.problem) : null;
  return h("div", { class: `page ${hasMetrics(app) ? "" : "bare"}` }, outdated(app), problem, header(app), sections(app));
}
