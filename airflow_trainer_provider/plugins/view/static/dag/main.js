// The Training tab of a DAG: reads the API, keeps the reader's choices, and draws.

import { readQuery, writeQuery } from "../lib/address.js";
import { pause } from "../lib/client.js";
import { h } from "../lib/dom.js";
import { base } from "../lib/frame.js";
import { LivePage } from "../lib/live_page.js";
import { morph } from "../lib/morph.js";
import { page, settle } from "./page.js";
import { keyOf, labels, outcomeWord } from "./run.js";
import { tip } from "./runs.js";

/** Seconds between requests; few, as each response covers many runs. */
const GENTLE = 15;

/** The reader's choices, with the defaults for those that the address does not have. */
const DEFAULTS = { task_id: "", metric: "", limit: "20", changes: "previous" };

function choicesOfAddress() {
  const query = readQuery();
  return Object.fromEntries(Object.entries(DEFAULTS).map(([name, value]) => [name, query.get(name) ?? value]));
}

class App extends LivePage {
  constructor(root) {
    super(root);
    this.dag = readQuery().get("dag_id") || "";
    this.choices = choicesOfAddress();
    this.ui = { pointed: null, picked: null, open: new Set(), all: false, cursor: null, runsWidth: 640, chartSize: { width: 640, height: 220 } };
    Object.assign(this, { view: null, names: new Map(), curves: null, curvesError: null, answered: null });
    for (const name of ["point", "goTo", "moveCursor"]) this[name] = this[name].bind(this);
  }

  /** Drop the data of another task; the choices stay. */
  changeTask(task) {
    this.choices.metric = "";
    this.view = { ...this.view, task_id: task, metrics: [], runs: [], pending: true };
    Object.assign(this, { curves: null, curvesError: null, refused: null });
    Object.assign(this.ui, { pointed: null, picked: null, all: false, cursor: null });
  }

  // Addresses

  api(part = "") {
    return `${base()}/api/dags/${encodeURIComponent(this.dag)}${part}`;
  }

  address() {
    const { task_id: task, metric, limit } = this.choices;
    const query = new URLSearchParams({ ...(task && { task_id: task }), ...(metric && { metric }), limit });
    return `${this.api()}?${query}`;
  }

  curvesAddress() {
    const query = new URLSearchParams({ task_id: this.view.task_id, ...(this.view.metric && { metric: this.view.metric }) });
    for (const key of this.picked()) query.append("run", key);
    return `${this.api("/series")}?${query}`;
  }

  /** The Training tab of a run's task, in Airflow. */
  taskPath(run) {
    const mapped = run.map_index < 0 ? "" : `/mapped/${run.map_index}`;
    return `/dags/${encodeURIComponent(this.dag)}/runs/${encodeURIComponent(run.run_id)}/tasks/${encodeURIComponent(this.view.task_id)}${mapped}/plugin/training`;
  }

  // State

  label(run) {
    return this.names.get(keyOf(run));
  }

  /** The runs whose curves are shown: the chosen ones; else the champion, the last success, and the latest. */
  picked() {
    const known = new Set(this.view.runs.map(keyOf));
    const { champion, numbers, runs } = this.view;
    const usual = [champion, numbers.last_success, runs[0]].filter(Boolean).map(keyOf);
    return [...(this.ui.picked || new Set(usual))].filter((key) => known.has(key));
  }

  isActive() {
    return Boolean(this.view && this.view.runs.some((run) => run.is_active));
  }

  // Actions of the reader

  choose(name, value) {
    this.choices[name] = value;
    if (name === "task_id") this.changeTask(value);
    writeQuery(Object.fromEntries(Object.entries(DEFAULTS).map(([each, usual]) => [each, this.choices[each] === usual ? null : this.choices[each]])));
    this.redraw();
    if (name !== "changes") this.refresh();
  }

  /** Show or hide the curve of a run. */
  pick(key) {
    const picked = new Set(this.picked());
    if (!picked.delete(key)) picked.add(key);
    this.ui.picked = picked;
    this.ui.cursor = null;
    this.redraw();
    this.readCurves().then(() => this.redraw());
  }

