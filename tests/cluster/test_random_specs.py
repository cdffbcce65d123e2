"""What each backend makes of random specs, a real API server takes: strictly, and with the controllers' webhooks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.kinds.base import Manifest
from tests.cluster.access import Access
from tests.cluster.shell import CommandFailed
from tests.random_specs import EXAMPLES, SETTINGS, TEMPLATES, Spec, rendered, specs

#: Backend -> the profile whose cluster knows its kinds.
_PROFILES = {"trainer": "kubeflow", "training-operator": "kubeflow", "mpi-operator": "mpi", "native": "kubeflow"}
#: What has to be there before the webhook takes a job that refers to it.
_FIRST = ("TrainingRuntime",)
_SEEN_WITHIN = 90
#: The one that random pod templates name.
_LOW = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "low"}, "value": -1}
#: Specs whose objects are sent at once.
_BATCH = 20

#: A spec, and its objects.
Made = tuple[Spec, list[Manifest]]


def _made(backend: str) -> list[Made]:
    """The specs that the backend takes."""
    found: list[Made] = []
    tried: list[Spec] = []

    @SETTINGS
    @given(specs(backend))
    def collect(spec: Spec) -> None:
        tried.append(spec)
        try:
            objects = rendered(backend, spec, len(tried))
        except SpecError:
            return
        if "initializer" in str(spec.get("runtime_ref")):
            # Its steps are those of the runtime, which is not there.
            return
        # What is wrong within a pod template is left to the API server.
        if spec.get("pod_template") in (None, *TEMPLATES):
            found.append((spec, [*objects.kept, *objects.before, objects.main, *objects.after]))

    collect()
    assert len(tried) >= EXAMPLES
    return found


def _batches(made: Sequence[Made]) -> Iterator[Sequence[Made]]:
    return (made[start : start + _BATCH] for start in range(0, len(made), _BATCH))


def _create(cluster: Access, namespace: str, objects: Sequence[Manifest], *flags: str) -> None:
    text = "\n---\n".join(map(json.dumps, objects))
    argv = ("create", "--validate=strict", f"--namespace={namespace}", *flags, "-f", "-")
    cluster.kubectl(*argv, stdin=text, timeout=900)


def _refusal(cluster: Access, namespace: str, made: Sequence[Made]) -> str | None:
    """What the API server says against the objects of some specs, whose runtimes are there; None where it takes all."""
    objects = [each for _, objects in made for each in objects if each["kind"] not in _FIRST]
    end = time.monotonic() + _SEEN_WITHIN
    while True:
        try:
            _create(cluster, namespace, objects, "--dry-run=server")
        except CommandFailed as error:
            if "must be created before" not in str(error) or time.monotonic() > end:
                return str(error)
            time.sleep(1)
        else:
            return None


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "backend", [pytest.param(name, marks=pytest.mark.profile(profile)) for name, profile in _PROFILES.items()]
)
def test_the_api_server_takes_what_is_rendered(backend: str, cluster: Access, namespace: str):
    served = cluster.kubectl("api-versions").split()
    # Not every gang scheduler can be in the cluster.
    made = [
        (spec, [each for each in objects if each["kind"] != "PodGroup" or each["apiVersion"] in served])
        for spec, objects in _made(backend)
    ]
    cluster.kubectl.apply([_LOW])
    refused: dict[str, Any] = {}

    for batch in _batches(made):
        first = [each for _, objects in batch for each in objects if each["kind"] in _FIRST]
        try:
            if first:
                _create(cluster, namespace, first)
            refusal = _refusal(cluster, namespace, batch)
        except CommandFailed as error:
            refusal = str(error)
        if refusal:
            alone = {json.dumps(spec): _refusal(cluster, namespace, [(spec, objects)]) for spec, objects in batch}
            refused |= {spec: why for spec, why in alone.items() if why} or {"a batch": refusal}

    assert len(made) > EXAMPLES * 0.2
    assert refused == {}
