"""Two Airflows with the same DAGs share the place of the jobs: each keeps to its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.local.run_folder import RunFolder
from tests.airflow.jobs import JobFolder, job_processes
from tools.airflow_runner import AirflowInstance

pytestmark = [pytest.mark.airflow, pytest.mark.local, pytest.mark.slow]

DAGS = Path(__file__).parent / "dags"
#: Runs a DAG under the same run ID wherever it is asked to.
DAG_TEST = f"""
import importlib.util, json, sys
from airflow.models.dagrun import DagRun
spec = importlib.util.spec_from_file_location("train_jobs", {str(DAGS / "train_jobs.py")!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
DagRun.generate_run_id = staticmethod(lambda **_: "monday")
module.train_once.test(run_conf=json.loads(sys.argv[1]))
"""


@pytest.fixture
def environments(tmp_path):
    """The environments of two Airflows without a scheduler, whose ``[trainer] deployment`` differs."""
    instances = [AirflowInstance(tmp_path / name, [DAGS]) for name in ("research", "production")]
    first, second = instances
    first.prepare()
    subprocess.run([sys.executable, "-m", "airflow", "dags", "reserialize"], env=first.env, check=True)
    second.prepare(like=first)
    root = {"AIRFLOW__TRAINER__LOCAL_ROOT": str(tmp_path / "jobs")}
    yield [{**each.env, **root, "AIRFLOW__TRAINER__DEPLOYMENT": each.home.name} for each in instances]
    for each in instances:
        each.stop()


def test_the_same_run_of_another_deployment_ends_and_adopts_no_job(environments, tmp_path):
    folder, running = JobFolder(tmp_path / "folder"), []
    folder.path.mkdir()
    for number, env in enumerate(environments):
        argv = [sys.executable, "-c", DAG_TEST, json.dumps({"folder": str(folder)})]
        running.append(subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        # The second submits the same while the first one's job trains.
        folder.wait_for_training(number + 1)

    folder.go()
    output = [process.communicate(timeout=240)[0] for process in running]

    for text in output:
        assert "Adopted" not in text
    jobs = [RunFolder(path.parent) for path in (tmp_path / "jobs").glob("*/job.json")]
    phases = {job.record().identity.deployment: job.read_status().phase for job in jobs}
    assert phases == {"production": JobPhase.SUCCEEDED, "research": JobPhase.SUCCEEDED}, output
    assert {job.record().identity.run_id for job in jobs} == {"monday"}
    assert len(folder.trainings()) == 2
    assert job_processes() == []
