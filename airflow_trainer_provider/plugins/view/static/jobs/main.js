// The Training page: reads a page of the jobs of all DAGs, keeps the reader's choices, and draws.

import { pause } from "../lib/client.js";
import { h } from "../lib/dom.js";
import { count, epoch } from "../lib/format.js";
import { base } from "../lib/frame.js";
import { LivePage } from "../lib/live_page.js";
import { morph } from "../lib/morph.js";
import { DEFAULTS, queryOf, readChoices, writeChoices } from "./choices.js";
import { confirmFor, followMenu } from "./menu.js";
import { page } from "./page.js";

const OLD = 30, TYPING = 250;

class App extends LivePage {
  constructor(root) {
    super(root);
    this.choices = readChoices();
    Object.assign(this, { list: null, problem: null, answered: null, menu: null, pending: new Map(), pointed: false });
  }

  // Actions of the reader

  /** Apply a choice, and return to the first page. */
  choose(values) {
    Object.assign(this.choices, { page: "1" }, values);
    writeChoices(this.choices);
    this.menu = null;
    this.chosen = true;
    this.redraw();
    this.refresh();
  }

  clear() {
    this.choose({ ...DEFAULTS, view: this.choices.view, sort: this.choices.sort });
  }

  search(text) {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.choose({ q: text }), TYPING);
  }

  /** While the pointer is on the table, no row moves under it. */
  point(pointed) {
    if (this.pointed === pointed) return;
    this.pointed = pointed;
    if (!pointed && this.list) this.redraw();
  }

  ask(row, name) {
    confirmFor(this, row, name);
  }

  async act(row, name, uid) {
    const path = [row.dag_id, row.run_id, row.task_id, String(row.map_index)].map(encodeURIComponent).join("/");
    this.pending.set(row.id, { name, state: row.state });
    this.problem = null;
    this.redraw();
    try {
      const { message } = await this.client.post(`${base()}/api/tasks/${path}/${name}`, { uid });
      this.announce(message || "The action was sent.");
    } catch (error) {
      this.pending.delete(row.id);
      this.problem = `${row.dag_id} / ${row.task_id}: the action failed: ${(error.message || "no connection").replace(/\.$/, "")}.`;
    }
    this.redraw();
    this.refresh();
  }

  // Requests

  async read() {
    const query = queryOf(this.choices);
    try {
      const list = await this.client.get(`${base()}/api/jobs${query ? `?${query}` : ""}`);
      if (query === queryOf(this.choices)) this.take(list);
    } catch (error) {
      this.fail(error);
    }
  }

  take(list) {
    if (this.chosen) this.announce(count(list.counts[this.choices.view], "job"));
    else if (this.pointed && this.list) this.order = this.rows().map((row) => row.id);
    if (this.chosen || !this.pointed) this.order = null;
    for (const row of list.jobs) {
      const asked = this.pending.get(row.id);
      if (asked && asked.state !== row.state) this.pending.delete(row.id);
    }
    // An unchanged response is still current, so its time advances.
    if (list !== this.list) this.listAt = performance.now();
    Object.assign(this, { list, chosen: false, failures: 0, refused: null, answered: performance.now() });
  }

  /** The rows, in the order in which they are shown. */
  rows() {
    const { jobs } = this.list;
    if (!this.order || !this.pointed) return jobs;
    const place = new Map(this.order.map((id, index) => [id, index]));
    return [...jobs].sort((a, b) => (place.get(a.id) ?? jobs.length) - (place.get(b.id) ?? jobs.length));
  }

  /** The time at the server, in seconds since 1970. */
  now() {
    return epoch(this.list.as_of) + (this.unreachable() ? 0 : (performance.now() - this.listAt) / 1000);
  }

  unreachable() {
    return this.refused !== null || (this.answered !== null && performance.now() - this.answered > OLD * 1000);
  }

  pauseSeconds() {
    return pause({ ended: false, failures: this.failures, active: !document.hidden });
  }

  // Drawing

  redraw() {
    morph(this.root, h("main", { class: "view", id: "view", "aria-busy": this.list || this.refused ? null : "true" }, page(this)));
    // The tree does not have what a reader has typed or picked: the controls keep it.
    for (const control of this.root.querySelectorAll("[data-choice]")) {
      if (control !== document.activeElement) control.value = this.choices[control.dataset.choice];
    }
  }

  start() {
    followMenu(this);
    super.start();
  }
}

new App(document.getElementById("view")).start();
