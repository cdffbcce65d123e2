"""A training ends in the same way whether its task waits on its worker or is deferred; also in a backfill."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.airflow.dags.same_end import CASES, HOW, SENSORS
from tests.airflow.jobs import job_processes
from tools.airflow_runner.api import wait_until

pytestmark = [pytest.mark.airflow, pytest.mark.local, pytest.mark.slow]

#: Case -> state of the task, its tries, phase of its job, and what stands in the failure's message or the result.
ENDS = {
    "has_a_result": ("success", 1, "succeeded", "[1, 2]"),
    "has_no_result": ("success", 1, "succeeded", "'result': None"),
    "has_a_result_that_no_database_keeps": ("success", 1, "succeeded", "U+0000"),
    "has_a_result_that_is_no_json": ("success", 1, "succeeded", "result_error"),
    "raises": ("failed", 2, "failed", "ValueError: enough"),
    "lacks_a_module": ("failed", 1, "failed", "no_such_module"),
    "is_killed": ("failed", 1, "failed", "SIGKILL"),
    "is_restarted": ("success", 1, "succeeded", "'restarts': 1"),
    "passes_its_deadline": ("failed", 1, "failed", "active_deadline_seconds"),
    "passes_the_time_of_its_task": ("failed", 1, "cancelled", ""),
    "has_a_wrong_spec": ("failed", 1, None, ""),
    "cannot_process": ("failed", 1, "succeeded", ""),
    "sensor_fails": ("failed", 1, None, "ValueError: sensed"),
    "sensor_skips": ("skipped", 1, None, ""),
}
#: What differs from job to job.
_VARIES = re.compile(r"(uid|name|_at|_seconds|_bytes|attempts)$")


@pytest.fixture(scope="module")
def ended(request):
    """Function (case, how) -> how it ended, in one run of all."""
    ends: dict[tuple[str, str], dict[str, Any]] = {}

    def all_ends(airflow):
        if not ends:
            run = airflow.trigger_dag("same_end")
            assert airflow.wait_for_run("same_end", run, 720) == "failed"
            ends.update({(case, how): end_of(airflow, run, f"{case}_{how}") for case in ENDS for how in HOW})
        return ends

    return all_ends


def end_of(airflow, run, task):
    found = airflow.task_instance("same_end", run, task)
    job = airflow.xcom("same_end", run, task, "job")
    name = job["name"] if job else airflow.xcom("same_end", run, "sensed")["name"]
    log = airflow.task_log("same_end", run, task, found["try_number"])
    return {
        "state": found["state"],
        "tries": found["try_number"],
        "phase": airflow.status_of(name).phase.value if job else None,
        "value": alike(airflow.xcom("same_end", run, task), name),
        "failure": alike(airflow.xcom("same_end", run, task, "failure"), name),
        "request": alike(airflow.xcom("same_end", run, task, "request"), name),
        "said": [line.replace(name, "NAME") for line in re.findall(rf"Training job {name}: \w+\.", log)][-1:],
        "error": re.findall(r"^(?:.*\.)?(\w*(?:Error|Timeout|Failed|Skip|OutOfMemory)\w*):", log, re.MULTILINE)[-1:],
    }


def alike(value, name):
    """A value without what differs from job to job."""
    if isinstance(value, dict):
        return {key: alike(each, name) for key, each in value.items() if not _VARIES.search(key)}
    if isinstance(value, list):
        return [alike(each, name) for each in value]
    return re.sub(r"\b\d+(\.\d+)? s\b", "N s", value.replace(name, "NAME")) if isinstance(value, str) else value


@pytest.mark.parametrize("case", ENDS)
def test_a_case_ends_the_same_way_waiting_and_deferred(airflow, ended, case):
    ends = ended(airflow)
    waiting, deferred = (ends[case, how] for how in HOW)

    assert deferred == waiting
    state, tries, phase, said = ENDS[case]
    assert (waiting["state"], waiting["tries"], waiting["phase"]) == (state, tries, phase), waiting
    assert said in str((waiting["value"], waiting["failure"])), waiting


def test_the_table_has_every_case_and_no_job_is_left(airflow, ended):
    assert set(ENDS) == {*CASES, *SENSORS, "cannot_process"}
    ended(airflow)
    wait_until(lambda: not job_processes() or None, 60, lambda: str(job_processes()))


def test_a_backfill_trains_for_each_of_its_days(airflow):
    airflow.wait_for_dag("backfilled")
    days = {"from_date": "2026-01-01T00:00:00Z", "to_date": "2026-01-02T00:00:00Z"}
    airflow.request("POST", "/backfills", json={"dag_id": "backfilled", "dag_run_conf": {}, **days})

    def runs():
        return airflow.request("GET", "/dags/backfilled/dagRuns")["dag_runs"]

    wait_until(lambda: {run["state"] for run in runs()} == {"success"} or None, 360, lambda: str(runs()))
    found = [(run["run_type"], run["dag_run_id"]) for run in runs()]
    assert [kind for kind, _ in found] == ["backfill", "backfill"]
    values = [airflow.xcom("backfilled", run, how) for _, run in found for how in HOW]
    assert [value["result"]["answer"] for value in values] == [[1, 2]] * 4
    assert len({value["name"] for value in values}) == 4
