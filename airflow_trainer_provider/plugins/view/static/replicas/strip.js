// One cell for each replica, coloured by state, step time or memory, to find a replica and to see deviations.

import { h } from "../lib/dom.js";
import { bytes, number } from "../lib/format.js";
import { segments } from "../lib/parts.js";
import { stateIcon, stateWord } from "../lib/states.js";
import { ranksOf } from "./lanes.js";

const HEATS = ["heat-0", "heat-1", "heat-2", "heat-3"];
const QUIET = new Set(["running", "stopped", "succeeded", "suspended"]);

function heatOfTime(row, { median, p95 }) {
  if (!row.step_seconds || !median) return null;
  if (row.step_seconds > 2 * median) return HEATS[3];
  if (row.step_seconds > 1.2 * Math.max(p95 || 0, median)) return HEATS[2];
  return row.step_seconds > 1.05 * median ? HEATS[1] : HEATS[0];
}

function memoryRange(rows) {
  const found = rows.map((row) => row.peak_memory_bytes).filter(Number.isFinite);
  return found.length ? [Math.min(...found), Math.max(...found)] : null;
}

function heatOfMemory(row, [low, high]) {
  if (!row.peak_memory_bytes) return null;
  return HEATS[Math.min(3, Math.floor(((row.peak_memory_bytes - low) / (high - low || 1)) * 4))];
}

/** The colouring in use: a function from a replica to its class, and the legend. */
function colouring(app, rows) {
  const { colour } = app.choices;
  const ramp = (low, high) => h("span", { class: "ramp" }, low, HEATS.map((each) => h("i", { class: each })), high);
  const times = app.replicas.step_seconds || {};
  const memory = memoryRange(rows);
  if (colour === "time" && times.median) return { of: (row) => heatOfTime(row, times), legend: ramp(`${number(times.median, 2)} s median`, "over 2 ×") };
  if (colour === "memory" && memory) return { of: (row) => heatOfMemory(row, memory), legend: ramp(bytes(memory[0]), bytes(memory[1])) };
  return { of: () => null, legend: null };
}

function describe(row) {
  const parts = [row.name, ranksOf(row), stateWord(row.state), row.state === "running" ? null : row.reason, row.step_seconds ? `${number(row.step_seconds, 2)} s a step` : null];
  return parts.filter(Boolean).join(", ");
}

function cell(app, row, index, of) {
  const heat = QUIET.has(row.state) ? of(row) : null;
  const picked = app.ui.picked === row.name;
  const focusable = app.ui.cell === index;
  const press = () => app.show({ picked: picked ? null : row.name, cell: index });
  return h("button", { type: "button", class: `cell ${heat || row.state} ${picked ? "picked" : ""}`, "data-key": row.name, "data-index": index, tabindex: focusable ? 0 : -1, "aria-pressed": picked ? "true" : "false", "aria-label": describe(row), title: describe(row), onclick: press },
    QUIET.has(row.state) || row.state === "starting" ? null : stateIcon(row.state, ""));
}

function arrows(app, width) {
  const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -width, ArrowDown: width };
  return (event) => {
    const from = event.target.dataset.index;
    if (from === undefined || !(event.key in moves)) return;
    const next = event.currentTarget.querySelector(`[data-index="${Number(from) + moves[event.key]}"]`);
    event.preventDefault();
    if (!next) return;
    event.target.tabIndex = -1;
    app.ui.cell = Number(next.dataset.index);
    next.tabIndex = 0;
    next.focus();
  };
}

/** All replicas as cells: 50 in a row, or 20 in a narrow frame. */
export function strip(app, rows) {
  const width = app.narrow() ? 20 : 50;
  // The cell that the keyboard reaches always exists.
  app.ui.cell = Math.min(app.ui.cell, rows.length - 1);
  const { of, legend } = colouring(app, rows);
  const lines = Array.from({ length: Math.ceil(rows.length / width) }, (_, index) => index * width);
  const colours = [["state", "State"], app.replicas.step_seconds && app.replicas.step_seconds.median ? ["time", "Step time"] : null, memoryRange(rows) ? ["memory", "Memory"] : null].filter(Boolean);
  return h("div", { class: "strip" },
    h("div", { class: "subhead" }, h("h3", {}, "Every replica"), h("span", { class: "grow" }), colours.length > 1 ? segments("Colour", colours, app.choices.colour, (id) => app.choose("colour", id)) : null, legend),
    h("div", { class: "cells", role: "group", "aria-label": "All replicas. Arrow keys move, Enter lists the replica.", onkeydown: arrows(app, width) },
      lines.map((first) => h("div", { class: `cell-row of-${width}` }, h("span", { class: "cell-label" }, first),
        rows.slice(first, first + width).map((row, index) => cell(app, row, first + index, of))))));
}
