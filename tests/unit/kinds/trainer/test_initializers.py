"""What a TrainJob says to the initializers of its runtime, and which runtimes are refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_trainer_provider.errors import Problem, UnsupportedField
from airflow_trainer_provider.kinds.base import Facts, Manifest, Rendered
from airflow_trainer_provider.kinds.trainer.trainjob import TRAINJOB
from tests.golden_files import assert_golden
from tests.initializers import with_initializers
from tests.unit.kinds.specs import job_of, meta

_RUNTIMES = Path(__file__).parents[3] / "cluster" / "manifests" / "runtimes.yaml"
_NAMED = {each["metadata"]["name"]: each for each in yaml.safe_load_all(_RUNTIMES.read_text())}
_CLAIM = {"persistentVolumeClaim": {"claimName": "models"}}
RUNTIME = with_initializers(_NAMED["trainer-test-torch"], "dataset", "model", volume=_CLAIM)
INITIALIZER = {
    "dataset": {
        "storage_uri": "hf://tatsu-lab/alpaca",
        # Refers to a variable that has its value from elsewhere, and stands before it.
        "env": {"HF_ENDPOINT": "https://$(MIRROR)", "MIRROR": {"config_map": {"name": "hub", "key": "mirror"}}},
        "secret": "hf-token",
    },
    "model": {"storage_uri": "hf://meta-llama/Llama-3.2-1B-Instruct", "secret": "hf-token"},
}


def rendered(initializer: Any, runtime: Manifest | None = RUNTIME, **fields: Any) -> Rendered:
    job = job_of("pytorch", runtime_ref={"name": "torchtune", "initializer": initializer}, **fields)
    TRAINJOB.renderer.check(job)
    return TRAINJOB.renderer.render(job, meta(job), Facts(runtime=runtime))


def problem_of(initializer: Any, runtime: Manifest) -> Problem:
    with pytest.raises(UnsupportedField) as caught:
        rendered(initializer, runtime)
    (problem,) = caught.value.problems
    return problem


def steps_of(objects: Rendered) -> dict[str, Manifest]:
    return {each["name"]: each for each in objects.before[0]["spec"]["template"]["spec"]["replicatedJobs"]}


def test_the_runtime_and_the_trainjob_have_the_initializers():
    objects = rendered(INITIALIZER)

    documents = [*objects.before, objects.main]
    assert_golden("trainer/initializer.yaml", yaml.safe_dump_all(documents, sort_keys=False, width=120))


def test_the_jobs_own_runtime_has_the_initializers_of_the_named_one():
    given = {each["name"]: each for each in RUNTIME["spec"]["template"]["spec"]["replicatedJobs"]}

    steps = steps_of(rendered(INITIALIZER))

    assert list(steps) == ["dataset-initializer", "model-initializer", "node"]
    assert all(steps[name] == given[name] for name in ("dataset-initializer", "model-initializer"))
    assert steps["node"]["dependsOn"] == given["node"]["dependsOn"]


def test_an_mpi_launcher_waits_for_initializers_as_well():
    runtime = copy.deepcopy(_NAMED["trainer-test-mpi"])
    steps = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    complete = {"name": "dataset-initializer", "status": "Complete"}
    steps[1]["dependsOn"] = [complete, *steps[1]["dependsOn"]]
    steps.insert(0, RUNTIME["spec"]["template"]["spec"]["replicatedJobs"][0])
    job = job_of("mpi", runtime_ref={"name": "mpi", "initializer": {"dataset": {"secret": "hub"}}})

    objects = TRAINJOB.renderer.render(job, meta(job), Facts(runtime=runtime))

    assert steps_of(objects)["launcher"]["dependsOn"] == [complete, {"name": "node", "status": "Ready"}]


def test_the_models_of_the_api_know_every_field():
    from kubeflow_trainer_api import models

    main = rendered(INITIALIZER).main

    assert models.TrainerV1alpha1TrainJob.from_dict(main).to_dict() == main


def test_one_initializer_alone():
    runtime = with_initializers(_NAMED["trainer-test-torch"], "model", volume=_CLAIM)

    objects = rendered({"model": {"storage_uri": "s3://models/a"}}, runtime)

    assert objects.main["spec"]["initializer"] == {"model": {"storageUri": "s3://models/a"}}


def test_without_a_cluster_the_runtime_is_not_known():
    assert rendered(INITIALIZER, None).main["spec"]["initializer"].keys() == {"dataset", "model"}


def test_a_runtime_without_the_step():
    problem = problem_of(INITIALIZER, with_initializers(_NAMED["trainer-test-torch"], "dataset", volume=_CLAIM))

    assert problem.field == "runtime_ref.initializer.model"
    assert problem.allowed == "a runtime with the replicated job model-initializer; torchtune has none"
    assert problem.fix == "Name another runtime, drop model, or let volumes fetch from git or S3."


def _without_label(step: Manifest) -> None:
    step["template"]["metadata"]["labels"] = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


def _without_container(step: Manifest) -> None:
    step["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = "fetch"


def _without_volume(step: Manifest) -> None:
    step["template"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["name"] = "data"


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        (
            _without_label,
            "the label trainer.kubeflow.org/trainjob-ancestor-step=dataset-initializer on the replicated job "
            "dataset-initializer",
        ),
        (_without_container, "a container dataset-initializer in the replicated job dataset-initializer"),
        (_without_volume, "the volume initializer mounted into the container dataset-initializer"),
    ],
)
def test_a_step_to_which_trainer_would_say_nothing(change, missing):
    runtime = copy.deepcopy(RUNTIME)
    change(runtime["spec"]["template"]["spec"]["replicatedJobs"][0])

    assert problem_of(INITIALIZER, runtime).allowed == f"a runtime with {missing}; torchtune has none"
