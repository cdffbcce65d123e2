"""What a replica's process is given, and what it is not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from airflow_trainer_provider.local.environment import expand, inherited_environment
from airflow_trainer_provider.local.machine import limited_to_cpus
from airflow_trainer_provider.local.ports import reserved_addresses


@pytest.mark.parametrize(
    ("word", "expanded"),
    [
        ("$(A)", "1"),
        ("x$(A)-$(B)y", "x1-$(A)y"),
        ("$$(A)", "$(A)"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$A ${A} $()", "$A ${A} $()"),
    ],
)
def test_expand(word, expanded):
    assert expand([word], {"A": "1", "B": "$(A)"}) == [expanded]


def test_airflows_secrets_stay_and_the_interpreters_programs_come_first(monkeypatch):
    for name in ("AIRFLOW__CORE__FERNET_KEY", "AIRFLOW_CONN_DB", "__AIRFLOW_SUPERVISOR", "_AIRFLOW_X"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("MY_AIRFLOW_", "kept")

    env = inherited_environment()

    assert "hunter2" not in env.values()
    assert env["MY_AIRFLOW_"] == "kept"
    assert env["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    assert env["PATH"].endswith(os.environ["PATH"])


def test_ports_are_distinct_also_between_jobs():
    names = [f"worker-{index}" for index in range(50)]

    with reserved_addresses(names) as one, reserved_addresses(names) as other:
        assert len({address.port for address in (*one.values(), *other.values())}) == 100


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system binds no CPUs")
@pytest.mark.parametrize(("limit", "count"), [("1", 1), ("500m", 1), ("1.5", 2), ("4", 4), ("9", 4), (None, 4)])
def test_cpus_are_bound_while_inside(limit, count, monkeypatch):
    bound = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2, 3, 5, 7})
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cpus: bound.append(set(cpus)))

    for rank in range(2):
        with limited_to_cpus(limit, rank):
            pass

    if limit is None:
        assert bound == []
    else:
        assert [len(cpus) for cpus in bound] == [count, 4, count, 4]
        assert bound[1] == bound[3] == {2, 3, 5, 7}
        assert count > 2 or not bound[0] & bound[2]
