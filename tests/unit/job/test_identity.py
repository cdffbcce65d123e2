"""A job's name and digest: the same where the job is the same, and different where it is not."""

from __future__ import annotations

import re
from datetime import datetime, timezone

import pytest

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity, spec_digest
from airflow_trainer_provider.local.run_folder import JobRecord
from airflow_trainer_provider.spec import parse_spec

LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def _identity(**fields):
    return Identity(**({"dag_id": "d", "run_id": "r", "task_id": "t"} | fields))


@pytest.mark.parametrize(
    "dag_id", ["nightly", "Ünï.cødé__x", "9lives", "-", "日本", "a" * 250, "x." * 20, "9" * 40, "9" * 27 + ".9"]
)
@pytest.mark.parametrize("try_number", [1, 999])
def test_names_are_dns_labels(dag_id, try_number):
    name = _identity(dag_id=dag_id, try_number=try_number).job_name()

    assert LABEL.fullmatch(name)
    assert len(name) <= 48
    assert "--" not in name


def test_tries_share_a_key_and_nothing_else_does():
    base = _identity()
    others = [_identity(dag_id="e"), _identity(run_id="s"), _identity(task_id="u"), _identity(map_index=0)]
    # Not the same although the parts, written one after the other, are.
    others += [_identity(dag_id="dr", run_id="t", task_id="t"), _identity(dag_id="d", run_id="rt", task_id="")]

    assert base.key == _identity(try_number=2).key
    assert base.job_name() != _identity(try_number=2).job_name()
    assert len({base.key, *(other.key for other in others)}) == 1 + len(others)


@pytest.mark.parametrize(
    ("job", "same"),
    [
        ({"deployment": "prod", "try_number": 3, "max_tries": 9}, True),
        # Submitted by a version that did not record the deployment.
        ({"deployment": None}, True),
        ({"deployment": ""}, False),
        ({"deployment": "staging"}, False),
        ({"deployment": "prod", "dag_id": "e"}, False),
        ({"deployment": "prod", "run_id": "s"}, False),
        ({"deployment": "prod", "task_id": "u"}, False),
        ({"deployment": "prod", "map_index": 0}, False),
    ],
)
def test_a_job_belongs_to_a_task_of_one_deployment(job, same):
    task, other = _identity(deployment="prod"), _identity(**job)

    assert task.is_same_task(other) is same
    assert (other.key in task.keys) or not same


def test_a_deployment_without_a_name_has_the_keys_of_earlier_versions():
    assert _identity(deployment="").keys == (_identity().key,)
    assert _identity(deployment="prod").keys == (_identity(deployment="prod").key, _identity().key)


@pytest.mark.parametrize(
    ("earlier", "now", "cleared"), [(2, 2, False), (2, 3, True), (None, 3, False), (2, None, False)]
)
def test_a_task_was_cleared_where_it_may_have_more_tries_than_before(earlier, now, cleared):
    assert _identity(max_tries=now).was_cleared_since(_identity(max_tries=earlier)) is cleared


EIGHT, NINE = (datetime(2026, 11, 23, hour, tzinfo=timezone.utc) for hour in (8, 9))


@pytest.mark.parametrize(
    ("earlier", "now", "same"),
    [
        ({"run_started_at": EIGHT}, {"run_started_at": EIGHT}, True),
        ({"run_started_at": EIGHT}, {"run_started_at": NINE}, False),
        ({"run_started_at": EIGHT, "try_number": 2}, {"run_started_at": NINE, "try_number": 2}, False),
        # The run was queued again, with or without a clear of the task.
        ({"run_started_at": EIGHT}, {"run_started_at": NINE, "try_number": 2}, True),
        # Submitted by a version that did not record the start; or looked for by the scheduler, which does not need it.
        ({}, {"run_started_at": NINE}, True),
        ({"run_started_at": EIGHT}, {}, True),
        # The DAG has other retries by now.
        ({"run_started_at": EIGHT, "max_tries": 0}, {"run_started_at": NINE, "max_tries": 1}, False),
    ],
)
def test_a_deleted_run_is_another_one_than_that_which_has_its_id_now(earlier, now, same):
    assert _identity(**now).is_same_run(_identity(**earlier)) is same


@pytest.mark.parametrize(
    ("now", "other", "owner", "out_of_date"),
    [
        ({}, {}, 1, False),
        ({}, {}, 2, True),
        ({"run_started_at": EIGHT}, {"run_started_at": EIGHT}, 2, True),
        ({"run_started_at": EIGHT}, {"run_started_at": NINE}, 1, True),
        ({"run_started_at": NINE}, {"run_started_at": EIGHT}, 2, False),
        # Of a run that was queued again, the third try has adopted the job of the first.
        ({"run_started_at": NINE, "try_number": 2}, {"run_started_at": EIGHT}, 3, True),
        ({"run_started_at": NINE}, {}, 2, True),
    ],
)
def test_a_try_is_out_of_date_where_a_later_one_has_a_job(now, other, owner, out_of_date):
    assert _identity(**now).is_out_of_date(_identity(**other), owner) is out_of_date


