"""Controllers' manifests: what is changed in them, and in which order they are applied."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import yaml

from tests.cluster import manifests
from tests.cluster.paths import HERE
from tests.cluster.profiles import PROFILES, Controller

#: Quotas; and jobs whose runtime names the image.
_WITHOUT_IMAGES = {
    "manifests/coscheduler.yaml",
    "manifests/kueue.yaml",
    "job_manifests/trainjob-mpi.yaml",
    "job_manifests/trainjob-progress.yaml",
    "job_manifests/trainjob-torch.yaml",
    "job_manifests/trainjob-xgboost.yaml",
}
_CONTROLLER = Controller("it", "config/default", "it-system", "it", args=("--image={tiny}",))


def _deployment():
    container = {
        "name": "manager",
        "image": "registry.test/it:latest",
        "imagePullPolicy": "Always",
        "args": ["--leader-elect", "--verbose"],
        "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "2"}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8081}, "initialDelaySeconds": 10},
    }
    return {
        "kind": "Deployment",
        "metadata": {"name": "it"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }


def test_controller_runs_from_local_image_with_little():
    document = _deployment()
    manifests.adapt([{"kind": "Service"}, document], _CONTROLLER, "trainer.test/it:1", {"tiny": "trainer.test/tiny:2"})
    (container,) = document["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "trainer.test/it:1"
    assert container["imagePullPolicy"] == "Never"
    assert container["args"] == ["--verbose", "--image=trainer.test/tiny:2"]
    assert "limits" not in container["resources"]
    assert container["readinessProbe"]["initialDelaySeconds"] == 1
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_what_another_controller_brings_is_left_out():
    mine, theirs = ({"kind": "CustomResourceDefinition", "metadata": {"name": name}} for name in ("a.b", "c.b"))
    role = {"kind": "ClusterRole", "metadata": {"name": "c.b"}}
    documents = [mine, theirs, role, _deployment()]

    manifests.adapt(documents, replace(_CONTROLLER, without=("c.b",)), "trainer.test/it:1", {"tiny": "it"})

    assert documents[:2] == [mine, role]
    assert len(documents) == 3


def test_no_controller_elects_a_leader():
    config = {"kind": "ConfigMap", "data": {"config.yaml": "leaderElection:\n  leaderElect: true\n"}}
    document = _deployment()

    manifests.adapt([config, {"kind": "ConfigMap"}, document], _CONTROLLER, "trainer.test/it:1", {"tiny": "it"})

    assert config["data"] == {"config.yaml": "leaderElection:\n  leaderElect: false\n"}
    assert document["spec"]["strategy"] == {"type": "Recreate"}


def test_missing_deployment_is_named():
    with pytest.raises(LookupError, match="config/default of it has no Deployment it"):
        manifests.adapt([], _CONTROLLER, "trainer.test/it:1", {})


def test_order_is_what_the_api_server_accepts():
    kinds = ["Deployment", "CustomResourceDefinition", "ClusterRole", "Namespace"]
    ordered = manifests.ordered([{"kind": kind} for kind in kinds])
    assert [document["kind"] for document in ordered] == [
        "Namespace",
        "CustomResourceDefinition",
        "ClusterRole",
        "Deployment",
    ]


def test_nothing_is_fetched_from_elsewhere():
    text = "resources:\n  - ../../base/crds\n  - ../../third-party/jobset # Comment this line\n"
    assert manifests.without_third_parties(text) == "resources:\n  - ../../base/crds\n"


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_files_of_profiles_exist(profile):
    for file in (*profile.objects, *profile.probes):
        assert list(yaml.safe_load_all((HERE / "manifests" / file).read_text()))


@pytest.mark.parametrize(
    "path",
    sorted([*(HERE / "job_manifests").glob("*.yaml"), *(HERE / "manifests").glob("[!i]*.yaml")]),
    ids=lambda path: path.name,
)
def test_images_are_local(path):
    images = re.findall(r"^\s+image: (\S+)", path.read_text(), re.MULTILINE)
    assert set(images) <= {"trainer.test/worker:test", "trainer.test/tiny:test"}
    assert bool(images) == (path.relative_to(HERE).as_posix() not in _WITHOUT_IMAGES)
