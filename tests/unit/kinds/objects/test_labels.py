"""By which labels the objects of a job are found."""

from __future__ import annotations

import pytest
import yaml

from airflow_trainer_provider.kinds.objects.labels import JOB, MANAGED_BY, PREFIX, TASK
from airflow_trainer_provider.kinds.registry import BACKENDS, KINDS
from tests.golden_files import golden_files

KINDS_OF_JOBS = {kind.resource.kind for kind in KINDS.values()} - {"Service"}
MARKS = {JOB, MANAGED_BY, TASK, f"{PREFIX}/dag", f"{PREFIX}/task"}
FILES = [file for backend in BACKENDS for file in golden_files(backend)]


def pods(value):
    """The templates of a job's pods in an object."""
    if isinstance(value, dict):
        containers = value.get("spec", {}).get("containers", []) if isinstance(value.get("spec"), dict) else []
        if any(each["name"] == "TRAINER_JOB_NAME" for of in containers for each in of.get("env", [])):
            yield value
        for each in value.values():
            yield from pods(each)
    elif isinstance(value, list):
        for each in value:
            yield from pods(each)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_every_object_has_its_job_and_main_objects_and_pods_their_task_too(file):
    objects = list(yaml.safe_load_all(file.read_text()))
    # Neither a claim that is kept nor the runtime that a job starts from is of one job.
    own = [each for each in objects if each["kind"] != "PersistentVolumeClaim" and each["metadata"]["name"] != "team"]
    labels = [each["metadata"]["labels"] for each in own]

    assert all(JOB in each for each in labels)
    assert all(each["metadata"]["labels"].keys() >= MARKS for each in objects if each["kind"] in KINDS_OF_JOBS)
    assert all(each["metadata"]["labels"].keys() >= MARKS for each in pods(objects))
