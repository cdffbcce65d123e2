"""Answers of the view API, one for each state of a training task, in the shapes that its page reads."""

# The API writes ranges with dashes.
# ruff: noqa: RUF001

from __future__ import annotations

import copy
import math
import random
from datetime import datetime, timedelta, timezone
from typing import Any

JSON = dict[str, Any]

NOW = datetime(2026, 11, 21, 14, 21, 7, tzinfo=timezone.utc)
GIB = 2**30
TOTAL = 20_000
#: The first attempt began at 13:08:15, lost worker-1 at 13:52:10 and went on from step 4,000 at 13:54:30.
ATTEMPTS = (("13:08:15", range(0, 4212, 20)), ("13:54:30", range(4000, 6561, 20)))
RATE = 1.6


def at(clock: str) -> datetime:
    """A time of the sample's day, as `14:21` or `14:21:07`."""
    return datetime.fromisoformat(f"2026-11-21T{clock}").replace(tzinfo=timezone.utc)


def iso(clock: str) -> str:
    return at(clock).isoformat()


def epoch(clock: str) -> int:
    return int(at(clock).timestamp())


def _loss(step: float, floor: float = 1.72) -> float:
    return floor + 2.6 * math.exp(-step / 900) + 0.55 * math.exp(-step / 7000)


def _columns(noise: float, offset: float = 0.0, every: int = 1) -> list[JSON]:
    source = random.Random(7)
    found = []
    for attempt, (start, steps) in enumerate(ATTEMPTS):
        chosen = list(steps)[::every]
        found.append(
            {
                "attempt": attempt,
                "step": chosen,
                "at": [epoch(start) + (step - steps[0]) / RATE for step in chosen],
                "value": [round(_loss(step) + offset + source.uniform(-noise, noise), 4) for step in chosen],
            }
        )
    return found


def series(metric: str = "loss") -> JSON:
    """One metric; `loss` has all lines, the others only that of the training."""
    if metric != "loss":
        return {
            "metric": metric,
            "unit": None,
            "better": None,
            "train": _columns(0.3),
            "eval": None,
            "previous": None,
        }
    steps = list(range(0, TOTAL + 1, 100))
    source = random.Random(3)
    previous = [round(_loss(step, 1.76) + 0.06 + source.uniform(-0.03, 0.03), 4) for step in steps]
    return {
        "metric": "loss",
        "unit": None,
        "better": "lower",
        "train": _columns(0.09),
        "eval": _columns(0.01, 0.06, 25),
        "previous": [{"attempt": 0, "step": steps, "at": [step / RATE for step in steps], "value": previous}],
    }


def _metrics() -> list[JSON]:
    curve = [round(_loss(index * 164), 3) for index in range(40)]
    source = random.Random(5)
    noise = [source.random() for _ in range(40)]
    return [
        {"name": "loss", "unit": None, "better": "lower", "last": 1.965, "spark": curve},
        {"name": "learning_rate", "unit": None, "better": None, "last": 2.3e-4, "spark": [*range(5), *[5] * 35]},
        {"name": "grad_norm", "unit": None, "better": None, "last": 0.6553, "spark": noise},
        {"name": "tokens_per_second", "unit": None, "better": "higher", "last": 412_300.0, "spark": noise[::-1]},
        {"name": "gpu_memory", "unit": "GiB", "better": None, "last": "NaN", "spark": [None, *noise[1:]]},
    ]


def _facts() -> JSON:
    return {
        "size": {"nodes": 4, "processes_per_node": 1, "gpus": 4},
        "requested": {"gpu": 1, "gpu_kind": "A100 80 GB", "cpu": "16", "memory_bytes": 128 * GIB},
        "peak": {"memory_bytes": 61.2 * GIB, "memory_replica": "worker-2", "gpu_memory_bytes": None},
        "gpu_hours": {"so_far": 5.0, "estimated_total": [14.3, 15.8]},
        "image": {"reference": "registry.example/nlp/finetune:2.8.1", "digest": "sha256:9b1f0d27c4a8"},
        "resumed_from": {"step": 4000, "path": "s3://models/llm_finetune/ckpt/step-004000"},
        "last_checkpoint": {"step": 6400, "at": iso("14:19:27"), "path": "s3://models/llm_finetune/ckpt/step-006400"},
        "tools": [
            {"name": "TensorBoard", "href": "https://tensorboard.example/run/1"},
            {"name": "MLflow", "href": "https://mlflow.example/runs/1"},
        ],
    }


