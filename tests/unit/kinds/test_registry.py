"""The kinds, and which parts each of them has."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.errors import SpecError, UnsupportedField
from airflow_trainer_provider.frameworks import MODULES
from airflow_trainer_provider.kinds.native.batch_job import BATCH_JOB
from airflow_trainer_provider.kinds.native.native import NATIVE
from airflow_trainer_provider.kinds.registry import BACKENDS, KINDS, kind_for, manifest_kind, manifest_kinds
from tests.unit.kinds.specs import job_of


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_kind_has_a_renderer_where_it_carries_a_framework(kind):
    assert (kind.renderer is not None) == bool(kind.frameworks)


def test_no_spec_becomes_a_plain_job():
    assert [kind for kind in KINDS.values() if kind.renderer is None] == [BATCH_JOB]


def test_a_manifest_of_a_user_is_of_any_kind_but_a_service():
    kinds = [kind for backend in BACKENDS for kind in manifest_kinds(backend)]

    assert kinds == [kind for kind in KINDS.values() if kind is not NATIVE]


def test_the_frameworks_of_each_backend():
    frameworks = {backend: {name for kind in kinds for name in kind.frameworks} for backend, kinds in BACKENDS.items()}

    assert frameworks == {
        "trainer": {"pytorch", "mpi", "xgboost", "jax"},
        "training-operator": {*MODULES},
        "mpi-operator": {"mpi"},
        "native": {*MODULES},
    }


def test_a_framework_that_a_backend_lacks_is_refused_with_the_backends_that_have_it():
    with pytest.raises(UnsupportedField) as refused:
        kind_for("trainer", job_of("tensorflow"))

    (problem,) = refused.value.problems
    assert (problem.field, problem.value, problem.allowed) == ("framework", "tensorflow", "jax, mpi, pytorch, xgboost")
    assert problem.fix == "For TensorFlow use backend 'training-operator' or 'native'."


def test_a_manifest_of_another_backends_kind_is_refused_with_the_kinds_of_this_one():
    with pytest.raises(SpecError) as refused:
        manifest_kind("trainer", {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"})

    (problem,) = refused.value.problems
    assert (problem.field, problem.value) == ("manifest.kind", "PyTorchJob (kubeflow.org/v1)")
    assert problem.allowed == "TrainJob (trainer.kubeflow.org/v1alpha1)"
    assert problem.fix == "Correct apiVersion and kind, or choose another backend than 'trainer'."
