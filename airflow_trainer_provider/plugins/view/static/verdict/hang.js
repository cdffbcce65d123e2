// Why no step finishes: where each rank is blocked.

import { h } from "../lib/dom.js";
import { clock, duration, epoch, number, seconds } from "../lib/format.js";
import { airflowLink } from "../lib/frame.js";
import { stat, swatch } from "../lib/parts.js";

const MOST = 5;

const name = (group) => `${group.count === 1 ? "Rank" : "Ranks"} ${group.ranks}`;

const and = (text) => text.replace(/, ([^,]+)$/, " and $1");

const place = (group) => [group.file, group.line].filter((each) => each !== null && each !== undefined).join(":");

/** One sentence for each group, the waiting group first. */
function title(groups) {
  if (!groups.length) return "No step finishes.";
  const order = [...groups].sort((a, b) => Number(Boolean(a.odd)) - Number(Boolean(b.odd))).slice(0, 2);
  return order.map((group) => `${and(name(group))} ${group.count === 1 ? "is" : group.odd ? "are" : "wait"} in ${group.function}${place(group) ? ` (${place(group)})` : ""}.`).join(" ");
}

function row(group) {
  const [where, inner] = String(group.inner || "").split(" in ");
  return h("tr", {},
    h("td", {}, swatch(group.odd ? "amber" : "running"), h("b", {}, name(group)), h("small", { class: "muted block indented" }, group.replicas)),
    h("td", {}, h("code", {}, group.function), h("code", { class: "muted block" }, place(group))),
    h("td", {}, inner ? h("code", {}, inner) : null, h("code", { class: "muted block anywhere" }, where)),
    h("td", {}, group.odd ? h("span", { class: "pill" }, "Differs from the others") : h("span", { class: "muted" }, group.note)));
}

function table(groups) {
  if (!groups.length) return null;
  const order = [...groups].sort((a, b) => Number(Boolean(b.odd)) - Number(Boolean(a.odd)));
  const rest = order.length - MOST;
  return h("table", { class: "groups" },
    h("thead", {}, h("tr", {}, ["Ranks", "Where, in your code", "Innermost frame"].map((text) => h("th", { scope: "col" }, text)), h("td", {}))),
    h("tbody", {}, order.slice(0, MOST).map(row), rest > 0 ? h("tr", {}, h("td", { colspan: 4, class: "muted" }, `${number(rest)} more`)) : null));
}

export function hang(app) {
  const { hang: found, as_of: asOf } = app.view;
  if (!found) return null;
  const groups = found.groups || [];
  const odd = groups.find((group) => group.odd);
  const usual = found.usual_step_seconds ? `; usual ${found.usual_step_seconds} s` : "";
  return h("section", { class: "card warn", "data-key": "hang", "aria-label": "Why no step finishes" },
    h("h2", {}, title(groups)), table(groups),
    h("dl", { class: "card-stats" },
      stat("No step for", duration(epoch(asOf) - epoch(found.since)), `since ${seconds(found.since, asOf)}${usual}`),
      found.gpu_hours_lost ? stat("Used meanwhile", `${number(found.gpu_hours_lost, 2)} GPU hours`, "so far") : null,
      found.ends_at ? stat("Job is ended at", clock(found.ends_at, asOf), found.setting) : stat("Job is ended", "Never", "no hang_timeout_seconds is set"),
      found.taken_at ? stat("Stacks captured", seconds(found.taken_at, asOf), (found.unknown || []).length ? `not of ${found.unknown.join(", ")}` : "of all ranks") : null),
    odd ? h("p", { class: "todo" }, h("b", {}, "What to do:"), ` Look at ${name(odd).toLowerCase()} first${odd.note ? `: ${odd.note}` : "."}`) : null,
    h("div", {}, airflowLink("button", app.logPath(), odd && odd.count === 1 ? `Log of ${odd.replicas}` : "Log")));
}
