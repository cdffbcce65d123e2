"""The fields that are only rendered, for all of a job and for one role: the manifests of each backend, whole."""

from __future__ import annotations

import pytest
import yaml

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import UnsupportedField
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.base import Facts, Manifest
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.native.native import native
from airflow_trainer_provider.kinds.registry import kind_for
from airflow_trainer_provider.kinds.trainer.trainjob import trainjob
from tests.golden_files import assert_golden
from tests.unit.kinds.specs import FIELDS, KEYS, OF_ROLE, SPECS, job_of, job_with_fields, meta

#: Backend -> its jobs. The nodes of a TrainJob share a template.
JOBS: dict[str, list[JobPlan]] = {
    "trainer": [job_with_fields("pytorch", alike=True), job_with_fields("mpi")],
    "training-operator": [
        # The launcher's account is the operator's.
        job_with_fields(framework, **({"service_account": None} if framework == "mpi" else {}))
        for framework in SPECS
    ],
    # Its ssh is root's, and the ranks have the variables that mpirun hands on.
    "mpi-operator": [
        job_with_fields("mpi", fields_of_pods=False, security={"run_as_user": 0, "fs_group": 8000}, env_from=[])
    ],
    "native": [job_with_fields("pytorch"), job_with_fields("mpi")],
}
#: Kinds whose keys are made at random.
KEYED = {"trainjob": trainjob(lambda: KEYS), "native": native(lambda: KEYS)}


def objects_of(kind: Kind, job: JobPlan) -> list[Manifest]:
    rendered = KEYED.get(kind.key, kind).renderer.render(job, meta(job, f"fields-{job.framework.name}"), Facts())
    return [*rendered.before, rendered.main, *rendered.after]


@pytest.mark.parametrize("backend", JOBS)
def test_the_rendered_objects_are_those_of_the_golden_file(backend):
    documents = []
    for job in JOBS[backend]:
        ClusterBackend(backend, None, "default").check(job)
        documents += objects_of(kind_for(backend, job), job)

    assert_golden(f"{backend}/fields.yaml", yaml.safe_dump_all(documents, sort_keys=False, width=120))


@pytest.mark.parametrize("field", OF_ROLE)
def test_one_replica_differs_where_it_has_a_job_of_its_own(field):
    overrides = {"worker": {"overrides": [{"index": 1, field: OF_ROLE[field]}]}}
    job = job_of("jax", **FIELDS, num_nodes=3, replicas=overrides)

    ClusterBackend("native", None, "default").check(job)
    templates = [each["spec"]["template"] for each in objects_of(KEYED["native"], job) if each["kind"] == "Job"]
    for backend in ("trainer", "training-operator"):
        with pytest.raises(UnsupportedField, match=r"replicas\.worker\.overrides\[0\]"):
            ClusterBackend(backend, None, "default").check(job)

    assert len(templates) == 3
    assert templates[1]["spec"] != templates[0]["spec"]


@pytest.mark.parametrize("field", OF_ROLE)
def test_nodes_that_differ_are_refused_where_they_share_a_template(field):
    job = job_of("pytorch", replicas={"master": {field: OF_ROLE[field]}})

    with pytest.raises(UnsupportedField) as refused:
        ClusterBackend("trainer", None, "default").check(job)

    (problem,) = refused.value.problems
    assert (problem.field, problem.value) == (field, "a value") or problem.field == f"replicas.master.{field}"
    assert "backend='native'" in problem.fix
