"""The lines of a local job in the log of its task, beside Airflow's own.

A worker's peer is a task that prints the same lines, a trigger's is one that logs them. The rate is that of the lines
in the task's log, by the times that it has of the first and the last.
"""

from __future__ import annotations

import json
import re
import tempfile
from datetime import datetime
from pathlib import Path
from statistics import median

from benchmarks.report import heading, raw, table, verdict
from tools.airflow_runner import AirflowInstance

#: In the worker, and in the triggerer, whose supervisor reads 4 KiB between two looks into its database.
LINES, LINES_IN_TRIGGER = 300_000, 60_000
RUNS = 3
MOST_RATIO = 1.5
#: Not the command, which the log has too.
_LINE = re.compile(r"epoch 3 step \d")
_DAGS = Path(__file__).parent / "dags"
_PEERS = {"lines_waiting": "lines_printed", "lines_deferred": "lines_logged_in_trigger"}
_TITLES = {
    "lines_printed": "Airflow: a task that prints them",
    "lines_waiting": "this provider: a local job, waited for by a worker",
    "lines_logged_in_trigger": "Airflow: a trigger that logs them",
    "lines_deferred": "this provider: a local job, waited for in the triggerer",
}


def rate_of(airflow: AirflowInstance, home: Path, dag_id: str, lines: int) -> float:
    """Run a DAG, and return how many lines of it reached the log in a second.

    :param home: of the Airflow.
    :param lines: how many there have to be.
    """
    run = airflow.trigger_dag(dag_id)
    if airflow.wait_for_run(dag_id, run, timeout=600) != "success":
        raise RuntimeError(airflow.task_log(dag_id, run, "train")[-2000:])
    files = [file for file in (home / "logs" / f"dag_id={dag_id}" / f"run_id={run}").rglob("*.log*") if file.is_file()]
    times = [
        datetime.fromisoformat(json.loads(line)["timestamp"].replace("Z", "+00:00"))
        for file in files
        for line in file.open()
        if _LINE.search(line)
    ]
    if len(times) != lines:
        raise RuntimeError(f"{dag_id}: {len(times)} of {lines} lines are in the log")
    return lines / (max(times) - min(times)).total_seconds()


def measure(worker: int, trigger: int, runs: int) -> dict[str, list[float]]:
    """Lines a second of each run, by DAG; a DAG and its peer take turns.

    :param worker: lines of a task.
    :param trigger: lines of a trigger.
    :param runs: of each DAG.
    """
    found: dict[str, list[float]] = {dag_id: [] for dag_id in _TITLES}
    for ours, lines in zip(_PEERS, (worker, trigger), strict=True):
        with tempfile.TemporaryDirectory() as name:
            home = Path(name)
            with AirflowInstance(home, [_DAGS], env={"BENCH_LINES": str(lines)}) as airflow:
                for _ in range(runs):
                    for dag_id in (_PEERS[ours], ours):
                        found[dag_id].append(rate_of(airflow, home, dag_id, lines))
    return found


def main(*, quick: bool = False) -> bool:
    """Print the table.

    :param quick: only show that it works.
    :return: whether the bound was held.
    """
    worker, trigger, runs = (3_000, 1_000, 1) if quick else (LINES, LINES_IN_TRIGGER, RUNS)
    heading(f"{worker:,} lines of a job in its task's log, and {trigger:,} in the triggerer (median of {runs})")
    found = measure(worker, trigger, runs)
    raw(found)
    ratios = {
        ours: median(one / two for one, two in zip(found[peer], found[ours], strict=True))
        for ours, peer in _PEERS.items()
    }
    rows = [
        (title, f"{median(found[dag_id]):,.0f}", f"{ratios.get(dag_id, 1):.2f}") for dag_id, title in _TITLES.items()
    ]
    table(("lines", "a second", "times slower than Airflow's"), rows)
    worst = max(ratios.values())
    return verdict(f"at most {MOST_RATIO:g} times slower: {worst:.2f}", worst <= MOST_RATIO or quick)