def _actions(*allowed: str) -> JSON:
    return {name: {"allowed": name in allowed, "why": None} for name in ("suspend", "resume", "stop")}


def running() -> JSON:
    """Four replicas train, one of which was replaced."""
    return {
        "as_of": NOW.isoformat(),
        "stale": None,
        "is_training": True,
        "task_state": "deferred",
        "job": {
            "name": "llm-finetune-train-4be21c07d9-1",
            "uid": "8f1c7c2e-51d7-4c1e-9f5e-2f5c0a6f9f10",
            "backend": "trainer",
            "framework": "pytorch",
            "namespace": "training",
            "queue": "team-nlp",
            "pool": "a100",
            "owner": None,
            "leader": "master-0",
        },
        "tries": [{"number": 1, "phase": "running"}],
        "max_tries": 3,
        "status": {
            "phase": "running",
            "reason": None,
            "message": None,
            "queued_at": iso("12:58:02"),
            "admitted_at": iso("13:06:40"),
            "started_at": iso("13:08:15"),
            "finished_at": None,
            "restarts": 1,
        },
        "summary": "All 4 replicas are training.",
        "detail": "Restarted once, 28 min ago: worker-1 was evicted because its node was drained.",
        "progress": {
            "step": 6560,
            "total_steps": TOTAL,
            "stalled": False,
            "reported_at": iso("14:21:06"),
            "rate": {"value": RATE, "unit": "steps/s", "versus_previous": -0.036},
            "eta": {"earliest": iso("16:33"), "latest": iso("16:56"), "basis": "the rate of the last 1,000 steps"},
            "last_checkpoint": _facts()["last_checkpoint"],
        },
        "typical": None,
        "restarts": [
            {
                "at": iso("13:52:10"),
                "resumed_at": iso("13:54:30"),
                "replica": "worker-1",
                "reason": "EvictionByEvictionAPI",
                "text": "worker-1 evicted (node drained)",
                "from_step": 4000,
                "lost_steps": 212,
            }
        ],
        "metrics": _metrics(),
        "previous": {
            "run_id": "scheduled__2026-11-20T12:00:00+00:00",
            "label": "2026-11-20T12:00:00+00:00",
            "state": "succeeded",
        },
        "facts": _facts(),
        "actions": _actions("suspend", "stop"),
        "wait": None,
        "failure": None,
        "airflow": None,
        "hang": None,
        "result": None,
        "durations": None,
        "goodput": None,
    }


def _change(view: JSON, **values: Any) -> JSON:
    """A view with other values; a mapping changes only its own keys."""
    changed = copy.deepcopy(view)
    for name, value in values.items():
        merge = isinstance(value, dict) and isinstance(changed.get(name), dict)
        changed[name] = {**changed[name], **value} if merge else value
    return changed


def _row(index: int, **values: Any) -> JSON:
    lost = index == 2
    return {
        "name": "master-0" if index == 0 else f"worker-{index - 1}",
        "ranks": str(index),
        "node": f"gpu-a100-{index:02}",
        "state": "running",
        "reason": None,
        "message": None,
        "exit_code": None,
        "signal": None,
        "restarts": 1,
        "peak_memory_bytes": (58.1 + index) * GIB,
        "step_seconds": 0.62,
        "segments": [
            ["queued", epoch("12:58:02"), epoch("13:06:40")],
            ["starting", epoch("13:06:40"), epoch("13:08:15") + index],
            ["running", epoch("13:08:15") + index, epoch("13:52:10")],
            ["starting", epoch("13:52:46"), epoch("13:54:30")],
            ["running", epoch("13:54:30"), None],
        ],
        "events": [
            {
                "at": epoch("13:52:10"),
                "kind": "lost" if lost else "restart",
                "text": "Evicted: node drained" if lost else "Stopped, because worker-1 was evicted",
            }
        ],
        **values,
    }


def four(**values: Any) -> JSON:
    return {"total": 4, "step_seconds": None, "rows": [_row(index, **values) for index in range(4)]}


