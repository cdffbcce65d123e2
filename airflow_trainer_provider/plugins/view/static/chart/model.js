// What a metric's chart shows: its lines and marks, from the series of the API and the reader's choices.

import { clock, duration, epoch, metric, runLabel, step } from "../lib/format.js";
import { tickText, ticks, timeTicks } from "./scale.js";
import { last, smooth, valueAt } from "./smooth.js";

/** The number of points from which on a smoothed line helps. */
const DENSE = 40;
/** The maximum number of points that are marked individually. */
const SPARSE = 24;

/** The attempts with values; points without a step are left out if others have one. */
function attempts(list) {
  return (list || []).map((each) => {
    const kept = each.step.map((value, index) => index).filter((index) => each.step[index] !== null);
    const column = (values) => kept.map((index) => values[index]);
    return kept.length && kept.length < each.step.length ? { ...each, step: column(each.step), at: column(each.at), value: column(each.value) } : each;
  }).filter((each) => each.value.length);
}

/** The reader's choices; for a script that reports no steps, only the time is known. */
function possible(list, choices) {
  return list.some((each) => each.step[0] === null) ? { ...choices, axis: "time" } : choices;
}

const byStep = { name: "Step", text: step, ticks, tick: (value, all) => tickText(value, all) };

function elapsedText(value) {
  if (value < 3600) return value === 0 ? "0" : `${Math.round(value / 60)} min`;
  return value % 3600 ? duration(value) : `${value / 3600} h`;
}

const byTime = { name: "Elapsed", text: (value) => duration(value), ticks: timeTicks, tick: elapsedText };

/** What the horizontal axis shows: steps, or the time since the start. */
export const axisOf = (choices) => (choices.axis === "time" ? byTime : byStep);

function positions(attempt, choices, start) {
  return choices.axis === "time" ? attempt.at.map((at) => at - start) : attempt.step;
}

/** The curve of the last successful run, dotted behind the others. */
function previousLines(view, series, choices) {
  const list = choices.last_success === "1" && view.previous ? attempts(series.previous) : [];
  if (!list.length) return [];
  const start = list[0].at[0];
  const label = runLabel(view.previous.label);
  return list.map((each, index) => ({
    x: positions(each, choices, start), y: each.value.length > DENSE ? smooth(each.value) : each.value, tone: "previous",
    name: index === list.length - 1 ? `Last success (${label})` : null, label: index === list.length - 1 ? label : null,
  }));
}

/** An attempt's line, and behind it the raw values; the part that a later attempt repeats is dotted. */
function trainLines(series, choices, start, name) {
  const list = attempts(series.train);
  return list.flatMap((each, index) => {
    const newest = index === list.length - 1;
    const smoothed = choices.smooth === "1" && each.value.length > DENSE;
    const x = positions(each, choices, start);
    const y = smoothed ? smooth(each.value) : each.value;
    const repeated = newest || choices.axis === "time" ? -1 : each.step.findIndex((value) => value > list[index + 1].step[0]);
    const kept = repeated < 0 ? x.length : repeated;
    const value = last(y);
    const lines = smoothed ? [{ x: x.slice(0, kept), y: each.value.slice(0, kept), tone: "raw" }] : [];
    lines.push({
      x: x.slice(0, kept), y: y.slice(0, kept), tone: "train", main: newest, name: newest ? name : null,
      dots: each.value.length <= SPARSE, label: newest && value !== null ? `${name === "train" ? "train " : ""}${metric(value)}` : null,
    });
    if (kept < x.length) lines.push({ x: x.slice(kept - 1), y: y.slice(kept - 1), tone: "repeated" });
    return lines;
  });
}

function evalLines(series, choices, start) {
  const list = attempts(series.eval);
  if (!list.length) return [];
  const x = list.flatMap((each) => positions(each, choices, start));
  const y = list.flatMap((each) => each.value);
  return [{ x, y, tone: "eval", name: "eval", dots: y.length <= SPARSE, label: last(y) === null ? null : `eval ${metric(last(y))}` }];
}

function marks(view, choices, start) {
  return (view.restarts || [])
    .filter((each) => choices.axis === "time" ? epoch(each.at) !== null : each.from_step !== null && each.from_step !== undefined)
    .map((each) => ({
      x: choices.axis === "time" ? epoch(each.at) - start : each.from_step,
      text: `Restart ${clock(each.at, view.as_of)}${each.text ? `: ${each.text}` : ""}`,
    }));
}

/** The chart of a metric, or null while it has no values. */
export function chartModel(view, series, wanted) {
  const list = attempts(series.train);
  const choices = possible(list, wanted);
  const both = attempts(series.eval).length > 0;
  const start = epoch(view.status.started_at) ?? (list.length ? list[0].at[0] : 0);
  const lines = [
    ...previousLines(view, series, choices),
    ...trainLines(series, choices, start, both ? "train" : series.metric),
    ...evalLines(series, choices, start),
  ].filter((line) => line.x.length);
  if (!lines.some((line) => line.tone === "train" || line.tone === "eval")) return null;
  return { axis: axisOf(choices), label: `${series.metric} by ${choices.axis}`, lines, log: choices.log === "1", marks: marks(view, choices, start) };
}

const smoothed = (attempt) => (attempt.value.length > DENSE ? smooth(attempt.value) : attempt.value);

function verdict(now, before, better, rest) {
  if (now === null || before === null || !before || !better) return null;
  const change = (now - before) / Math.abs(before);
  const good = (change < 0) === (better === "lower");
  return { change, word: Math.abs(change) < 0.0005 ? "the same" : good ? "better" : "worse", ...rest };
}

/** The mean of values, and the square of its standard error. */
function meanOf(values) {
  const found = values.filter(Number.isFinite);
  const mean = found.reduce((sum, value) => sum + value, 0) / found.length;
  const spread = found.reduce((sum, value) => sum + (value - mean) ** 2, 0) / Math.max(1, found.length - 1);
  return { mean, error: spread / found.length };
}

/** Compare the newest steps with as many before them; a difference within the noise counts as none. */
function trend(attempt, better) {
  const size = Math.floor(attempt.value.length / 5);
  if (size < 5) return null;
  const [now, before] = [meanOf(attempt.value.slice(-size)), meanOf(attempt.value.slice(-2 * size, -size))];
  const clear = Math.abs(now.mean - before.mean) > 2 * Math.sqrt(now.error + before.error);
  const end = attempt.step.length - 1;
  return verdict(clear ? now.mean : before.mean, before.mean, better, { steps: attempt.step[end] - attempt.step[end - size + 1], previous: false });
}

/** How the metric compares with the last success at the same step; without one, with its own earlier steps. */
export function comparison(view, series) {
  const newest = attempts(series.train).pop();
  if (!newest || newest.step[0] === null) return null;
  const values = smoothed(newest);
  const at = newest.step[newest.step.length - 1];
  const previous = view.previous ? attempts(series.previous).pop() : null;
  if (previous) return verdict(last(values), valueAt(previous.step, smoothed(previous), at), series.better, { step: at, previous: true });
  return trend(newest, series.better);
}
