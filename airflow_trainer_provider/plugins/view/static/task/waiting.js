// Why the job waits, and until when.

import { h } from "../lib/dom.js";
import { clock, clockRange, duration, epoch, fromNow, number } from "../lib/format.js";
import { notice, swatch } from "../lib/parts.js";

const amount = (value) => number(value, Number.isInteger(value) ? 0 : 2);
const big = (value, note) => h("p", { class: "big" }, h("b", {}, value), note ? h("span", { class: "muted" }, note) : null);

function pool(missing) {
  const { resource, pool: name, total, used, free, needed } = missing;
  if (!total || free === null || free === undefined) return null;
  const lacking = Math.max(0, needed - free);
  const part = (tone, amount) => (amount > 0 ? h("span", { class: tone, style: { "flex-grow": amount } }) : null);
  return h("div", { class: "pool" },
    h("div", { class: "pool-head" }, h("span", {}, `${name ? `Pool ${name}` : "In all"}: ${amount(total)} ${resource}`), h("span", { class: "muted" }, `${amount(used)} used, ${amount(free)} free`)),
    h("div", { class: "poolbar", role: "img", "aria-label": `${amount(used)} of ${amount(total)} ${resource} used, ${amount(free)} free, ${amount(needed)} needed` }, part("used", used), part("free", free), part("need", lacking)),
    h("div", { class: "legend" }, h("span", {}, swatch("queued"), "used"), h("span", {}, swatch("free"), "free"), h("span", {}, swatch("need"), "missing for this job")));
}

function shortage(missing) {
  const { resource, pool: name, free, needed } = missing;
  if (free === null || free === undefined) return big(`${amount(needed)} ${resource}`, name ? `in pool ${name}` : null);
  return big(`${amount(Math.max(0, needed - free))} of ${amount(needed)} ${resource}`, name ? `in pool ${name}` : null);
}

function nodes(found) {
  if (!found) return null;
  const refused = found.rows.reduce((sum, row) => sum + row.count, 0);
  return h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, `Why ${number(refused)} of ${number(found.total)} nodes do not fit`), h("th", { scope: "col", class: "num" }, "Nodes"))),
    h("tbody", {}, found.rows.map((row) => h("tr", {}, h("td", { title: row.why }, row.say || row.why), h("td", { class: "num" }, number(row.count))))));
}

/** The original message: folded, or open if it is the only information. */
function message(reason, text, kind, known) {
  if (!reason && !text) return known ? null : h("p", { class: "muted" }, "The cluster has given no reason yet.");
  const full = h("p", { class: "mono anywhere" }, [reason, text].filter(Boolean).join(": "));
  if (!known) return full;
  return h("details", {}, h("summary", {}, kind === "queue" ? "Message from the queue" : "Message from the scheduler"), full);
}

/** How many replicas have no node, if the scheduler's reason is known but is not the shortage of one resource. */
function room(app, wait) {
  if (!wait.nodes) return big("Unknown");
  const waiting = app.replicas ? (app.replicas.rows || []).filter((row) => row.state === "queued").length : 0;
  const { gpu } = (app.view.facts && app.view.facts.requested) || {};
  return big(waiting ? `Room for ${number(waiting)} ${waiting === 1 ? "replica" : "replicas"}` : "Room for the replicas", gpu ? `${number(gpu)} GPU each` : null);
}

function missing(app, wait) {
  const all = wait.missing || [];
  const known = all.some((each) => each.free !== null && each.free !== undefined);
  const enough = wait.enough || [];
  return h("div", {}, h("h3", {}, "What is missing"),
    known ? all.map((each) => [shortage(each), pool(each)]) : wait.nodes || !all.length ? room(app, wait) : all.map(shortage),
    enough.length ? h("p", { class: "muted" }, `Enough of the rest: ${enough.join(", ")}.`) : null,
    nodes(wait.nodes), message(app.view.status.reason, wait.message || app.view.status.message, wait.kind, known || Boolean(wait.nodes)));
}

function waits(wait) {
  const { history } = wait;
  if (!history || !history.runs) return h("p", { class: "muted" }, "No earlier wait is known to compare with.");
  const { median, p90, runs, so_far: now } = history;
  const whole = Math.max(p90 * 1.35, now * 1.1, 1);
  const at = (value) => `${Math.min(100, (value / whole) * 100)}%`;
  return h("div", {}, h("h3", {}, wait.kind === "queue" ? `Waits in this queue, last ${number(runs)} jobs` : `Waits of this task, last ${number(runs)} runs`),
    h("div", { class: "range", role: "img", "aria-label": `Has waited ${duration(now)}; half started within ${duration(median)}, 90 % within ${duration(p90)}` },
      h("i", { class: "range-p90", style: { width: at(p90) } }), h("i", { class: "range-median", style: { left: at(median) } }), h("i", { class: "range-now", style: { left: at(now) } })),
    h("p", { class: "small muted" }, `Half started within ${duration(median)}, 90 % within ${duration(p90)}. The mark is this job: ${duration(now)}.`));
}

function estimate(app, wait) {
  const { as_of: asOf } = app.view;
  const { estimate: found } = wait;
  return h("div", {}, h("h3", {}, "Estimated start"),
    found ? big(clockRange(found.earliest, found.latest, asOf), fromNow(found.earliest, found.latest, asOf)) : big("Unknown"),
    h("p", { class: "muted" }, found ? found.basis : wait.estimate_why || "Neither a position in a queue nor the end of the running jobs is known."),
    waits(wait),
    wait.gives_up_at ? notice("warn", "clock", `The job fails at ${clock(wait.gives_up_at, asOf)} (in ${duration(epoch(wait.gives_up_at) - epoch(asOf))}) if not all replicas have started`, wait.gives_up_setting ? [": ", h("code", {}, wait.gives_up_setting)] : null, ".") : null);
}

/** How many jobs are before and behind this one, without their names, which not every viewer may see. */
function place(wait) {
  const ahead = wait.position - 1;
  const before = ahead ? `${number(ahead)} ${ahead === 1 ? "job is" : "jobs are"} ahead of this one` : "This job is the next one";
  return h("p", {}, `${before}${wait.behind ? `, ${number(wait.behind)} behind` : ""}.`);
}

function queue(wait) {
  if (!wait.position) return null;
  const title = `Queue ${wait.queue}${wait.length ? `: ${number(wait.length)} ${wait.length === 1 ? "job waits" : "jobs wait"}` : ""}`;
  const shared = wait.cluster_queue && wait.cluster_position ? h("p", { class: "muted" }, `Position ${number(wait.cluster_position)} in ClusterQueue ${wait.cluster_queue}, with the jobs of its other queues.`) : null;
  return h("div", {}, h("h3", {}, title), place(wait), shared);
}

/** The section on the wait, with the API's data; without a queue there is little. */
export function waiting(app) {
  const wait = app.view.wait || {};
  return h("section", { class: "waiting", "data-key": "waiting" }, missing(app, wait), estimate(app, wait), queue(wait));
}