def _failed_rows() -> JSON:
    rows = []
    for index, delay in enumerate((4, 0, 3, 6)):
        end = epoch("13:49:52") + delay
        first = index == 1
        rows.append(
            _row(
                index,
                state="failed" if first else "stopped",
                reason="Error" if first else "Stopped",
                exit_code=1 if first else None,
                signal=None if first else "SIGTERM",
                restarts=0,
                finished_at=end,
                segments=[
                    ["queued", epoch("12:58:02"), epoch("13:06:40")],
                    ["starting", epoch("13:06:40"), epoch("13:08:15")],
                    ["running", epoch("13:08:15"), end],
                ],
                events=[{"at": end, "kind": "failed" if first else "stopped", "text": "Error, exit code 1"}],
            )
        )
    return {"total": 4, "step_seconds": None, "rows": rows}


def _waiting_rows() -> JSON:
    start = epoch("14:02:11")
    rows = [
        _row(index, state="starting", reason="PodInitializing", segments=[["starting", start + 3, None]], events=[])
        for index in range(2)
    ]
    rows += [
        _row(index, state="queued", reason="Unschedulable", node=None, segments=[["queued", start, None]], events=[])
        for index in (2, 3)
    ]
    for row in rows:
        row.update(restarts=0, peak_memory_bytes=None, step_seconds=None)
    return {"total": 4, "step_seconds": None, "rows": rows}


#: Of 200 replicas: index -> state, reason, and since when it does not run.
TROUBLED = {
    43: ("queued", "Unschedulable", "14:05:40"),
    88: ("starting", "ContainerCreating", "14:16:20"),
    89: ("starting", "ContainerCreating", "14:16:20"),
    152: ("restarting", "Error", "14:20:31"),
}


def two_hundred() -> JSON:
    """200 replicas, of which four do not run and some are slow."""
    source = random.Random(11)
    rows = []
    for index in range(200):
        up = epoch("09:12:00") + 60 + source.randrange(150)
        slow = 1.0 if index in {17, 63, 64, 65, 118, 143, 171} else 0.0
        row = {
            "name": "master-0" if index == 0 else f"worker-{index - 1}",
            "ranks": f"{index * 4}–{index * 4 + 3}",
            "node": f"gpu-h100-{100 + index}",
            "state": "running",
            "reason": None,
            "message": None,
            "exit_code": None,
            "signal": None,
            "restarts": 0,
            "peak_memory_bytes": (300 + source.random() * 60) * GIB,
            "step_seconds": round(0.5 + source.random() * 0.05 + slow, 3),
            "segments": [
                ["queued", epoch("08:40:00"), epoch("09:12:00")],
                ["starting", epoch("09:12:00"), up],
                ["running", up, None],
            ],
            "events": [],
        }
        if index in TROUBLED:
            state, reason, since = TROUBLED[index]
            end = epoch(since)
            row["segments"][2][2] = end
            row["segments"].append(["queued" if state == "queued" else "starting", end + 30, None])
            row["events"] = [{"at": end, "kind": "lost", "text": "NodeLost"}]
            row.update(state=state, reason=reason, restarts=1, step_seconds=None)
        rows.append(row)
    return {"total": 200, "step_seconds": {"median": 0.524, "p95": 0.58}, "rows": rows}


TRACEBACK = """Traceback (most recent call last):
  File "/app/train.py", line 203, in <module>
    main()
  File "/app/train.py", line 171, in main
    trainer.train(resume_from_checkpoint=args.resume)
  File "/opt/venv/lib/python3.11/site-packages/transformers/trainer.py", line 2245, in train
    return inner_training_loop(
  File "/opt/venv/lib/python3.11/site-packages/transformers/trainer.py", line 4348, in evaluation_loop
    metrics = self.compute_metrics(EvalPrediction(predictions=all_preds))
  File "/app/metrics.py", line 12, in compute_metrics
    import sacrebleu
ModuleNotFoundError: No module named 'sacrebleu'""".splitlines()


def failed() -> JSON:
    return _change(
        running(),
        as_of=iso("13:50:31"),
        task_state="failed",
        tries=[{"number": 1, "phase": "failed"}],
        status={"phase": "failed", "reason": "Error", "finished_at": iso("13:49:58"), "restarts": 0},
        summary="ModuleNotFoundError: No module named 'sacrebleu'",
        detail="worker-0 (rank 1) failed first; the other 3 replicas were stopped. 2.9 GPU hours were used.",
        progress={"step": 4000, "rate": None, "eta": None, "last_checkpoint": None},
        restarts=[],
        actions=_actions(),
        failure={
            "phase": "failed",
            "reason": "Error",
            "message": None,
            "replica": "worker-0",
            "rank": 1,
            "exit_code": 1,
            "signal": None,
            "retry_can_help": "no",
            "infrastructure": False,
            "way_out": "Correct the script.",
            "traceback": TRACEBACK,
            "last_log_lines": [],
            "at": iso("13:49:52"),
            "step": 4000,
            "ranks": None,
        },
        airflow={"title": "Does not retry", "note": "failed for good, 2 retries left"},
        facts={"resumed_from": None, "last_checkpoint": None, "gpu_hours": {"so_far": 2.9, "estimated_total": None}},
    )


