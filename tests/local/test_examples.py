"""Every DAG in dags/ that needs no cluster runs through Airflow, and what it trains is better than chance by far."""

from __future__ import annotations

import json
import runpy
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.airflow_runner.databases.sqlite import Sqlite
from tools.airflow_runner.settings import base_config, environment, write_config

pytestmark = pytest.mark.local

DAGS = Path(__file__).parents[2] / "dags"

#: DAG -> task whose return value is a job's summary -> replicas. Of ten digits, chance finds one.
EXAMPLES = {
    "example_xgboost": {"train": ["master-0", "worker-0"]},
    "example_replicas": {"train": ["master-0", "worker-0", "worker-1"]},
    "example_tools": {"train": ["master-0", "worker-0"]},
    "example_mpi": {"train": ["launcher-0", "worker-0", "worker-1"]},
    "example_sensor": {"wait": ["launcher-0", "worker-0", "worker-1"]},
    "example_pytorch": {"train": ["master-0", "worker-0"], "train_elastic": ["worker-0", "worker-1"]},
    "example_tensorflow": {"train": ["chief-0", "worker-0"]},
    "example_jax": {"train": ["worker-0", "worker-1"]},
    "example_paddle": {"train": ["worker-0", "worker-1"]},
    "train_from_form": {"train": ["master-0", "worker-0"]},
}
#: Those that train nothing.
NO_TRAINING = {"example_clean_up"}
#: Those that need a cluster; tests/cluster/airflow/test_example.py runs them.
ON_CLUSTER = {"example_kubernetes"}
LIGHT = ("example_xgboost", "example_tools", "example_sensor", "train_from_form")
#: Those with a shorter one of the same kind.
SLOW = ("example_replicas", "example_mpi")
#: The link of a tool, as Airflow keeps it for its UI.
LINKS = {"example_tools": {("train", "_link_ToolLink_files"): "http://localhost:6006/"}}
#: The last step that is reported, and the metrics.
PROGRESS = {"example_xgboost": {"train": (9, {"train_logloss", "train_auc"})}}
LEAST = {"accuracy": 0.9, "train_auc": 0.95}


def _mark(dag_id: str) -> tuple[pytest.MarkDecorator, ...]:
    if dag_id in LIGHT:
        return ()
    return (pytest.mark.slow if dag_id in SLOW else pytest.mark.heavy,)


@dataclass
class DagRun:
    """A run that has ended, as the metadata database has it."""

    state: str
    tasks: dict[str, str]
    xcoms: dict[tuple[str, str], Any]
    log: str


class DagsTest:
    """Runs DAGs by `airflow dags test`, one after the other, in an Airflow home of their own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        database = Sqlite(self.home / "airflow.db")
        write_config(self.home / "airflow.cfg", base_config(self.home, 1, [DAGS], database.url(30)))
        database.prepare({})
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("run_dags.py"))],
            env=environment(self.home, "test", {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, dag_id: str) -> DagRun:
        """Run a DAG."""
        output = self.home / f"{dag_id}-{uuid.uuid4().hex[:6]}.log"
        print(dag_id, output, file=self._process.stdin, flush=True)
        assert self._process.stdout
        answer = self._process.stdout.readline().strip()
        log = output.read_text() if output.exists() else ""
        assert answer == dag_id, log
        with sqlite3.connect(self.home / "airflow.db") as database:
            query = "select state, run_id from dag_run where dag_id = ? order by id"
            state, run_id = database.execute(query, [dag_id]).fetchall()[-1]
            which, of_run = "where dag_id = ? and run_id = ?", (dag_id, run_id)
            rows = database.execute(f"select task_id, key, value from xcom {which}", of_run).fetchall()
            return DagRun(
                state=state,
                tasks=dict(database.execute(f"select task_id, state from task_instance {which}", of_run).fetchall()),
                xcoms={(task, key): _json(value) for task, key, value in rows},
                log=log,
            )

    def end(self) -> None:
        """End the process."""
        try:
            self._process.communicate(timeout=60)
        finally:
            self._process.kill()


@pytest.fixture(scope="module")
def run_dag(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsTest]:
    """For DAGs that do not look at one another's jobs."""
    runs = DagsTest(tmp_path_factory.mktemp("examples"))
    yield runs
    runs.end()


