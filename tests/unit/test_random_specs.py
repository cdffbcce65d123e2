"""Whatever a spec holds, each backend makes manifests of it, or says which field is wrong and what to do instead."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.frameworks import MODULES, plan_job
from airflow_trainer_provider.kinds.registry import BACKENDS
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.spec import PodSettings, Resources, RunPolicy, Scheduling, TrainJobSpec, parse_spec
from airflow_trainer_provider.spec.job import ReplicaSettings
from airflow_trainer_provider.spec.pod import Security
from airflow_trainer_provider.spec.volumes import SOURCES
from tests import random_specs
from tests.random_specs import EXAMPLES, FRAMEWORKS, SETTINGS, identity, rendered, specs


def _made(backend, spec, folder):
    """What a backend makes of a spec."""
    if backend == "local":
        job, local = plan_job(parse_spec(spec)), LocalBackend(folder, 0.05, None)
        local.check(job)
        return local.render(job, identity())
    objects = rendered(backend, spec)
    return json.dumps([*objects.kept, *objects.before, objects.main, *objects.after], allow_nan=False)


def _check(error, spec):
    assert error.problems
    for problem in error.problems:
        assert re.match(r"\w*", problem.field)[0] in {*TrainJobSpec.model_fields, *spec} or problem.field[0] == "["
        assert problem.allowed not in ("", "0"), problem
        assert problem.fix.rstrip().endswith((".", "?")), problem


@pytest.mark.parametrize("backend", [*BACKENDS, "local"])
def test_a_spec_becomes_manifests_or_errors_with_a_way_out(backend, tmp_path):
    ends = []

    @SETTINGS
    @given(specs(backend))
    def check(spec):
        try:
            ends.append(bool(_made(backend, spec, tmp_path)))
        except SpecError as error:
            _check(error, spec)
            ends.append(False)

    check()

    # Neither all nor none are wrong, or nothing is tested.
    assert len(ends) >= EXAMPLES
    assert 0.2 < sum(ends) / len(ends) < 0.8, f"{sum(ends)} of {len(ends)} became manifests"


def test_each_framework_of_a_backend_has_specs():
    for backend, kinds in BACKENDS.items():
        assert {*FRAMEWORKS[backend]} == {name for kind in kinds if kind.renderer for name in kind.frameworks}
    assert {*FRAMEWORKS["local"]} == {*MODULES}


@pytest.mark.parametrize(
    ("fields", "model"),
    [
        ({*random_specs.ON_CLUSTERS, *random_specs.OTHERS}, TrainJobSpec),
        (random_specs.OF_REPLICAS, ReplicaSettings),
        (random_specs.SCHEDULING, Scheduling),
        (random_specs.POD, PodSettings),
        (random_specs.SECURITY, Security),
        (random_specs.RESOURCES, Resources),
        (random_specs.RUN_POLICY, RunPolicy),
    ],
)
def test_each_field_is_in_the_specs(fields, model):
    assert {*fields} == {*model.model_fields}


def test_each_source_of_a_volume_is_in_the_specs():
    assert {*SOURCES} <= {name for volume in random_specs.VOLUMES for name in volume}
