"""The kinds, and which parts each of them has."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.frameworks import MODULES
from airflow_trainer_provider.kinds.native.batch_job import BATCH_JOB
from airflow_trainer_provider.kinds.native.native import NATIVE
from airflow_trainer_provider.kinds.registry import BACKENDS, KINDS, manifest_kinds


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
