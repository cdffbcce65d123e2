"""The DAG view: outcomes, durations, the champion, and what changed between the runs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_trainer_provider.plugins.view.dag.curves import curves_of
from airflow_trainer_provider.plugins.view.dag.dag_view import dag_view
from airflow_trainer_provider.plugins.view.dag.parameters import options_of
from airflow_trainer_provider.plugins.view.dag.records import DagRecords
from tests.unit.plugins.view.dag.samples import ARGS, NOW, failed, records, replica, run, running, succeeded, times

TRUNCATED = "Truncated. You can change this behaviour in [core]max_templated_field_length. "


def view(*runs, metric=None, limit=20, **more):
    return dag_view(records(*runs, **more), metric, limit, NOW)


def changed(after, before, what="changed"):
    """What changed from one run to the next, as name: (from, to)."""
    found = view(after, before)["runs"][0][what]
    return found if found is None else {each["name"]: (each["from"], each["to"]) for each in found}


def test_of_a_run_that_succeeded_all_is_there():
    shown = view(succeeded(1, {"eval_loss": 1.832, "loss": 1.7}, try_number=2), succeeded(2))

    assert {name: shown[name] for name in ("as_of", "dag_id", "tasks", "task_id", "limit")} == {
        "as_of": "2026-11-21T14:21:07Z",
        "dag_id": "d",
        "tasks": ["train"],
        "task_id": "train",
        "limit": 20,
    }
    assert shown["metrics"] == [{"name": "eval_loss", "better": "lower"}, {"name": "loss", "better": "lower"}]
    assert shown["runs"][0] == {
        "run_id": "scheduled__2026-11-20T12:00:00+00:00",
        "map_index": -1,
        "label": "2026-11-20T12:00:00Z",
        "map_label": None,
        "outcome": "succeeded",
        "is_active": False,
        "tries": 2,
        "reason": None,
        "gpu_hours": 4.0,
        "metrics": {"eval_loss": 1.832, "loss": 1.7},
        "durations": {"queued": 600, "starting": 60, "running": 3600, "redone": None},
        "versus_champion": None,
        "changed": [],
        "changed_from_champion": None,
    }
    assert shown["runs"][1]["versus_champion"] == 0.0371


def test_the_numbers_are_those_of_the_runs_shown():
    cancelled = run(4, "failed", xcoms={"failure": {"phase": "cancelled", "message": "stopped by maria"}})

    shown = view(
        running(),
        succeeded(1, {"eval_loss": 1.846}, long={"running": 7200}),
        succeeded(2, {"eval_loss": 1.832}),
        failed(3, long={"running": 1800}),
        cancelled,
    )

    assert shown["champion"] == {
        "run_id": "scheduled__2026-11-19T12:00:00+00:00",
        "map_index": -1,
        "value": 1.832,
        "rule": "the lowest eval_loss of the runs that succeeded",
    }
    assert shown["numbers"] == {
        "last_success": {
            "run_id": "scheduled__2026-11-20T12:00:00+00:00",
            "map_index": -1,
            "value": 1.846,
            "versus_champion": 0.0076,
        },
        "runs": 5,
        "ended": 4,
        "succeeded": 2,
        "failed": 1,
        "cancelled": 1,
        "success_rate": 0.5,
        "median_seconds": 6060,
        "median_queued_seconds": 600,
        # 4 GPUs for 130, 120, 60 and 30 minutes.
        "gpu_hours": 22.7,
        "gpu_hours_without_success": 2.0,
    }


def test_the_outcome_has_its_reason():
    shown = view(
        running(),
        failed(1),
        run(2, "failed", xcoms={"failure": {"phase": "cancelled", "message": "stopped by maria"}}),
        run(3, "queued", xcoms={"job": {}, "request": {}}),
        run(4, "success", xcoms={"job": {}, "request": {}}),
    )["runs"]

    assert [(each["outcome"], each["reason"], each["is_active"]) for each in shown] == [
        ("running", None, True),
        ("failed", "ValueError: loss is NaN at step 900", False),
        ("cancelled", "The job was cancelled: stopped by maria.", False),
        ("queued", "No job yet: Airflow has queued the task.", True),
        (None, "The task succeeded without a job.", False),
    ]
    assert [each["metrics"] for each in shown] == [{}] * 5


def test_a_run_of_which_nothing_is_heard_says_so():
    silent = running()
    silent = replace(silent, task=replace(silent.task, waiter_seen_at=NOW - timedelta(minutes=9)))

    (shown,) = view(silent)["runs"]

    assert (shown["outcome"], shown["reason"]) == ("running", "Last known as running: the triggerer does not report.")


def test_of_a_run_that_goes_on_the_times_are_in_whole_minutes():
    (shown,) = view(running())["runs"]

    # It was known last at 14:21:05, and began at 12:11.
    assert shown["durations"] == {"queued": 600, "starting": 60, "running": 130 * 60, "redone": None}
    assert shown["gpu_hours"] == 8.7


def test_repeated_steps_are_a_share_of_the_training():
    lost = {"step": 800, "restarts": [{"lost_steps": 150}, {"lost_steps": 50}, {"lost_steps": None}]}

    (shown,) = view(succeeded(1, progress=lost))["runs"]

    assert shown["durations"] == {"queued": 600, "starting": 60, "running": 2880, "redone": 720}


@pytest.mark.parametrize(
    ("metric", "values", "best"),
    [("loss", [1.5, 1.2, 1.2], 2), ("accuracy", [0.5, 0.9, 0.7], 1), ("learning_rate", [1.0, 2.0, 3.0], None)],
)
def test_the_champion_is_the_first_with_the_best_value_where_better_has_a_meaning(metric, values, best):
    runs = [succeeded(days, {metric: value}) for days, value in enumerate(values)]

    shown = view(*runs)

    assert (shown["champion"] and shown["champion"]["run_id"]) == (None if best is None else runs[best].key[0])
    assert [each["versus_champion"] is None for each in shown["runs"]] == [best in (at, None) for at in range(3)]


@pytest.mark.parametrize(
    ("wanted", "names", "shown"),
    [
        (None, ["lr", "loss", "eval_loss"], "eval_loss"),
        (None, ["lr", "accuracy"], "accuracy"),
        (None, ["lr"], "lr"),
        ("loss", ["eval_loss", "loss"], "loss"),
        ("gone", ["eval_loss"], "eval_loss"),
        (None, [], None),
    ],
)
def test_without_a_choice_an_evaluation_is_compared(wanted, names, shown):
    assert view(succeeded(1, dict.fromkeys(names, 1.0)), metric=wanted)["metric"] == shown


def test_arguments_and_variables_that_changed_are_named():
    after = succeeded(
        1, args=["train.py", "--learning-rate", "4e-4", "--batch-size=512", "optimizer.name=adam"], request={"nodes": 2}
    )
    before = succeeded(2, fields={"args": ARGS, "env": {"SEED": "7", "DEBUG": 1}, "presets": ["large", "night"]})

    assert changed(after, before) == {
        "learning-rate": ("3e-4", "4e-4"),
        "fp16": ("on", None),
        "optimizer.name": (None, "adam"),
        "nodes": ("4", "2"),
        "DEBUG": ("1", None),
        "presets": ("large, night", None),
    }


def test_what_names_the_run_itself_is_no_change():
    runs = [succeeded(days, run_id=f"manual__{days}_of_many") for days in (1, 2)]
    after, before = (
        succeeded(
            days,
            run_id=each.task.run_id,
            args=[
                "--out",
                f"/models/{each.task.run_id}",
                "--day",
                f"{each.at:%Y-%m-%d}",
                "--table",
                f"t{each.at:%Y%m%d}",
            ],
        )
        for days, each in zip((1, 2), runs, strict=True)
    )

    assert changed(after, before) == {}


def test_without_stored_fields_only_what_was_asked_for_is_compared():
    assert changed(succeeded(1, request={"image": "a:2"}), succeeded(2, request={"image": "a:1"}, fields={})) == {
        "image": ("a:1", "a:2")
    }
    assert changed(succeeded(1), run(2, xcoms={"request": None}, fields={})) is None


@pytest.mark.parametrize(
    "stored", [{}, {"args": f"{TRUNCATED}['--lr', ..."}, {"args": ARGS, "presets": f"{TRUNCATED}['a', ..."}]
)
def test_where_airflow_has_not_kept_all_parameters_none_is_not_said_to_be_the_same(stored):
    assert changed(succeeded(1), succeeded(2, fields=stored)) is None
    assert changed(succeeded(1, fields=stored), succeeded(2)) is None
    assert changed(succeeded(1, fields=stored), succeeded(2, fields=stored)) is None
    assert changed(succeeded(1, fields={"presets": "large"}), succeeded(2, fields={"presets": "large"})) == {}


def test_the_oldest_run_is_compared_with_the_one_before_it():
    before = succeeded(3, args=["--seed", "1"])

    oldest = view(succeeded(2, args=["--seed", "2"]), before=before)["runs"][0]

    assert oldest["changed"] == [{"name": "seed", "from": "1", "to": "2"}]


def test_changes_from_the_champion_are_named_too():
    shown = view(
        succeeded(1, {"loss": 2.0}, args=["--dropout", "0.1"]),
        succeeded(2, {"loss": 1.9}, args=["--dropout", "0.1"]),
        succeeded(3, {"loss": 1.0}, args=["--dropout", "0.3"]),
    )["runs"]

    assert [each["changed_from_champion"] for each in shown] == [
        [{"name": "dropout", "from": "0.3", "to": "0.1"}],
        [{"name": "dropout", "from": "0.3", "to": "0.1"}],
        None,
    ]


def test_secrets_are_not_among_the_parameters():
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    after = succeeded(
        1, args=["--api-key", "k3y-of-today-77", "--lr", "1"], fields=None, request={"image": f"user:{token}@host/x:1"}
    )
    stored = {"args": ["--token=***", "--lr", "2"], "env": {"DB_PASSWORD": "hunter2-hunter2", "HF_TOKEN": token}}

    shown = json.dumps(view(after, succeeded(2, fields=stored)))

    assert '"lr"' in shown
    for secret in ("k3y-of-today-77", "hunter2", "ghp_", "***"):
        assert secret not in shown


def test_arguments_are_read_as_options_and_places():
    assert options_of(["train.py", "--a", "1", "--b=2", "-c", "--d", "-0.5", "+e.f=g", "x", "--a", "3", "--g"]) == {
        "argument 1": "train.py",
        "a": "1, 3",
        "b": "2",
        "c": "on",
        "d": "-0.5",
        "e.f": "g",
        "argument 2": "x",
        "g": "on",
    }


def test_instances_of_a_mapped_task_are_runs_of_their_own():
    runs = [succeeded(1, {"loss": 1.0 + index}, map_index=index, map_label=f"lr=0.{index}") for index in (1, 0)]

    shown = view(*runs)

    assert [(each["map_index"], each["map_label"]) for each in shown["runs"]] == [(1, "lr=0.1"), (0, "lr=0.0")]
    assert shown["champion"]["map_index"] == 0


def test_an_instance_of_a_mapped_task_is_compared_with_the_same_one_of_the_run_before():
    runs = [
        succeeded(days, map_index=index, args=["--lr", f"0.{index}", "--seed", str(days)])
        for days, indexes in ((1, (2, 1, 0)), (2, (1, 0)))
        for index in indexes
    ]

    shown = view(*runs, before=succeeded(3, map_index=0, args=["--lr", "0.0", "--seed", "2"]))["runs"]

    by_seed = [{"name": "seed", "from": "2", "to": "1"}]
    assert [each["changed"] for each in shown] == [None, by_seed, by_seed, None, []]


@pytest.mark.parametrize(
    "xcoms",
    [
        {"job": 3, "request": [], "return_value": "text", "status": None},
        {"return_value": {"phase": "succeeded", "metrics": {"loss": "NaN", "x": None}, "progress": {"restarts": 7}}},
        {"status": {"replicas": [{"name": "a", "segments": [["starting", 1e300, None], ["starting"], 3]}]}},
        {"return_value": {"phase": "succeeded", "started_at": "0001-01-01T00:00:00+05:00", "queued_at": 7}},
        {"request": {"gpus": 10**400, "nodes": {}, "requested": "x", "image": ["a"]}},
    ],
)
def test_whatever_is_in_xcom_there_is_an_answer(xcoms):
    shown = view(run(1, xcoms=xcoms), run(2, fields={"args": "text", "env": [1], "command": {"a": 1}}))

    assert len(shown["runs"]) == 2
    json.dumps(shown)


def test_a_dag_without_training_has_no_runs():
    shown = dag_view(DagRecords("d"), None, 20, NOW)

    assert (shown["tasks"], shown["runs"], shown["champion"], shown["metric"]) == ([], [], None, None)
    assert shown["numbers"]["success_rate"] is None


HISTORY = {"loss": [{"attempt": 0, "step": [1, 2], "at": [1.0, 2.0], "value": [3.0, 2.0]}]}


def test_the_curves_are_of_one_metric_in_all_runs():
    keys = [("a", -1), ("b", 2)]

    shown = curves_of("eval_loss", list(zip(keys, [{"history": HISTORY}, {}], strict=True)), 500)

    assert shown == {
        "metric": "loss",
        "better": "lower",
        "metrics": ["loss"],
        "runs": [
            {"run_id": "a", "map_index": -1, "entries": HISTORY["loss"]},
            {"run_id": "b", "map_index": 2, "entries": []},
        ],
    }


def test_without_any_curve_there_is_no_metric():
    shown = curves_of("loss", [(("a", -1), {"history": "x"})], 500)

    assert (shown["metric"], shown["runs"][0]["entries"]) == (None, [])


def test_the_gpu_hours_of_a_cancelled_run_are_without_success():
    cancelled = {
        "failure": {"phase": "cancelled", "message": "stopped by maria"},
        "status": {"phase": "running", **times(1, running=1800)},
    }

    numbers = view(run(1, "failed", xcoms=cancelled))["numbers"]

    assert (numbers["gpu_hours"], numbers["gpu_hours_without_success"]) == (2.0, 2.0)


def test_the_medians_are_of_runs_that_succeeded():
    quick = {"queued": 0, "starting": 0, "running": 60}

    numbers = view(succeeded(1), failed(2, long=quick), failed(3, long=quick))["numbers"]

    assert (numbers["median_seconds"], numbers["median_queued_seconds"]) == (4260, 600)


def test_a_worse_value_below_zero_is_worse():
    shown = view(succeeded(1, {"reward": -3.0}), succeeded(2, {"reward": -2.0}))["runs"]

    assert [each["versus_champion"] for each in shown] == [-0.5, None]


def test_a_job_is_no_longer_queued_once_its_first_replica_has_a_node():
    rows = [{**replica(1, queued=640, starting=20), "name": "node-1", "index": 1}, replica(1)]
    status = {"phase": "running", **times(1), "finished_at": None, "replicas": rows}

    (shown,) = view(run(1, "deferred", xcoms={"status": status}))["runs"]

    assert (shown["durations"]["queued"], shown["durations"]["starting"]) == (600, 60)


def test_a_run_whose_metric_is_nan_is_no_champion():
    runs = [succeeded(days, {"loss": loss}) for days, loss in enumerate((1.5, float("nan"), 2.0, float("nan")))]

    shown = view(*runs)

    assert shown["champion"]["run_id"] == runs[0].key[0]
    assert [each["metrics"] for each in shown["runs"]] == [{"loss": 1.5}, {}, {"loss": 2.0}, {}]
