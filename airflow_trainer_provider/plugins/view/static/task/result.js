// The result of the training, compared with the best so far, and how the time was spent.

import { h } from "../lib/dom.js";
import { change, duration, metric, number, share } from "../lib/format.js";
import { copyButton, grow, head, notice, stat, swatch } from "../lib/parts.js";

const KINDS = { queued: "Queued", starting: "Starting", running: "Training", redone: "Repeated steps", saving: "Saving checkpoints" };

function compared(name, { versus, better }) {
  const found = versus && versus[name];
  if (!found) return null;
  const direction = better && better[name];
  if (!direction) return `${change(found.change)} than ${metric(found.champion)}`;
  const good = (found.change < 0) === (direction === "lower");
  return h("span", {}, h("span", { class: good ? "better" : "worse" }, `${change(found.change)} (${good ? "better" : "worse"})`), ` than ${metric(found.champion)}`);
}

/** The metrics of the result, each compared with the champion's. */
export function resultNumbers(app) {
  const { result } = app.view;
  const names = Object.keys((result && result.metrics) || {});
  if (!names.length) return null;
  return h("dl", { class: "stats", "data-key": "result-numbers" }, names.map((name) => stat(name, metric(result.metrics[name]), compared(name, result))));
}

function summed(parts) {
  const kinds = Object.keys(KINDS).map((kind) => ({ kind, seconds: parts.filter((part) => part.kind === kind).reduce((sum, part) => sum + part.seconds, 0) }));
  return kinds.filter((each) => each.seconds > 0);
}

function goodput(found) {
  if (!found) return null;
  return h("span", {}, h("span", { class: "muted" }, "Goodput "), h("b", {}, share(found.share)),
    h("span", { class: "muted" }, `: ${number(found.gpu_hours_useful, 1)} of ${number(found.gpu_hours_held, 1)} GPU hours went into steps that count`));
}

/** How the time was spent. */
export function durations(app) {
  const parts = summed(app.view.durations || []);
  if (!parts.length) return null;
  const whole = parts.reduce((sum, part) => sum + part.seconds, 0);
  const label = parts.map((part) => `${KINDS[part.kind]} ${duration(part.seconds)}`).join(", ");
  return h("section", { "data-key": "durations" }, head("Where the time went", h("span", { class: "muted" }, `${duration(whole)} in all`), grow(), goodput(app.view.goodput)),
    h("div", { class: "durations", role: "img", "aria-label": label }, parts.map((part) => h("i", { class: part.kind, style: { "flex-grow": part.seconds }, title: `${KINDS[part.kind]}: ${duration(part.seconds)}` }))),
    h("div", { class: "durations-legend" }, parts.map((part) => h("span", {}, swatch(part.kind), KINDS[part.kind], " ", h("b", {}, duration(part.seconds)), h("span", { class: "muted" }, ` ${share(part.seconds / whole, part.seconds / whole < 0.1 ? 1 : 0)}`)))));
}

/** What rank 0 wrote, or why it was not kept. */
export function resultJson(app) {
  const { result } = app.view;
  if (!result || (result.json === null && !result.error)) return null;
  if (result.error) return h("section", { "data-key": "result" }, head("Result"), notice("warn", "alert", h("b", {}, "The result was not kept. "), result.error));
  const text = JSON.stringify(result.json, null, 2);
  return h("section", { "data-key": "result" }, head("Result", h("span", { class: "muted" }, "what rank 0 wrote"), grow(), copyButton(text, app.announce)),
    h("pre", { class: "code", tabindex: "0", role: "region", "aria-label": "Result" }, text));
}
