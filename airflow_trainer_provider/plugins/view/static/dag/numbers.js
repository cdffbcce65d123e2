// The key figures: the champion, the last success, how many succeed, how long they take, and what they cost.

import { h } from "../lib/dom.js";
import { change, count, duration, metric, number, share } from "../lib/format.js";
import { stat } from "../lib/parts.js";
import { keyOf } from "./run.js";

const UNKNOWN = "–";

/** A run's label, as a link to its row. */
function toRow(app, found) {
  const key = keyOf(found);
  return h("button", { type: "button", class: "to-row", onclick: () => app.goTo(key) }, app.names.get(key));
}

function champion(app) {
  const { champion: best, metric: name, numbers } = app.view;
  if (best) return stat("Champion", metric(best.value), h("span", { title: best.rule }, toRow(app, best), `, best of ${count(numbers.succeeded, "success", "successes")}`));
  return stat("Champion", UNKNOWN, name ? `The name ${name} does not say which value is better` : "no run reported a metric");
}

function lastSuccess(app) {
  const { champion: best, numbers: { last_success: last } } = app.view;
  if (!last) return stat("Last success", UNKNOWN, "no run succeeded with this metric");
  const isBest = best && keyOf(best) === keyOf(last);
  const compared = last.versus_champion === null ? "" : `, ${change(last.versus_champion)} vs. champion`;
  return stat("Last success", metric(last.value), h("span", {}, toRow(app, last), isBest ? ", the champion" : compared));
}

function rate({ succeeded, failed, cancelled, ended, success_rate: found }) {
  if (found === null) return stat("Success rate", UNKNOWN, "no run has ended");
  const rest = [failed ? `${number(failed)} failed` : null, cancelled ? `${number(cancelled)} cancelled` : null].filter(Boolean).join(", ");
  return stat("Success rate", share(found, 0), `${rest || `${number(succeeded)} succeeded`} of ${number(ended)}`);
}

function typical({ median_seconds: median, median_queued_seconds: queued }) {
  if (median === null) return stat("Median duration", UNKNOWN, "no run has succeeded");
  return stat("Median duration", duration(median), `of the successes; ${duration(queued)} in the queue`);
}

function cost({ gpu_hours: all, gpu_hours_without_success: lost }) {
  if (all === null) return stat("GPU hours", UNKNOWN, "the jobs ask for no GPU, or it is not known");
  return stat("GPU hours", number(all, all < 100 ? 1 : 0), lost ? `${number(lost, lost < 100 ? 1 : 0)} in runs that did not succeed` : null);
}

export function numbers(app) {
  const found = app.view.numbers;
  return h("dl", { class: "stats", "data-key": "numbers" }, champion(app), lastSuccess(app), rate(found), typical(found), cost(found));
}