def _result() -> JSON:
    metrics = {"eval_loss": 1.814, "loss": 1.746, "eval_accuracy": 0.6421}
    return {
        "json": {"model": "s3://models/llm_finetune/final", "metrics": metrics, "best_step": 19500},
        "error": None,
        "metrics": metrics,
        "better": {"eval_loss": "lower", "loss": "lower", "eval_accuracy": "higher"},
        "versus": {
            "eval_loss": {"champion": 1.832, "run": "19 Nov", "change": -0.0098},
            "eval_accuracy": {"champion": 0.6388, "run": "19 Nov", "change": 0.0052},
        },
    }


def succeeded() -> JSON:
    return _change(
        running(),
        as_of=iso("16:42:10"),
        task_state="success",
        tries=[{"number": 1, "phase": "succeeded"}],
        status={"phase": "succeeded", "finished_at": iso("16:41:32")},
        summary="eval_loss 1.814, the best of 19 runs.",
        detail="Ended 16:41:32 after 3 h 44 min. Restarted once; 212 steps were repeated.",
        progress=None,
        actions=_actions(),
        result=_result(),
        durations=[
            {"kind": "queued", "seconds": 518},
            {"kind": "starting", "seconds": 235},
            {"kind": "running", "seconds": 12318},
            {"kind": "redone", "seconds": 133},
            {"kind": "saving", "seconds": 206},
        ],
        goodput={"share": 0.956, "gpu_hours_held": 14.33, "gpu_hours_useful": 13.7, "parts": []},
    )


def _hang() -> JSON:
    return {
        "since": iso("14:06:51"),
        "usual_step_seconds": 0.6,
        "taken_at": iso("14:20:41"),
        "gpu_hours_lost": 0.95,
        "ends_at": iso("14:36:51"),
        "setting": "run_policy.hang_timeout_seconds = 1800",
        "unknown": [],
        "groups": [
            {
                "ranks": "1",
                "count": 1,
                "replicas": "worker-0",
                "function": "load_batch",
                "file": "train.py",
                "line": 41,
                "inner": "urllib3/response.py:879 in read",
                "odd": True,
                "note": "it has not reached the all_reduce that the others wait in.",
            },
            {
                "ranks": "0, 2, 3",
                "count": 3,
                "replicas": "master-0, worker-1, worker-2",
                "function": "all_reduce",
                "file": "train.py",
                "line": 88,
                "inner": "torch/distributed/distributed_c10d.py:2806 in all_reduce",
                "odd": False,
                "note": "Waits for rank 1",
            },
        ],
    }


def _queue() -> JSON:
    return {
        "kind": "queue",
        "queue": "team-nlp",
        "position": 3,
        "length": 7,
        "since": iso("13:36:20"),
        "missing": [{"resource": "GPU", "pool": "a100", "total": 32, "used": 30, "free": 2, "needed": 4}],
        "enough": [],
        "nodes": None,
        "estimate": {
            "earliest": iso("14:20"),
            "latest": iso("14:50"),
            "basis": "From the last 24 admissions to this queue: one every 11 min.",
        },
        "estimate_why": None,
        "behind": 4,
        "cluster_queue": "research",
        "cluster_position": 5,
        "history": {"median": 1260, "p90": 2940, "runs": 20, "so_far": 1550},
        "gives_up_at": None,
        "gives_up_setting": None,
    }


def _scheduler() -> JSON:
    return {
        "kind": "scheduler",
        "queue": None,
        "position": None,
        "length": None,
        "since": iso("14:02:11"),
        "missing": [],
        "enough": [],
        "nodes": {
            "total": 12,
            "rows": [
                {"count": 7, "why": "Insufficient nvidia.com/gpu", "say": "no free GPU"},
                {"count": 5, "why": "didn't match Pod's node affinity", "say": "do not match the node selector"},
            ],
        },
        "estimate": None,
        "estimate_why": "The job is in no queue, so it has no position.",
        "behind": None,
        "cluster_queue": None,
        "cluster_position": None,
        "history": None,
        "gives_up_at": iso("14:32:11"),
        "gives_up_setting": "run_policy.startup_timeout_seconds = 1800",
    }


