"""``make demo``: one run of the retraining DAG, with its progress."""

from __future__ import annotations

import json
import re
import time

from tools.airflow_runner.api import FINAL_STATES, AirflowApi
from tools.airflow_runner.report import render_result

DAG_ID = "demo_retraining"
TRAIN_TASK = "train"

#: The lines of the replicas, and those of the operator about the job's phases.
JOB_LINE = re.compile(r"\[[a-z]+-\d+\] |(Submitted t|Adopted t|T)raining job ")


def run_demo(airflow: AirflowApi, timeout: float = 900) -> int:
    """
    Run the DAG and print its progress and the training job's result.

    :param airflow: an Airflow that has ``demo_retraining.py``.
    :param timeout: seconds that the run may take.
    :return: exit status: 0 if the run succeeded.
    """
    say = Progress()
    run_id = airflow.trigger_dag(DAG_ID)
    say(f"run of DAG {DAG_ID}: {airflow.url}/dags/{DAG_ID}/runs/{run_id}")
    state = _follow(airflow, run_id, say, timeout)
    say(f"the run ended: {state}")
    for task, task_state in airflow.task_states(DAG_ID, run_id).items():
        if task_state == "failed":
            print(f"\n--- log of {task} ---\n{airflow.task_log(DAG_ID, run_id, task)}")
    if failure := airflow.xcom(DAG_ID, run_id, TRAIN_TASK, "failure"):
        print(f"\nWhat task {TRAIN_TASK!r} left in XCom under 'failure':\n\n{json.dumps(failure, indent=2)}")
    if result := airflow.xcom(DAG_ID, run_id, TRAIN_TASK):
        print(f"\nWhat task {TRAIN_TASK!r} left in XCom under 'return_value':\n\n{render_result(result)}\n")
    return 0 if state == "success" else 1


class Progress:
    """Prints lines with the seconds since the beginning."""

    def __init__(self) -> None:
        self._begin = time.monotonic()

    def __call__(self, text: str) -> None:
        """Print a line."""
        print(f"{time.monotonic() - self._begin:6.1f}s  {text}", flush=True)


def _follow(airflow: AirflowApi, run_id: str, say: Progress, timeout: float) -> str:
    """Print each change of a task's state and each new line of the job's log, until the run's end."""
    seen_states: dict[str, str | None] = {}
    seen_lines = 0
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        # Read first: if the run has ended, everything that is printed below is complete.
        run_state = airflow.run_state(DAG_ID, run_id)
        states = airflow.task_states(DAG_ID, run_id)
        if states.get(TRAIN_TASK) not in {None, "scheduled", "queued"}:
            lines = _job_lines(airflow.task_log(DAG_ID, run_id, TRAIN_TASK))
            for line in lines[seen_lines:]:
                say(f"  {line}")
            seen_lines = max(seen_lines, len(lines))
        for task, state in states.items():
            if state != seen_states.get(task):
                say(f"task {task}: {state}")
        seen_states = states
        if run_state in FINAL_STATES:
            return run_state
        time.sleep(0.2)
    return f"not ended after {timeout:g} s"


def _job_lines(log: str) -> list[str]:
    """Return the lines about the job, out of all lines of the task's log."""
    return [line for line in log.splitlines() if JOB_LINE.match(line)]
