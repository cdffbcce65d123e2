// A run: its label, its key and its durations.

import { clock, day, duration, metric, runLabel, seconds } from "../lib/format.js";
import { stateWord } from "../lib/states.js";

/** The kinds of time, in the order in which they are stacked. */
export const KINDS = { queued: "queued", starting: "starting", running: "training", redone: "repeated steps" };

/** The key of a run in requests to the API. */
export const keyOf = (run) => `${run.map_index},${run.run_id}`;

/** The total number of seconds. */
export const total = (run) => Object.keys(KINDS).reduce((sum, kind) => sum + (run.durations[kind] || 0), 0);

/** Whether two of the runs have the same label. */
function collide(runs, label) {
  const seen = new Map();
  return runs.some((run) => {
    const text = label(run.label);
    const before = seen.get(text);
    seen.set(text, run.run_id);
    return before !== undefined && before !== run.run_id;
  });
}

const isTime = (text) => runLabel(text) !== text;
const exact = (time, format) => (isTime(time) ? `${day(time)} ${format(time)}` : time);

/** The labels of runs, by key: the day, with the time if several runs are on the same day. */
export function labels(runs) {
  const forms = [runLabel, (time) => exact(time, clock), (time) => exact(time, seconds)];
  const form = forms.find((each) => !collide(runs, each)) || forms[2];
  return new Map(runs.map((run) => [keyOf(run), run.map_label === null ? form(run.label) : `${form(run.label)} [${run.map_label}]`]));
}

/** The properties of a run, as pairs of a name and a text. */
export function reading(run, name) {
  const value = name === null ? undefined : run.metrics[name];
  return [
    value === undefined ? null : [name, metric(value)],
    ...Object.entries(KINDS).map(([kind, word]) => (run.durations[kind] ? [word, duration(run.durations[kind])] : null)),
    run.gpu_hours === null ? null : ["GPU hours", String(run.gpu_hours)],
    run.reason ? ["reason", run.reason] : null,
  ].filter(Boolean);
}

/** `Succeeded`, or `Unknown`. */
export const outcomeWord = (run) => stateWord(run.outcome);
