// The actions on a job: open it, read its log, suspend, resume or stop it.

import { h, icon } from "../lib/dom.js";
import { airflowLink } from "../lib/frame.js";
import { hasEnded } from "../lib/states.js";
import { confirmAction } from "../task/dialog.js";

const ACTIONS = {
  resume: { text: "Resume", busy: "Resuming …", symbol: "play" },
  suspend: { text: "Suspend", busy: "Suspending …", symbol: "pause" },
  stop: { text: "Stop", busy: "Stopping …", symbol: "square" },
};

/** The address of a task instance in Airflow. */
export function taskPath(row) {
  const [dag, run, task] = [row.dag_id, row.run_id, row.task_id].map(encodeURIComponent);
  return `/dags/${dag}/runs/${run}/tasks/${task}${row.map_index < 0 ? "" : `/mapped/${row.map_index}`}`;
}

/** The address of its Training tab. */
export const tabPath = (row) => `${taskPath(row)}/plugin/training`;

/** Confirm an action with the dialog of the Training tab, which expects the view of one task. */
export function confirmFor(app, row, name) {
  const { nodes, gpus, queue, uid } = row;
  const view = { as_of: new Date(app.now() * 1000).toISOString(), job: { name: row.name, uid, queue }, facts: { size: { nodes, gpus } }, progress: row.progress };
  confirmAction({ task: row, view, act: (action, of) => app.act(row, action, of) }, name);
}

function close(app, back) {
  const id = app.menu;
  app.menu = null;
  app.redraw();
  if (back) document.getElementById(`menu-${id}`)?.focus();
}

const items = () => [...document.querySelectorAll('[role="menu"] [role="menuitem"]')];

function move(app, event) {
  const all = items();
  const at = all.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
  if (event.key === "Escape") close(app, true);
  else if (event.key === "Tab") close(app, false);
  else if (to !== undefined) all.at(to % all.length).focus();
  if (to !== undefined || event.key === "Escape") event.preventDefault();
}

function refusal(app, row, name) {
  const { allowed, why } = row.actions[name];
  const pending = app.pending.get(row.id);
  if (pending) return "The cluster has not reported it yet.";
  if (app.unreachable()) return "Not possible while the last known state is shown.";
  return allowed ? null : why || "Not possible now.";
}

function action(app, row, name) {
  const { text, busy, symbol } = ACTIONS[name];
  const why = refusal(app, row, name);
  const pending = app.pending.get(row.id);
  const onclick = () => {
    if (why) return;
    close(app, true);
    app.ask(row, name);
  };
  return h("button", { type: "button", role: "menuitem", tabindex: "-1", "data-key": name, "aria-disabled": why ? "true" : null, onclick },
    icon(symbol, "small"), h("span", {}, pending && pending.name === name ? busy : text, why ? h("small", {}, why) : null));
}

function link(symbol, text, path) {
  const made = airflowLink("", path, icon(symbol, "small"), h("span", {}, text));
  made.setAttribute("role", "menuitem");
  made.setAttribute("tabindex", "-1");
  return made;
}

/** The button of a row's menu, and the menu where it is open. */
export function menu(app, row) {
  const open = app.menu === row.id;
  const press = () => {
    if (open) {
      close(app, true);
      return;
    }
    app.menu = row.id;
    app.redraw();
    items()[0]?.focus();
  };
  const second = row.state === "suspended" ? "resume" : "suspend";
  return h("span", { class: "menu-of" },
    h("button", { type: "button", class: "kebab", id: `menu-${row.id}`, "aria-haspopup": "menu", "aria-expanded": open ? "true" : "false", "aria-label": `Actions for ${row.dag_id} ${row.task_id}, job ${row.name}`, onclick: press }, icon("more")),
    open ? h("div", { class: "menu", role: "menu", "aria-label": "Actions", onkeydown: (event) => move(app, event) },
      link("right", "Open the task", tabPath(row)), link("list", "Log", taskPath(row)),
      h("hr", {}), hasEnded(row.state) ? null : action(app, row, second), action(app, row, "stop")) : null);
}

/** A click elsewhere closes the menu. */
export function followMenu(app) {
  document.addEventListener("click", (event) => {
    if (app.menu !== null && !event.target.closest(".menu-of")) close(app, false);
  });
}