  show(values) {
    Object.assign(this.ui, values);
    this.redraw();
  }

  /** Mark a run in the chart and in the table; null for none. */
  point(key) {
    if (key === this.ui.pointed) return;
    this.ui.pointed = key;
    for (const each of this.root.querySelectorAll("[data-run]")) each.classList.toggle("on", each.dataset.run === key);
    const shown = document.getElementById("runs-tip");
    if (shown) morph(shown, tip(this));
  }

  /** Bring a run's row into sight, with the focus on its link. */
  goTo(key) {
    if (!this.row(key)) this.show({ all: true });
    const row = this.row(key);
    if (!row) return;
    row.scrollIntoView({ block: "nearest" });
    row.querySelector("a").focus({ preventScroll: true });
  }

  row(key) {
    return [...this.root.querySelectorAll("tr[data-run]")].find((each) => each.dataset.run === key);
  }

  moveCursor(cursor, overlay) {
    this.ui.cursor = cursor;
    const shown = document.getElementById("chart-overlay");
    if (shown) morph(shown, overlay);
  }

  // Requests

  async readCurves() {
    if (!this.view || !this.picked().length) {
      this.curves = null;
      return;
    }
    const address = this.curvesAddress();
    try {
      const curves = await this.client.get(address);
      if (this.view && address === this.curvesAddress()) Object.assign(this, { curves, curvesError: null });
    } catch (error) {
      this.curvesError = `The curves cannot be read (${error.message || "no connection"}).`;
    }
  }

  async read() {
    const address = this.address();
    try {
      const view = await this.client.get(address);
      if (address !== this.address()) return;
      this.take(view);
      await this.readCurves();
    } catch (error) {
      if (address !== this.address()) return;
      this.fail(error);
    }
  }

  /** A new view: a run that has ended is announced once. */
  take(view) {
    const active = new Set(((this.view && this.view.runs) || []).filter((run) => run.is_active).map(keyOf));
    Object.assign(this, { view, names: labels(view.runs), failures: 0, refused: null, answered: Date.now() / 1000 });
    const ended = view.runs.find((run) => !run.is_active && active.has(keyOf(run)));
    if (ended) this.announce(`${this.label(ended)}: ${outcomeWord(ended)}.`);
  }

  pauseSeconds() {
    return Math.max(GENTLE, pause({ ended: false, failures: this.failures, active: !document.hidden && this.isActive() }));
  }

  // Drawing

  /** The labels of runs contain dates. */
  timezoneChanged() {
    if (this.view) this.names = labels(this.view.runs);
    super.timezoneChanged();
  }

  redraw() {
    morph(this.root, h("main", { class: "view", id: "view", "aria-busy": (this.view && !this.view.pending) || this.refused ? null : "true" }, page(this)));
    settle(this.root);
    this.measure();
  }

  /** The charts use the available width. */
  measure() {
    const [runs, chart] = ["runs-chart", "chart"].map((id) => document.getElementById(id));
    const width = runs ? Math.round(runs.clientWidth) : this.ui.runsWidth;
    const size = chart ? { width: Math.round(chart.clientWidth), height: Math.round(chart.clientHeight) } : this.ui.chartSize;
    if (!width || !size.width || (width === this.ui.runsWidth && size.width === this.ui.chartSize.width && size.height === this.ui.chartSize.height)) return;
    Object.assign(this.ui, { runsWidth: width, chartSize: size });
    this.redraw();
  }

  /** A row under the pointer, or with the focus, marks its column in the chart. */
  followRows() {
    const mark = (event) => {
      if (event.target.closest("#runs-chart")) return;
      const row = event.target.closest("tr[data-run]");
      this.point(row ? row.dataset.run : null);
    };
    this.root.addEventListener("pointerover", mark);
    this.root.addEventListener("focusin", mark);
    this.root.addEventListener("pointerleave", () => this.point(null));
  }

  start() {
    new ResizeObserver(() => this.view && this.redraw()).observe(this.root);
    this.followRows();
    super.start();
  }
}

new App(document.getElementById("view")).start();
