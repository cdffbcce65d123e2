// The metrics, one of them as a chart: whether the training learns, and better than the last run.

import { h } from "../lib/dom.js";
import { change, count, metric, runLabel, seconds, step } from "../lib/format.js";
import { grow, head, segments, toggle } from "../lib/parts.js";
import { chart } from "../chart/draw.js";
import { chartModel, comparison } from "../chart/model.js";
import { spark } from "../chart/spark.js";

const CHIPS = 12;

const REPORT = `print(json.dumps({"trainer_progress": {
    "step": step, "total_steps": total, "metrics": {"loss": loss}}}), flush=True)`;
const READ = 'PyTorchJobOperator(..., metrics={"loss": r"loss=([\\d.]+)"})';

function nothing() {
  return h("section", { class: "metrics", "data-key": "metrics" }, head("Metrics"),
    h("div", { class: "box padded" },
      h("p", {}, "The script reports no metrics."),
      h("p", { class: "muted" }, "A line of JSON per step adds progress, an estimated end and curves:"),
      h("pre", { class: "code", tabindex: "0" }, REPORT),
      h("p", { class: "muted" }, "Or the operator reads the lines that the script prints already:"),
      h("pre", { class: "code", tabindex: "0" }, READ)));
}

function controls(app) {
  const { choices } = app;
  const onOff = (name) => (on) => app.choose(name, on ? "1" : "0");
  const flag = (name) => choices[name] === "1";
  return [grow(),
    app.view.previous ? toggle("Last success", flag("last_success"), onOff("last_success")) : null,
    toggle("Smooth", flag("smooth"), onOff("smooth")),
    toggle("Log scale", flag("log"), onOff("log")),
    segments("Horizontal axis", [["step", "Step"], ["time", "Time"]], choices.axis, (id) => app.choose("axis", id)),
    toggle("Table", flag("table"), onOff("table"))];
}

function chip(app, each) {
  const chosen = each.name === app.metric();
  return h("button", { type: "button", class: "chip", "data-key": each.name, "aria-pressed": chosen ? "true" : "false", title: each.name, onclick: () => app.choose("metric", each.name) },
    h("span", { class: "chip-name cut" }, each.name),
    h("span", { class: "chip-value cut" }, metric(each.last), each.unit ? h("small", {}, ` ${each.unit}`) : null),
    spark(each.spark));
}

function chips(app) {
  const all = app.view.metrics;
  const chosen = all.findIndex((each) => each.name === app.metric());
  const shown = app.ui.allMetrics ? all : all.filter((_, index) => index < CHIPS || index === chosen);
  const more = all.length - shown.length;
  return h("div", { class: "chips", role: "group", "aria-label": "Metric" }, shown.map((each) => chip(app, each)),
    more > 0 ? h("button", { type: "button", class: "chip more", onclick: () => app.show({ allMetrics: true }) }, `${more} more`) : null);
}

function rowsOf(series) {
  const evals = (series.eval || []).flatMap((each) => each.step.map((at, index) => [at, each.value[index]]));
  const exact = new Map(evals);
  return (series.train || []).flatMap((each) => each.step.map((at, index) => [at, each.at[index], each.value[index], exact.get(at)])).reverse();
}

function table(app, series) {
  const both = (series.eval || []).length > 0;
  const head = ["step", "time", both ? "train" : series.metric, both ? "eval" : null].filter(Boolean);
  return h("div", { class: "values", tabindex: "0", role: "region", "aria-label": `Values of ${series.metric}` }, h("table", {},
    h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, rowsOf(series).map(([at, time, value, evaluated]) => h("tr", {},
      h("td", {}, step(at)), h("td", {}, seconds(time, app.view.as_of)), h("td", {}, value === null ? "not finite" : metric(value)), both ? h("td", {}, metric(evaluated)) : null)))));
}

function legend(app, series, model) {
  const tones = new Set(model.lines.map((line) => line.tone));
  const both = tones.has("eval");
  const names = { train: both ? "train" : series.metric, eval: "eval", previous: `last success, ${app.view.previous ? runLabel(app.view.previous.label) : ""}`, repeated: "repeated after a restart" };
  return Object.entries(names).filter(([tone]) => tones.has(tone)).map(([tone, name]) => h("span", {}, h("i", { class: `key ${tone}` }), name));
}

function compared(app, series) {
  const found = comparison(app.view, series);
  if (!found) return null;
  const same = found.previous ? "the same" : "no clear change";
  const word = found.word === "the same" ? h("b", {}, same) : h("b", { class: found.word }, `${change(found.change)}, ${found.word}`);
  if (!found.previous) return h("span", { class: "compared" }, `Mean of the last ${count(found.steps, "step")}: `, word, found.word === "the same" ? " from" : " than", " as many before");
  return h("span", { class: "compared" }, `At step ${step(found.step)}: `, word, found.word === "the same" ? " as the last success" : " than the last success");
}

function withoutCurve(series) {
  const reported = [...(series.train || []), ...(series.eval || [])].some((part) => part.value.length);
  return reported ? "No finite value yet." : "The script reported no value of this metric while it ran: there is no curve.";
}

function body(app) {
  const series = app.series.get(app.metric());
  if (!series) return h("div", { class: "chart", id: "chart" }, h("p", { class: "muted padded" }, app.seriesError || "Loading the values …"));
  const model = chartModel(app.view, series, app.choices);
  if (!model) return h("div", { class: "chart", id: "chart" }, h("p", { class: "muted padded" }, withoutCurve(series)));
  const drawing = app.choices.table === "1" ? table(app, series)
    : h("div", { class: "chart", id: "chart" }, chart(model, app.ui.chartSize, app.ui.cursor, { move: app.moveCursor, say: app.announce }));
  return [drawing, h("div", { class: "legend" }, legend(app, series, model), compared(app, series))];
}

export function metrics(app) {
  if (!(app.view.metrics || []).length) return nothing();
  return h("section", { class: "metrics", "data-key": "metrics" }, head("Metrics", controls(app)), chips(app), h("div", { class: "box chartbox" }, body(app)));
}
