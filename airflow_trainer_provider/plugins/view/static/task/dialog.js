// The confirmation of an action: its consequences, with numbers.

import { h } from "../lib/dom.js";
import { count, duration, epoch, step } from "../lib/format.js";

function size(app) {
  const { nodes = null, gpus = 0 } = (app.view.facts && app.view.facts.size) || {};
  return { nodes, gpus };
}

/** The last checkpoint: its step, its age, and the steps after it. */
function checkpoint(view) {
  const { progress } = view;
  const last = progress && progress.last_checkpoint;
  if (!last) return null;
  const age = epoch(last.at) === null ? "" : `, ${duration(epoch(view.as_of) - epoch(last.at))} ago`;
  return { step: last.step, age, lost: progress.step === null ? null : Math.max(0, progress.step - last.step) };
}

const freed = (gpus) => `${count(gpus, "GPU becomes", "GPUs become")} free`;

function stopping(app) {
  const { nodes, gpus } = size(app);
  const at = checkpoint(app.view);
  const lost = at && at.lost !== null
    ? `${count(at.lost, "step")} since the last checkpoint (step ${step(at.step)}${at.age}) ${at.lost === 1 ? "is" : "are"} lost.`
    : "No checkpoint is known: all steps may be lost.";
  return [
    `${nodes ? count(nodes, "replica receives", "replicas receive") : "All replicas receive"} SIGTERM, and SIGKILL after the grace period of the pods.`,
    lost,
    "The task fails, and Airflow does not retry it.",
    gpus ? `${freed(gpus)}.` : null,
  ];
}

function suspending(app) {
  const { gpus } = size(app);
  const at = checkpoint(app.view);
  const repeats = at && at.lost !== null ? ` and repeats ${count(at.lost, "step")}` : "";
  return [
    `The pods end${gpus ? ` and ${freed(gpus)}` : ""}. The job itself is kept.`,
    at ? `After a resume it continues from step ${step(at.step)}${repeats}.` : "No checkpoint is known: after a resume it may start from the beginning.",
    app.view.job.queue ? `After a resume it waits in queue ${app.view.job.queue} again.` : null,
    "The task keeps waiting, and its execution_timeout keeps counting.",
  ];
}

function resuming(app) {
  const { gpus } = size(app);
  const at = checkpoint(app.view);
  const needs = gpus ? ` for ${count(gpus, "GPU")}` : "";
  return [
    app.view.job.queue ? `It waits in queue ${app.view.job.queue}${needs}.` : `It waits${needs || " for nodes"}.`,
    at ? `It continues from step ${step(at.step)}.` : "It starts from the beginning if the script finds no checkpoint.",
  ];
}

const TEXTS = {
  stop: { title: "Stop this job?", act: "Stop job", style: "danger", says: stopping },
  suspend: { title: "Suspend this job?", act: "Suspend job", style: "solid", says: suspending },
  resume: { title: "Resume this job?", act: "Resume job", style: "solid", says: resuming },
};

/** Ask for an action; the focus begins on Cancel, and Escape cancels. */
export function confirmAction(app, name) {
  const { title, act, style, says } = TEXTS[name];
  // A refresh behind the dialog may bring another job.
  const { uid } = app.view.job;
  const cancel = h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel");
  const confirm = () => {
    dialog.close();
    app.act(name, uid);
  };
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" },
    h("h2", { id: "dialog-title" }, title),
    h("div", { class: "dialog-text" },
      h("p", { class: "muted" }, `${app.task.dag_id} / ${app.task.task_id}, job ${app.view.job.name}`),
      h("ul", {}, says(app).filter(Boolean).map((text) => h("li", {}, text)))),
    h("div", { class: "dialog-buttons" }, cancel, h("button", { type: "button", class: `button ${style}`, onclick: confirm }, act)));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  cancel.focus();
}
