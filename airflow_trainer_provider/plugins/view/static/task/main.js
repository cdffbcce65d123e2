// The Training tab of a task instance: reads the API, keeps the reader's choices, and draws.

import { readQuery } from "../lib/address.js";
import { readChoices, writeChoices } from "../lib/choices.js";
import { pause } from "../lib/client.js";
import { h } from "../lib/dom.js";
import { epoch } from "../lib/format.js";
import { base } from "../lib/frame.js";
import { LivePage } from "../lib/live_page.js";
import { morph } from "../lib/morph.js";
import { hasEnded, stateWord } from "../lib/states.js";
import { page } from "./page.js";

const NARROW = 620, OLD = 30;
/** States of a task instance after which nothing changes. */
const OVER = ["success", "failed", "skipped", "removed", "upstream_failed"];

/** The task instance in the address. For a task that is not mapped, Airflow does not replace the placeholder. */
function taskOfAddress() {
  const query = readQuery();
  const index = query.get("map_index");
  return {
    dag_id: query.get("dag_id") || "", run_id: query.get("run_id") || "", task_id: query.get("task_id") || "",
    map_index: /^\d+$/.test(index || "") ? index : "-1",
  };
}

class App extends LivePage {
  constructor(root) {
    super(root);
    this.task = taskOfAddress();
    this.choices = readChoices();
    this.forget();
    this.ui = { cursor: null, chartSize: { width: 640, height: 270 }, open: new Set(), unfolded: new Set(), picked: null, cell: 0, shown: 8, search: "", allMetrics: false };
    this.moveCursor = this.moveCursor.bind(this);
  }

  /** Drop the data of another try, and cached responses for this one, whose time has not advanced meanwhile. */
  forget() {
    this.client.forget();
    Object.assign(this, { view: null, raw: null, replicas: null, series: new Map(), seriesError: null, refused: null, pending: null, problem: null, answered: null });
  }

  // Addresses

  api(part = "") {
    const { dag_id: dag, run_id: run, task_id: task, map_index: index } = this.task;
    return `${base()}/api/tasks/${[dag, run, task, index].map(encodeURIComponent).join("/")}${part}`;
  }

  query(values = {}) {
    const query = new URLSearchParams(this.choices.try ? { ...values, try: this.choices.try } : values).toString();
    return query ? `?${query}` : "";
  }

  taskPath(task) {
    return `/dags/${encodeURIComponent(this.task.dag_id)}/runs/${encodeURIComponent(this.task.run_id)}/tasks/${encodeURIComponent(task)}`;
  }

  logPath() {
    const mapped = this.task.map_index === "-1" ? "" : `/mapped/${this.task.map_index}`;
    return `${this.taskPath(this.task.task_id)}${mapped}${this.choices.try ? `?try_number=${this.choices.try}` : ""}`;
  }

  // State

  /** The metric that is shown: the chosen one, else the loss, else the first. */
  metric() {
    const names = this.view.metrics.map((each) => each.name);
    return [this.choices.metric, "loss", names[0]].find((name) => names.includes(name));
  }

  /** Whether the page shows a state that is not current. */
  unreachable() {
    return Boolean(this.view.stale) || this.refused !== null || (!this.jobEnded() && !this.ended() && this.answered !== null && performance.now() - this.answered > OLD * 1000);
  }

  /** Whether the job has ended, even if another try of the task follows. */
  jobEnded() {
    return Boolean(this.view && this.view.status && hasEnded(this.view.status.phase));
  }

  /** Whether nothing changes any more. */
  ended() {
    if (!this.view) return false;
    if (this.view.is_training === false) return true;
    return OVER.includes(this.view.task_state);
  }

  narrow() {
    return this.root.clientWidth <= NARROW;
  }

  // Actions of the reader

  choose(name, value) {
    this.choices[name] = value;
    writeChoices(this.choices);
    if (name === "metric" || name === "axis") this.ui.cursor = null;
    if (name === "try") this.forget();
    this.redraw();
    if (name === "try") this.refresh();
    if (name === "metric") this.readSeries().then(() => this.redraw());
  }

  show(values) {
    Object.assign(this.ui, values);
    this.redraw();
  }

  moveCursor(cursor, overlay) {
    this.ui.cursor = cursor;
    const shown = document.getElementById("chart-overlay");
    if (shown) morph(shown, overlay);
  }

  /** Send an action for the job that the confirmation has named. */
  async act(name, uid) {
    this.pending = name;
    this.problem = null;
    this.redraw();
    try {
      const { message } = await this.client.post(this.api(`/${name}`), { uid });
      this.announce(message || "The action was sent.");
    } catch (error) {
      this.pending = null;
      this.problem = `The action failed: ${(error.message || "no connection").replace(/\.$/, "")}.`;
    }
    this.redraw();
    this.refresh();
  }

  // Requests

  async readSeries() {
    if (!this.view || !(this.view.metrics || []).length) return;
    const metric = this.metric();
    try {
      this.series.set(metric, await this.client.get(this.api("/series") + this.query({ metric, points: "500" })));
      this.seriesError = null;
    } catch (error) {
      this.seriesError = `The values cannot be read (${error.message || "no connection"}).`;
    }
  }

  async readReplicas() {
    try {
      this.replicas = await this.client.get(this.api("/replicas") + this.query());
    } catch {
      // The last known replicas stay; the task view says whether the answers are current.
    }
  }

  async read() {
    const chosen = this.choices.try;
    try {
      const view = await this.client.get(this.api() + this.query());
      if (chosen !== this.choices.try) return;
      this.take(view);
      if (view.job) await Promise.all([this.readSeries(), this.readReplicas()]);
    } catch (error) {
      if (chosen !== this.choices.try) return;
      this.fail(error);
    }
  }

  /** A new task view: a change of state is announced once, and completes a pending action. */
  take(answer) {
    const view = this.dated(answer);
    const before = this.view && this.view.status ? this.view.status.phase : null;
    const after = view.status ? view.status.phase : null;
    if (before !== null && before !== after) {
      this.pending = null;
      this.announce(`${stateWord(after)}. ${view.summary}`);
    }
    Object.assign(this, { view, failures: 0, refused: null, answered: performance.now() });
  }

  /** An unchanged response is still current, so its time advances. */
  dated(answer) {
    if (answer !== this.raw) Object.assign(this, { raw: answer, rawAt: performance.now() });
    if (answer.stale || !answer.as_of || (answer.status && hasEnded(answer.status.phase))) return answer;
    const passed = (performance.now() - this.rawAt) / 1000;
    return { ...answer, as_of: new Date((epoch(answer.as_of) + passed) * 1000).toISOString() };
  }

  pauseSeconds() {
    return pause({ ended: this.ended(), failures: this.failures, active: !document.hidden && !this.jobEnded() });
  }

  // Drawing

  redraw() {
    morph(this.root, h("main", { class: "view", id: "view", "aria-busy": this.view || this.refused ? null : "true" }, page(this)));
    this.measure();
  }

  /** The chart uses the width of its column. */
  measure() {
    const chart = document.getElementById("chart");
    if (!chart) return;
    const size = { width: Math.round(chart.clientWidth), height: Math.round(chart.clientHeight) };
    if (!size.width || (size.width === this.ui.chartSize.width && size.height === this.ui.chartSize.height)) return;
    this.ui.chartSize = size;
    this.redraw();
  }

  start() {
    new ResizeObserver(() => this.view && this.redraw()).observe(this.root);
    super.start();
  }
}

new App(document.getElementById("view")).start();