@pytest.fixture
def run_dag_alone(tmp_path: Path) -> Iterator[DagsTest]:
    """For a DAG that looks at all jobs."""
    runs = DagsTest(tmp_path)
    yield runs
    runs.end()


def test_the_gate_of_the_demo_fails_a_model_that_is_not_good_enough() -> None:
    dag = runpy.run_path(str(DAGS / "demo_retraining.py"))["demo_retraining"]()
    gate = dag.get_task("gate").python_callable

    gate({"accuracy": 0.93})
    with pytest.raises(ValueError, match=r"0\.929 is below 0\.93"):
        gate({"accuracy": 0.929})


# A stage of CI starts the demo as a newcomer does.
@pytest.mark.slow
def test_the_demo_trains_a_model_that_passes_the_gate(run_dag: DagsTest) -> None:
    run = run_dag("demo_retraining")

    assert run.tasks == dict.fromkeys(("prepare", "train", "evaluate", "gate"), "success"), run.log
    assert run.state == "success"
    assert_trained(run.xcoms["train", "return_value"], ["master-0", "worker-0", "worker-1"])
    assert run.xcoms["evaluate", "return_value"]["accuracy"] > 0.93
    # Every rank had its share of the 426 rows.
    for rank, replica in enumerate(("master-0", "worker-0", "worker-1")):
        assert f"[{replica}] rank {rank} of 3 trains on 142 of 426 rows" in run.log
    # The curve has all rounds.
    assert run.xcoms["train", "progress"]["history"]["train_logloss"][0]["step"] == list(range(20))


def test_the_example_of_a_function_returns_what_all_ranks_have_added_up(run_dag: DagsTest) -> None:
    run = run_dag("example_function")

    assert run.tasks == dict.fromkeys(("prepare", "square", "train", "check"), "success"), run.log
    assert run.xcoms["train", "return_value"] == {"sum": 499500, "squares": 5}
    assert run.xcoms["train", "summary"]["function"] == "train"
    progress = run.xcoms["train", "progress"]
    assert (progress["step"], progress["total_steps"], progress["percent"]) == (10, 10, 100)
    assert progress["history"]["sum"][0]["step"] == list(range(1, 11))
    assert progress["history"]["sum"][0]["value"][-1] == 499500
    for rank in (0, 1):
        assert f"[worker-{rank}] rank {rank} of 2: 499500" in run.log


@pytest.mark.parametrize("dag_id", [pytest.param(name, marks=_mark(name)) for name in EXAMPLES])
def test_an_example_trains(dag_id: str, run_dag: DagsTest) -> None:
    run = run_dag(dag_id)

    assert set(run.tasks.values()) == {"success"}, run.log
    assert run.state == "success"
    for task, replicas in EXAMPLES[dag_id].items():
        assert_trained(run.xcoms[task, "return_value"], replicas)
    for task, (step, metrics) in PROGRESS.get(dag_id, {}).items():
        progress = run.xcoms[task, "progress"]
        assert (progress["step"], set(progress["metrics"])) == (step, metrics)
    for place, url in LINKS.get(dag_id, {}).items():
        assert run.xcoms[place] == url


@pytest.mark.slow
def test_the_example_of_a_clean_up_runs_where_there_are_no_jobs(run_dag_alone: DagsTest) -> None:
    run = run_dag_alone("example_clean_up")

    assert run.tasks == dict.fromkeys(("list", "clean_up"), "success"), run.log
    assert run.xcoms["list", "return_value"] == run.xcoms["clean_up", "return_value"] == []


def test_every_dag_has_a_test() -> None:
    assert {path.stem for path in DAGS.glob("*.py")} == {
        "demo_retraining",
        "example_function",
        *EXAMPLES,
        *NO_TRAINING,
        *ON_CLUSTER,
    }


def assert_trained(summary: dict[str, Any], replicas: list[str]) -> None:
    assert summary["phase"] == "succeeded"
    assert summary["backend"] == "local"
    rows = {f"{row['group']}-{row['index']}": row["exit_code"] for row in summary["replicas"]}
    assert rows == dict.fromkeys(replicas, 0)
    judged = LEAST.keys() & summary["metrics"].keys()
    assert judged
    for name in judged:
        assert LEAST[name] < summary["metrics"][name] <= 1
    assert summary["metrics"] == summary["result"]["metrics"]


def _json(value: Any) -> Any:
    """The value of an XCom, which one Airflow version encodes once and another twice."""
    while isinstance(value, (str, bytes)):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    return value