@pytest.mark.parametrize(
    ("earlier", "why"),
    [
        ({"run_started_at": EIGHT}, "its run was deleted, and another one has its id"),
        ({"run_started_at": NINE, "max_tries": 0}, "the task was cleared"),
        ({}, "the task was tried again with other parameters"),
    ],
)
def test_why_an_earlier_job_is_ended(earlier, why):
    assert _identity(run_started_at=NINE, max_tries=1).why_ended(_identity(**earlier)) == why


def test_names_are_stable():
    assert _identity().job_name("nightly") == _identity().job_name("nightly") == f"nightly-{_identity().key}-1"


BASE = {"framework": "pytorch", "env": {"A": "1", "B": "2"}, "replicas": {"master": {}, "worker": {"replicas": 2}}}


def _digest(**fields):
    return spec_digest(parse_spec(BASE | fields))


def test_equal_specs_have_one_digest():
    assert _digest() == _digest(env={"B": "2", "A": "1"})
    assert _digest() == _digest(replicas={"worker": {"replicas": "2"}, "master": {}})
    assert _digest() == _digest(run_policy={"backoff_limit": 0}, launcher="auto", num_nodes=None)


@pytest.mark.parametrize(
    "fields",
    [
        {"env": {"A": "1", "B": "3"}},
        {"command": ["a", "b"]},
        {"command": ["a b"]},
        {"command": ["b", "a"]},
        {"run_policy": {"backoff_limit": 1}},
        {"replicas": {"master": {}, "worker": {"replicas": 2, "overrides": [{"index": 0}]}}},
        {"replicas": {"master": {}, "worker": {"replicas": 2, "overrides": [{"index": 0, "env": {}}]}}},
    ],
)
def test_other_specs_have_another(fields):
    others = [_digest(), _digest(command=["x"]), _digest(env={})]

    assert _digest(**fields) not in others


def test_what_is_written_down_is_what_runs():
    """The supervisor lays the job out again from its record: an empty override must not get lost on the way."""
    spec = parse_spec(BASE | {"replicas": {"worker": {"replicas": 2, "overrides": [{"index": 0, "env": {}}]}}})
    record = JobRecord(uid="u", identity=_identity(), digest="d", spec=spec)

    again = JobRecord.model_validate_json(record.model_dump_json(exclude_defaults=True))

    assert plan_job(again.spec).replicas == plan_job(spec).replicas
    assert plan_job(again.spec).replicas[0].env == {}


def test_the_digest_of_a_function_stands_for_its_files():
    def of(files, **more):
        function = {"name": "train", "files": files, **more}
        return spec_digest(parse_spec({"framework": "jax", "image": "i", "function": function}))

    assert of({"a.py": "x"}, digest="one") == of({"a.py": "\nx"}, digest="one") != of({"a.py": "x"}, digest="two")
    assert of({"a.py": "x"}) != of({"a.py": "\nx"})


def _folder(scope, **other):
    base = {"dag_id": "Nightly", "run_id": "manual__2026-11-23T08:00:00+00:00", "task_id": "g.train"}
    return _identity(**(base | other)).folder_name(scope)


def test_a_scope_has_one_folder_over_all_that_it_covers():
    later = {"try_number": 3, "max_tries": 4}
    covered = {
        "task": [later],
        "run": [later, {"task_id": "other"}, {"map_index": 3}],
        "dag": [later, {"task_id": "other"}, {"run_id": "tomorrow"}],
    }

    for scope, others in covered.items():
        assert {_folder(scope, **other) for other in others} == {_folder(scope)}


def test_each_scope_has_a_folder_of_its_own():
    others = {
        "task": [{"dag_id": "x"}, {"run_id": "x"}, {"task_id": "x"}, {"map_index": 0}, {"deployment": "x"}],
        "run": [{"dag_id": "x"}, {"run_id": "x"}, {"deployment": "x"}],
        "dag": [{"dag_id": "x"}, {"deployment": "x"}],
    }

    names = [_folder(scope, **other) for scope, several in others.items() for other in ({}, *several)]
    # Names that are written alike.
    names += [_folder("dag", dag_id="nightly"), _folder("task", dag_id="Nightly-g", task_id="train")]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("scope", "other", "begins"),
    [
        ("task", {}, "nightly-g-train-"),
        ("task", {"map_index": 2}, "nightly-g-train-2-"),
        ("run", {}, "nightly-manual-2026-11-23t08-00-00-00-00-"),
        ("dag", {"dag_id": "../..//é"}, ""),
        ("dag", {"dag_id": "x" * 250}, "x" * 40 + "-"),
    ],
)
def test_its_name_is_readable_and_safe(scope, other, begins):
    assert re.fullmatch(re.escape(begins) + "[0-9a-f]{16}", _folder(scope, **other))