def _not_started(view: JSON, reason: str, message: str) -> JSON:
    started = {"phase": "queued", "reason": reason, "message": message, "admitted_at": None, "started_at": None}
    facts = {"peak": None, "resumed_from": None, "last_checkpoint": None, "gpu_hours": None, "tools": []}
    return _change(view, status={**started, "restarts": 0}, progress=None, metrics=[], restarts=[], facts=facts)


def _waiting() -> JSON:
    return _change(
        _not_started(running(), "SuspendedByKueue", "insufficient unused quota in flavor a100, 2 more needed"),
        as_of=iso("14:02:10"),
        summary="Position 3 of 7 in queue team-nlp: needs 4 GPU, 2 free in a100.",
        detail="It has been waiting for 26 min. It may start in 18 min to 48 min.",
        wait=_queue(),
    )


def _waiting_unknown() -> JSON:
    return _change(
        _not_started(running(), "Unschedulable", "0/12 nodes are available: 7 Insufficient nvidia.com/gpu."),
        summary="No node has room for 2 of 4 replicas.",
        detail="worker-1 and worker-2 are waiting for a node.",
        wait=_scheduler(),
    )


def _no_steps() -> JSON:
    return _change(
        running(),
        summary="All 4 replicas are running.",
        detail="The script reports no progress, so step, rate and end are unknown.",
        progress=None,
        metrics=[],
        restarts=[],
        typical={"seconds": [7500, 9060], "runs": 5},
    )


def _starting() -> JSON:
    view = _not_started(running(), "", "")
    status = {"phase": "starting", "reason": None, "message": None, "admitted_at": iso("14:19:00")}
    return _change(view, status=status, summary="Starting: 2 of 4 replicas run.", detail="worker-1 and worker-2 start.")


def _earlier_try() -> JSON:
    """Of a try before the latest only Airflow's own record is left."""
    tries = [{"number": 1, "phase": "failed"}, {"number": 2, "phase": "running"}]
    status = {"phase": "failed", "queued_at": None, "finished_at": iso("13:20:00"), "restarts": 0}
    view = _change(running(), task_state="failed", job=None, tries=tries, status=status, progress=None, metrics=[])
    view.update(summary="Try 1 did not succeed.", detail="Its log is kept.", restarts=[], facts=None, previous=None)
    return {**view, "actions": _actions()}


def _large() -> JSON:
    return _change(
        running(),
        summary="196 of 200 replicas are running; 4 are being replaced.",
        detail="worker-42 has been waiting for a node for 15 min: 208 of 212 nodes have no free GPU.",
        tries=[{"number": 1, "phase": "failed"}, {"number": 2, "phase": "running"}],
        status={"queued_at": iso("08:40:00"), "admitted_at": iso("09:12:00"), "started_at": iso("09:15:30")},
        progress={"step": 182_400, "total_steps": None, "eta": None},
        previous=None,
        restarts=[],
        facts={"size": {"nodes": 200, "processes_per_node": 4, "gpus": 800}},
    )


MARKUP = "<img src=x onerror=\"window.hacked = 'yes'\"><script>window.hacked = 'yes'</script>"


def _markup() -> JSON:
    view = failed()
    view["summary"] = view["detail"] = view["failure"]["way_out"] = MARKUP
    view["failure"]["traceback"] = [*TRACEBACK[:-1], f"ValueError: {MARKUP}"]
    view["failure"]["replica"] = MARKUP
    view["job"]["name"] = view["job"]["queue"] = view["facts"]["image"]["reference"] = MARKUP
    view["metrics"] = [{"name": MARKUP, "unit": MARKUP, "better": None, "last": MARKUP, "spark": [1, 2]}]
    view["facts"]["tools"] = [
        {"name": MARKUP, "href": "javascript:window.hacked='yes'"},
        {"name": "MLflow", "href": "https://mlflow.example/"},
    ]
    view["restarts"] = [{"at": iso("13:20"), "from_step": 1000, "lost_steps": 3, "text": MARKUP}]
    return view


def _markup_rows() -> JSON:
    rows = _failed_rows()
    rows["rows"][1].update(name=MARKUP, reason=MARKUP, message=MARKUP, node=MARKUP)
    rows["rows"][1]["events"][0]["text"] = MARKUP
    return rows


