// The table of jobs. In a narrow frame its rows become a list.

import { h, s } from "../lib/dom.js";
import { framework, progress, size, started, state, task, time } from "./cells.js";
import { menu } from "./menu.js";

/** Class, title, and what the column is sorted by. */
const COLUMNS = [
  ["c-state", "State", "state"], ["c-task", "DAG and task", "dag"], ["c-framework", "Framework", "framework"], ["c-size num", "Size", "size"],
  ["c-progress", "Progress or queue position", null], ["c-started", "Started", "started"], ["c-time num", "Duration", "duration"], ["c-owner", "Owner", "owner"],
];
/** The columns with words, which a first click sorts in ascending order. */
const UPWARDS = ["state", "dag", "framework", "owner"];

function arrows(direction) {
  const half = (d, on) => s("path", { d, class: on ? null : "off" });
  return s("svg", { class: "arrows", viewBox: "0 0 8 12", "aria-hidden": "true" }, half("M4 0 7.500 4.500H.500z", direction === "ascending"), half("M4 12 .500 7.500h7z", direction === "descending"));
}

function head(app, [tone, title, key]) {
  if (!key) return h("th", { scope: "col", class: tone }, title);
  const { sort } = app.choices;
  const direction = sort === key ? "ascending" : sort === `-${key}` ? "descending" : null;
  const next = direction ? (direction === "ascending" ? `-${key}` : key) : UPWARDS.includes(key) ? key : `-${key}`;
  return h("th", { scope: "col", class: tone, "aria-sort": direction },
    h("button", { type: "button", class: "sort", onclick: () => app.choose({ sort: next }) }, title, arrows(direction)));
}

function job(app, row) {
  const cell = (tone, ...content) => h("td", { class: tone }, content);
  return h("tr", { class: "job", "data-key": row.id },
    cell("c-state", state(row)), cell("c-task", task(app, row)), cell("c-framework", framework(row)), cell("c-size num", size(row)),
    cell("c-progress", progress(app, row)), cell("c-started", started(app, row)), cell("c-time num", time(app, row)),
    cell("c-owner", h("span", { class: "cut block", title: row.owner }, row.owner || "–")), cell("c-menu", menu(app, row)));
}

/** The jobs of the page that is shown. */
export function table(app) {
  return h("table", { class: "jobs", "data-key": "jobs" },
    h("thead", {}, h("tr", {}, COLUMNS.map((column) => head(app, column)), h("th", { scope: "col", class: "c-menu" }, h("span", { class: "sr" }, "Actions")))),
    h("tbody", { onpointermove: () => app.point(true), onpointerleave: () => app.point(false) }, app.rows().map((row) => job(app, row))));
}
