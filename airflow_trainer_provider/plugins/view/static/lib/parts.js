// Small parts that several sections are made of.

import { h, icon } from "./dom.js";
import { copy } from "./frame.js";

/** A section's head: its name, and further content in the same row. */
export const head = (title, ...beside) => h("div", { class: "head" }, h("h2", {}, title), beside);

export const grow = () => h("span", { class: "grow" });

/** A labelled value with a note below it. */
export const stat = (label, value, note) =>
  h("div", { class: "stat" }, h("dt", {}, label), h("dd", {}, value, note ? h("small", {}, note) : null));

/** Buttons of which one is pressed. */
export function segments(label, options, chosen, choose) {
  const button = ([id, ...text]) => h("button", { type: "button", "aria-pressed": id === chosen ? "true" : "false", onclick: () => choose(id) }, text);
  return h("div", { class: "segments", role: "group", "aria-label": label }, options.map(button));
}

/** A button that is pressed or not. */
export const toggle = (text, on, set) =>
  h("button", { type: "button", class: "toggle", "aria-pressed": on ? "true" : "false", onclick: () => set(!on) }, text);

/** A notice in a tinted box. */
export const notice = (kind, symbol, ...text) =>
  h("div", { class: `notice ${kind}`, role: kind === "warn" ? "status" : null }, icon(symbol, "small"), h("div", {}, text));

/** A small button that copies text. */
export const copyIcon = (what, text, announce) =>
  h("button", { type: "button", class: "copy", "aria-label": `Copy ${what}`, title: `Copy ${what}`, onclick: copy(text, announce) }, icon("copy", "small"));

/** A button with a word that copies text. */
export const copyButton = (text, announce) =>
  h("button", { type: "button", class: "button tiny", onclick: copy(text, announce) }, icon("copy", "small"), "Copy");

/** Long names may break after a slash, a colon or a hyphen. */
export const breakable = (text) => text.split(/(?<=[/:-])/).flatMap((piece, index) => (index ? [h("wbr"), piece] : [piece]));

/** A coloured square of a legend. */
export const swatch = (name) => h("i", { class: `swatch ${name}` });
