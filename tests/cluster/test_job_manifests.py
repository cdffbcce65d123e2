"""Each kind of job once, from a plain manifest, on the real controllers, with real training."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest
import yaml

from tests.cluster.access import Access
from tests.cluster.jobs import conditions, wait_for_success, wait_until
from tests.cluster.paths import HERE

_MANIFESTS = HERE / "job_manifests"


@dataclass(frozen=True)
class Case:
    """A manifest whose object ``training`` must succeed."""

    title: str
    file: str
    resource: str
    profile: str = "kubeflow"


_CASES = [
    Case("PyTorchJob, master and 2 workers", "pytorchjob.yaml", "pytorchjobs.kubeflow.org"),
    Case("TFJob, chief and worker", "tfjob.yaml", "tfjobs.kubeflow.org"),
    Case("XGBoostJob, master and worker", "xgboostjob.yaml", "xgboostjobs.kubeflow.org"),
    Case("MPIJob v1, launcher and 2 workers", "mpijob-v1.yaml", "mpijobs.v1.kubeflow.org"),
    Case("PaddleJob, 2 workers", "paddlejob.yaml", "paddlejobs.kubeflow.org"),
    Case("JAXJob, 2 workers", "jaxjob.yaml", "jaxjobs.kubeflow.org"),
    Case("TrainJob torch, 2 nodes", "trainjob-torch.yaml", "trainjobs.trainer.kubeflow.org"),
    Case("TrainJob MPI, 2 nodes", "trainjob-mpi.yaml", "trainjobs.trainer.kubeflow.org"),
    Case("TrainJob xgboost, 2 nodes", "trainjob-xgboost.yaml", "trainjobs.trainer.kubeflow.org"),
    Case("Indexed Job and headless Service", "indexed-job.yaml", "jobs.batch"),
    Case("MPIJob v2beta1, launcher and 2 workers", "mpijob-v2beta1.yaml", "mpijobs.v2beta1.kubeflow.org", "mpi"),
]


def _create(cluster: Access, namespace: str, file: str) -> None:
    where = f"--namespace={namespace}"
    cluster.kubectl("create", "configmap", "scripts", where, f"--from-file={_MANIFESTS / 'scripts'}")
    cluster.kubectl.apply(list(yaml.safe_load_all((_MANIFESTS / file).read_text())), where)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.file, marks=pytest.mark.profile(case.profile)) for case in _CASES]
)
def test_job_succeeds(case, cluster, namespace, record_time):
    started = time.monotonic()
    _create(cluster, namespace, case.file)
    wait_for_success(cluster.kubectl, case.resource, "training", namespace)
    record_time(case.title, time.monotonic() - started)


def test_train_job_reports_progress(cluster, namespace, record_time):
    started = time.monotonic()
    _create(cluster, namespace, "trainjob-progress.yaml")
    job = wait_for_success(cluster.kubectl, "trainjobs.trainer.kubeflow.org", "training", namespace)
    record_time("TrainJob reporting progress", time.monotonic() - started)
    # The Trainer sets the percentage to 100 itself when the job has completed.
    assert job["status"]["trainerStatus"]["metrics"] == [{"name": "loss", "value": "0.25"}]


def test_kueue_admits_suspended_job(cluster, namespace, record_time):
    kind = "pytorchjobs.kubeflow.org"
    started = time.monotonic()
    _create(cluster, namespace, "kueue.yaml")
    wait_until(cluster.kubectl, kind, "training", namespace, lambda job: "Suspended" in conditions(job), seconds=180)
    assert cluster.kubectl.get(kind, "training", namespace)["spec"]["runPolicy"]["suspend"] is True
    wait_for_success(cluster.kubectl, kind, "training", namespace)
    record_time("PyTorchJob held and admitted by Kueue", time.monotonic() - started)
