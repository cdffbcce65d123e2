// A traceback in which the frames of libraries are folded, and the last of the user's own is marked.

import { h } from "../lib/dom.js";

const FRAME = /^(.*?)\s{2}File "([^"]+)", line \d+/;
const LIBRARY = /[/\\](?:site-packages|dist-packages|lib[/\\]python\d[\d.]*)[/\\]|^<frozen /;
const PACKAGE = /[/\\](?:site|dist)-packages[/\\]([^/\\.]+)/;

/** The lines as parts: frames of a file with their lines, and other lines. */
function parts(lines) {
  const found = [];
  for (const text of lines) {
    const frame = FRAME.exec(text);
    const current = found[found.length - 1];
    if (frame) found.push({ file: frame[2], library: LIBRARY.test(frame[2]), lines: [text] });
    else if (current && current.file && /\s{4}/.test(text)) current.lines.push(text);
    else found.push({ file: null, lines: [text] });
  }
  return found;
}

/** Neighbouring library frames become one part. */
function grouped(all) {
  const found = [];
  for (const part of all) {
    const current = found[found.length - 1];
    if (part.library && current && current.frames) current.frames.push(part);
    else found.push(part.library ? { frames: [part] } : part);
  }
  return found;
}

const line = (text, tone = "") => h("span", { class: `trace-line ${tone}` }, text);

function library(app, { frames }, index) {
  const lines = frames.flatMap((frame) => frame.lines).map((text) => line(text, "quiet"));
  if (app.ui.unfolded.has(index)) return lines;
  const [, name] = PACKAGE.exec(frames[0].file) || [null, "the standard library"];
  const open = () => {
    app.ui.unfolded.add(index);
    app.redraw();
  };
  return h("button", { type: "button", "data-key": `fold-${index}`, "aria-expanded": "false", onclick: open }, `  Show ${frames.length} ${frames.length === 1 ? "frame" : "frames"} in ${name}`);
}

/** The traceback; if it has only library frames, none is folded. */
export function fold(app, lines) {
  const all = parts(lines);
  const own = all.filter((part) => part.file && !part.library);
  const lastOwn = own[own.length - 1];
  const shown = own.length ? grouped(all) : all;
  const end = all[all.length - 1];
  return h("div", { class: "trace", tabindex: "0", role: "region", "aria-label": "Traceback" }, shown.map((part, index) => {
    if (part.frames) return library(app, part, index);
    if (part === lastOwn) return part.lines.map((text, at) => line(text, at ? "own" : "own first"));
    return part.lines.map((text) => line(text, part === end && !part.file ? "error" : part.file ? "" : "quiet"));
  }));
}
