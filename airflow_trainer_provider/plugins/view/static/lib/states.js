// The states of jobs and replicas: icon and word, the same everywhere.

import { h, icon } from "./dom.js";

export const STATES = {
  queued: ["list", "Queued"],
  starting: ["dashed", "Starting"],
  running: ["activity", "Running"],
  restarting: ["repeat", "Restarting"],
  suspended: ["pause", "Suspended"],
  succeeded: ["check", "Succeeded"],
  failed: ["cross", "Failed"],
  cancelled: ["slash", "Cancelled"],
  stopped: ["square", "Stopped"],
  stuck: ["alert", "No progress"],
};

const ENDED = new Set(["succeeded", "failed", "cancelled"]);

export const hasEnded = (phase) => ENDED.has(phase);

const known = (state) => STATES[state] || ["dashed", state ? String(state) : "Unknown"];

export const stateWord = (state) => known(state)[1];

export const stateIcon = (state, size = "small") => icon(known(state)[0], size);

/** Airflow's badge of a state. */
export const badge = (state) => h("span", { class: `badge st-${STATES[state] ? state : "cancelled"}` }, stateIcon(state), stateWord(state));

/** A state as icon and text, without a background. */
export const stateText = (state, ...text) =>
  h("span", { class: "st" }, h("span", { class: `fg-${state}` }, stateIcon(state)), h("span", { class: "cut" }, text.length ? text : stateWord(state)));
