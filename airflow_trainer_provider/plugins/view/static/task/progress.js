// Progress, speed, expected end, and the time lost to failures.

import { h } from "../lib/dom.js";
import { change, clock, clockRange, count, duration, epoch, fromNow, number, share, step } from "../lib/format.js";
import { stat } from "../lib/parts.js";
import { hasEnded } from "../lib/states.js";

const percent = (part, whole) => `${Math.max(0, Math.min(100, (part / whole) * 100))}%`;

/** How long the job has run, without its wait: in seconds. */
export function elapsed(view) {
  const start = epoch(view.status.started_at);
  return start === null ? null : (epoch(view.status.finished_at) ?? epoch(view.as_of)) - start;
}

function queued(view) {
  const { queued_at: from, admitted_at: admitted, started_at: started } = view.status;
  const until = epoch(admitted) ?? epoch(started);
  return epoch(from) === null || until === null ? null : until - epoch(from);
}

function checkpointLine(view) {
  const { step: now, last_checkpoint: last } = view.progress;
  if (!last) return null;
  const age = epoch(last.at) === null ? "" : `, ${duration(epoch(view.as_of) - epoch(last.at))} ago`;
  const where = `Mark: last checkpoint, step ${step(last.step)}${hasEnded(view.status.phase) ? "" : age}.`;
  if (hasEnded(view.status.phase) || now === null || now < last.step) return h("p", { class: "small muted" }, where);
  const cost = view.status.phase === "suspended" ? "Resuming repeats" : "A failure now would repeat";
  return h("p", { class: "small muted" }, `${where} ${cost} ${count(now - last.step, "step")}.`);
}

function tone(view) {
  if (view.progress.stalled || view.hang) return "amber";
  return ["failed", "suspended", "cancelled"].includes(view.status.phase) ? "idle" : "";
}

function withTotal(view) {
  const { step: now, total_steps: total, last_checkpoint: last } = view.progress;
  const done = now / total;
  return [h("div", { class: "barline" },
    h("span", { class: "large" }, share(Math.min(done, 1), done >= 0.9995 ? 0 : 1)),
    h("div", { class: `bar ${tone(view)}`, role: "progressbar", "aria-label": "Training steps", "aria-valuemin": 0, "aria-valuemax": total, "aria-valuenow": now, "aria-valuetext": `${step(now)} of ${step(total)} steps` },
      h("i", { class: "fill", style: { width: percent(now, total) } }),
      last ? h("i", { class: "mark", style: { left: percent(last.step, total) } }) : null),
    h("span", { class: "count" }, h("b", {}, step(now)), ` of ${step(total)} steps`)), checkpointLine(view)];
}

