"""A job's name and digest: the same where the job is the same, and different where it is not."""

from __future__ import annotations

import re

import pytest

from airflow_trainer_provider.frameworks.layout import lay_out
from airflow_trainer_provider.job.identity import Identity, spec_digest
from airflow_trainer_provider.local.run_folder import JobRecord
from airflow_trainer_provider.spec import parse_spec

LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def _identity(**fields):
    return Identity(**({"dag_id": "d", "run_id": "r", "task_id": "t"} | fields))


@pytest.mark.parametrize("dag_id", ["nightly", "Ünï.cødé__x", "9lives", "-", "日本", "a" * 250, "x." * 20, "9" * 40])
@pytest.mark.parametrize("try_number", [1, 999])
def test_names_are_dns_labels(dag_id, try_number):
    name = _identity(dag_id=dag_id, try_number=try_number).job_name()

    assert LABEL.fullmatch(name)
    assert len(name) <= 48


def test_tries_share_a_key_and_nothing_else_does():
    base = _identity()
    others = [_identity(dag_id="e"), _identity(run_id="s"), _identity(task_id="u"), _identity(map_index=0)]
    # Not the same although the parts, written one after the other, are.
    others += [_identity(dag_id="dr", run_id="t", task_id="t"), _identity(dag_id="d", run_id="rt", task_id="")]

    assert base.key == _identity(try_number=2).key
    assert base.job_name() != _identity(try_number=2).job_name()
    assert len({base.key, *(other.key for other in others)}) == 1 + len(others)


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
    """The supervisor lays the job out anew from its record: an empty override must not get lost on the way."""
    spec = parse_spec(BASE | {"replicas": {"worker": {"replicas": 2, "overrides": [{"index": 0, "env": {}}]}}})
    record = JobRecord(uid="u", identity=_identity(), digest="d", spec=spec)

    again = JobRecord.model_validate_json(record.model_dump_json(exclude_defaults=True))

    assert lay_out(again.spec).replicas == lay_out(spec).replicas
    assert lay_out(again.spec).replicas[0].env == {}