def _suspended() -> JSON:
    return _change(
        running(),
        status={"phase": "suspended"},
        summary="Suspended by maria at 14:16. It holds no GPU.",
        detail="A resume puts the job back into queue team-nlp; it continues from step 6,400.",
        progress={"rate": None, "eta": None},
        actions=_actions("resume", "stop"),
    )


def _cancelled() -> JSON:
    return _change(
        running(),
        task_state="failed",
        status={"phase": "cancelled", "finished_at": iso("14:20:00")},
        tries=[{"number": 1, "phase": "cancelled"}],
        summary="Cancelled by maria at 14:20.",
        actions=_actions(),
    )


def _stalled() -> JSON:
    return _change(
        running(),
        summary="Running, but no step has finished for 14 min.",
        detail="Last step 5,180 at 14:06:51. A step usually takes 0.6 s.",
        progress={
            "step": 5180,
            "stalled": True,
            "eta": None,
            "rate": {"value": 0, "unit": "steps/s", "versus_previous": None},
            "last_checkpoint": {"step": 4800, "at": iso("14:02:50"), "path": None},
        },
        hang=_hang(),
    )


def _stuck_rows() -> JSON:
    rows = four(state="stuck")
    for row in rows["rows"]:
        row["segments"][-1][2] = epoch("14:06:51")
        row["segments"].append(["stuck", epoch("14:06:51"), None])
    return rows


def _stale() -> JSON:
    why = "The triggerer does not report; the job itself may go on."
    return _change(running(), as_of=iso("14:09:52"), stale={"since": iso("14:09:52"), "why": why})


def _lost() -> JSON:
    view = failed()
    view["summary"] = "NodeLost: gpu-h100-243 stopped responding."
    view["airflow"] = {"title": "Retries at 14:23", "note": "try 2 of 3"}
    lines = ["step 182397 loss 2.0312", "step 182398 loss 2.0287"]
    lost = {"exit_code": None, "reason": "NodeLost", "retry_can_help": "yes", "infrastructure": True}
    view["failure"].update(traceback=[], last_log_lines=lines, **lost)
    return view


def _without_result() -> JSON:
    error = "The result has more than 4095 bytes. Write large results to storage."
    result = {"json": None, "error": error, "metrics": {}, "better": {}, "versus": {}}
    return _change(succeeded(), result=result, metrics=[], goodput=None, summary="All 4 replicas completed.")


NO_JOB: JSON = {
    "as_of": NOW.isoformat(),
    "stale": None,
    "is_training": True,
    "task_state": "scheduled",
    "job": None,
    "tries": [],
    "status": {"phase": None},
    "summary": "No job yet: the task has not started.",
    "detail": "This page shows the job as soon as there is one.",
}

NO_ROWS: JSON = {"total": 0, "step_seconds": None, "rows": []}

#: Name -> task view and replicas.
SAMPLES: dict[str, tuple[JSON, JSON]] = {
    "running": (running(), four()),
    "running-200": (_large(), two_hundred()),
    "no-progress": (_no_steps(), four()),
    "waiting": (_waiting(), NO_ROWS),
    "waiting-unknown": (_waiting_unknown(), _waiting_rows()),
    "starting": (_starting(), _waiting_rows()),
    "failed": (failed(), _failed_rows()),
    "earlier-try": (_earlier_try(), NO_ROWS),
    "failed-node-lost": (_lost(), _failed_rows()),
    "hang": (_stalled(), _stuck_rows()),
    "suspended": (_suspended(), four(state="suspended")),
    "cancelled": (_cancelled(), four(state="stopped")),
    "succeeded": (succeeded(), four(state="succeeded")),
    "succeeded-no-result": (_without_result(), four(state="succeeded")),
    "stale": (_stale(), four()),
    "no-job": (NO_JOB, NO_ROWS),
    "not-training": (
        {**NO_JOB, "is_training": False, "summary": "This task runs no training.", "detail": None},
        NO_ROWS,
    ),
    "markup": (_markup(), _markup_rows()),
}


def later(view: JSON, seconds: int, **progress: Any) -> JSON:
    """The same job some seconds later."""
    moved = (datetime.fromisoformat(view["as_of"]) + timedelta(seconds=seconds)).isoformat()
    return _change(view, as_of=moved, progress=progress)