function withPercent(view) {
  const done = view.progress.percent;
  return [h("div", { class: "barline" },
    h("span", { class: "large" }, share(done / 100)),
    h("div", { class: `bar ${tone(view)}`, role: "progressbar", "aria-label": "Training", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": done },
      h("i", { class: "fill", style: { width: percent(done, 100) } })),
    h("span", { class: "count" }, "as reported, without steps"))];
}

function withoutTotal(view) {
  const { step: now, last_checkpoint: last } = view.progress;
  return [h("div", { class: "barline nototal" },
    h("span", { class: "large" }, step(now)),
    h("span", { class: "muted" }, "steps; the script gives no total, so there is no percentage or end"),
    h("span", { class: "count" }, last ? `Last checkpoint: step ${step(last.step)}` : "No checkpoint yet"))];
}

function byTime(view) {
  const time = elapsed(view);
  if (time === null || hasEnded(view.status.phase)) return null;
  const label = h("span", { class: "large" }, duration(time));
  const none = h("span", { class: "count" }, "No progress reported");
  if (!view.typical) return [h("div", { class: "barline nototal" }, label, h("span", { class: "muted" }, "so far; the script reports no steps"), none)];
  const { seconds: [from, to], runs } = view.typical;
  const whole = Math.max(to, time) * 1.15;
  return [h("div", { class: "barline" }, label,
    h("div", { class: "bar", role: "img", "aria-label": `Ran for ${duration(time)}; the last ${runs} successful runs took ${duration(from)} to ${duration(to)}` },
      h("i", { class: "fill", style: { width: percent(time, whole) } }),
      h("i", { class: "outline", style: { left: percent(from, whole), width: percent(to - from, whole) } })), none),
  h("p", { class: "small muted" }, `The outlined range is how long the last ${runs} successful runs took: ${duration(from)} to ${duration(to)}.`)];
}

function bar(view) {
  const { progress } = view;
  if (!progress) return byTime(view);
  if (progress.total_steps && progress.step !== null) return withTotal(view);
  if (progress.percent !== null && progress.percent !== undefined) return withPercent(view);
  return progress.step === null ? byTime(view) : withoutTotal(view);
}

function whyUnknown(view) {
  const { progress, status, typical } = view;
  if (status.phase === "suspended") return "while suspended";
  if ((progress && progress.stalled) || view.hang) return "no step finishes";
  if (progress && progress.step !== null && !progress.total_steps) return "no total is reported";
  const start = epoch(status.started_at);
  if (typical && start !== null) return `${clockRange(start + typical.seconds[0], start + typical.seconds[1], view.as_of)} if like before`;
  return progress ? "not enough steps yet" : "the script reports no steps";
}

function ends(view) {
  const { progress } = view;
  const eta = progress && progress.eta;
  if (!eta || progress.stalled) return stat("Ends", "Unknown", whyUnknown(view));
  const value = h("span", { title: eta.basis ? `From ${eta.basis}` : null }, clockRange(eta.earliest, eta.latest, view.as_of));
  return stat("Ends", value, fromNow(eta.earliest, eta.latest, view.as_of));
}

function rateNote(view, rate) {
  if (view.progress.stalled) return view.hang && view.hang.usual_step_seconds ? `${number(1 / view.hang.usual_step_seconds, 1)} steps/s before` : "no step finishes";
  if (rate.versus_previous !== null && Math.abs(rate.versus_previous) < 0.0005) return "as in the last success";
  if (rate.versus_previous !== null && rate.versus_previous !== undefined) return `${change(rate.versus_previous)} vs. last success`;
  return view.previous ? "last success has no rate" : "no earlier run";
}

function rate(view) {
  const { progress, status } = view;
  if (!progress) return null;
  if (!progress.rate) return stat("Rate", "–", status.phase === "suspended" ? "suspended" : "not enough steps yet");
  const { value, unit } = progress.rate;
  return stat("Rate", `${Number(Number(value).toPrecision(3))} ${unit || "steps/s"}`, rateNote(view, progress.rate));
}

function restarts(view) {
  const times = view.status.restarts || 0;
  const repeated = (view.restarts || []).reduce((sum, each) => sum + (each.lost_steps || 0), 0);
  const note = !times ? "none" : repeated ? `${step(repeated)} steps repeated` : (view.restarts || []).length ? "no step repeated" : "of single replicas";
  return stat("Restarts", number(times), note);
}

/** The bar and the four numbers. */
export function progress(view) {
  const ended = hasEnded(view.status.phase);
  const time = elapsed(view);
  if (time === null && !view.progress) return null;
  const wait = queued(view);
  const hours = view.facts && view.facts.gpu_hours && view.facts.gpu_hours.so_far;
  return h("section", { class: "progress", "aria-label": "Progress" }, bar(view), h("dl", { class: "stats" },
    ended ? stat("Ended", clock(view.status.finished_at, view.as_of)) : ends(view),
    ended ? null : rate(view),
    stat("Elapsed", duration(time), wait ? `after ${duration(wait)} in the queue` : "no wait in a queue"),
    restarts(view),
    ended && hours ? stat("GPU hours", number(hours, 1), "used") : null));
}
