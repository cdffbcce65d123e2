// The facts about a job: its resources, its image, its tools and its cost.

import { h } from "../lib/dom.js";
import { bytes, clock, count, number, step } from "../lib/format.js";
import { outsideLink } from "../lib/frame.js";
import { breakable, copyIcon, head } from "../lib/parts.js";

export const FRAMEWORKS = { pytorch: "PyTorch", tensorflow: "TensorFlow", mpi: "MPI", xgboost: "XGBoost", paddle: "Paddle", jax: "JAX" };

const fact = (name, ...value) => [h("dt", {}, name), h("dd", {}, value)];

function job(app) {
  const { job: { name, framework, backend, namespace, queue } } = app.view;
  return h("dl", {},
    fact("Framework", FRAMEWORKS[framework] || framework || "–"), fact("Backend", backend || "–"),
    fact("Job", h("span", { class: "cut", title: name }, name), copyIcon("the job's name", name, app.announce)),
    namespace ? fact("Namespace", namespace) : null, queue ? fact("Queue", queue) : null);
}

function each({ gpu, gpu_kind: kind, cpu, memory_bytes: memory }) {
  const parts = [gpu ? `${number(gpu)} × ${kind || "GPU"}` : null, cpu ? `${cpu} CPU` : null, memory ? bytes(memory) : null];
  return parts.filter(Boolean).join(", ");
}

function memoryUse(peak, requested) {
  if (!peak || !peak.memory_bytes) return null;
  const where = peak.memory_replica || "";
  if (!requested || !requested.memory_bytes) return fact("Peak memory", h("span", {}, bytes(peak.memory_bytes), where ? h("small", { class: "muted block" }, where) : null));
  const used = peak.memory_bytes / requested.memory_bytes;
  const percent = `${Math.round(used * 100)} %`;
  return fact("Peak memory", h("span", { class: "grow" }, `${bytes(peak.memory_bytes)} of ${bytes(requested.memory_bytes)}`,
    h("span", { class: `meter ${used > 0.92 ? "hot" : ""}`, role: "img", "aria-label": `${percent} of what was asked for` }, h("i", { style: { width: `${Math.min(100, used * 100)}%` } })),
    h("small", { class: "muted block" }, [percent, where].filter(Boolean).join(", "))));
}

function gpuHours(hours) {
  if (!hours || hours.so_far === null) return null;
  const [low, high] = (hours.estimated_total || []).map(Math.round);
  const total = low === undefined ? null : h("span", { class: "muted" }, `of about ${low === high || high === undefined ? number(low) : `${number(low)}–${number(high)}`}`);
  return fact("GPU hours", number(hours.so_far, hours.so_far < 100 ? 1 : 0), total);
}

/** A number, or a word of the framework's launcher such as `auto`. */
const processes = (each) => (typeof each === "string" ? `${each} processes` : count(each || 1, "process", "processes"));

function size({ size: at, requested, peak, gpu_hours: hours }) {
  const rows = [
    at && at.nodes ? fact("Size", `${count(at.nodes, "node")} × ${processes(at.processes_per_node)}`) : null,
    requested && each(requested) ? fact("Each node", each(requested)) : null,
    memoryUse(peak, requested), gpuHours(hours)];
  return rows.some(Boolean) ? h("dl", {}, rows) : null;
}

function checkpoint(app, name, at) {
  const when = at.at ? `, ${clock(at.at, app.view.as_of)}` : "";
  return fact(name, h("span", {}, at.step === null ? at.path || "–" : `step ${step(at.step)}${when}`), at.path ? copyIcon("the checkpoint's address", at.path, app.announce) : null);
}

function state(app) {
  const { image, resumed_from: resumed, last_checkpoint: last } = app.view.facts;
  return h("dl", {},
    image && image.reference ? fact("Image", h("span", { class: "grow anywhere", title: image.digest || null }, breakable(image.reference)), copyIcon("the image's name", image.reference, app.announce)) : null,
    resumed ? checkpoint(app, "Resumed from", resumed) : null,
    last ? checkpoint(app, "Checkpoint", last) : fact("Checkpoint", h("span", { class: "muted" }, "none yet")));
}

/** The facts: beside the chart, or side by side if there is no chart. */
export function facts(app, flat = false) {
  const about = app.view.facts;
  if (!about) return h("aside", { class: flat ? "facts flat" : "facts side", "data-key": "facts", "aria-label": "Facts" }, head("Facts"), h("section", {}, job(app)));
  const tools = about.tools || [];
  const sizes = size(about);
  return h("aside", { class: flat ? "facts flat" : "facts side", "data-key": "facts", "aria-label": "Facts" }, head("Facts"),
    h("section", {}, job(app)), sizes ? h("section", {}, sizes) : null, h("section", {}, state(app)),
    tools.length ? h("section", {}, h("h3", {}, "Tools"), h("div", { class: "tools" }, tools.map((tool) => outsideLink(tool.name, tool.href)))) : null);
}
