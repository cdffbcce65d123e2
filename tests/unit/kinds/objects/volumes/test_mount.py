"""Where the volumes of a job stand in the pods of each kind."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import UnsupportedField
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.base import Facts
from airflow_trainer_provider.kinds.objects.labels import GROUP
from airflow_trainer_provider.kinds.registry import kind_for
from tests.golden_files import assert_golden
from tests.unit.kinds.objects.test_pod import CARRIED, pods_of, templates_of
from tests.unit.kinds.specs import CHECKPOINT, VOLUMES, job_of, meta

IDENTITY = Identity(dag_id="nightly", run_id="monday", task_id="train")
WORKERS = [{"mount_path": "/workers", "empty_dir": {"size": "1Gi"}}]


@pytest.mark.parametrize(
    ("backend", "framework"),
    # Each kind, and each way in which a backend launches.
    [pair for pair in CARRIED if pair[0] == "training-operator" or pair[1] in ("pytorch", "mpi")],
)
def test_the_rendered_objects_are_those_of_the_golden_file(backend, framework):
    job = job_of(framework, volumes=VOLUMES, checkpoint=CHECKPOINT)
    made = ClusterBackend(backend, None, "default")
    made.check(job)
    text = made.render(job, IDENTITY)
    # The namespace is the one that a test creates them in.
    documents = [each for each in yaml.safe_load_all(text) if each["metadata"].pop("namespace")]

    assert_golden(f"{backend}/{framework}-volumes.yaml", yaml.safe_dump_all(documents, sort_keys=False, width=120))


@pytest.mark.parametrize(("backend", "framework"), CARRIED)
def test_every_pod_has_the_volumes_and_those_that_the_backend_adds(backend, framework):
    bare = [pod["spec"] for pod in pods_of(backend, job_of(framework))]
    pods = [pod["spec"] for pod in pods_of(backend, job_of(framework, volumes=VOLUMES))]

    for before, spec in zip(bare, pods, strict=True):
        train = spec["containers"][0]
        paths = [each["mountPath"] for each in train["volumeMounts"]]
        own = [each["mount_path"] for each in VOLUMES if each["mount_path"] != "/dev/scratch"]
        of_backend = [each["mountPath"] for each in before["containers"][0].get("volumeMounts", ())]
        assert sorted(paths) == sorted([*own, *of_backend])
        assert train["volumeDevices"] == [{"name": "device", "devicePath": "/dev/scratch"}]
        names = [each["name"] for each in spec["volumes"]]
        assert len(names) == len(set(names))
        assert {each["name"] for each in train["volumeMounts"]} <= set(names)
        fetches = [each["name"] for each in spec["initContainers"]]
        assert fetches[:2] == ["fetch-src", "fetch-sets"]


@pytest.mark.parametrize("backend", ["training-operator", "native", "mpi-operator"])
def test_a_group_has_volumes_of_its_own(backend):
    framework = "mpi" if backend == "mpi-operator" else "pytorch"
    job = job_of(framework, volumes=VOLUMES[:1], replicas={"worker": {"volumes": WORKERS}})

    found = {}
    for pod in pods_of(backend, job):
        paths = {each["mountPath"] for each in pod["spec"]["containers"][0]["volumeMounts"]}
        found[pod["metadata"]["labels"][GROUP]] = paths & {"/data", "/workers"}
    leader = "launcher" if framework == "mpi" else "master"
    assert found == {leader: {"/data"}, "worker": {"/data", "/workers"}}


def test_one_replica_has_volumes_of_its_own_on_native():
    job = job_of("jax", num_nodes=3, replicas={"worker": {"overrides": [{"index": 1, "volumes": WORKERS}]}})

    mounts = [len(pod["spec"]["containers"][0].get("volumeMounts", ())) for pod in pods_of("native", job)]
    assert mounts == [0, 1, 0]


@pytest.mark.parametrize(
    ("backend", "worker", "field"),
    [
        ("trainer", {"volumes": WORKERS}, "replicas.worker.volumes"),
        ("training-operator", {"overrides": [{"index": 0, "volumes": WORKERS}]}, "replicas.worker.overrides[0]"),
    ],
)
def test_what_a_backend_cannot_express_is_refused_by_name(backend, worker, field):
    with pytest.raises(UnsupportedField) as caught:
        ClusterBackend(backend, None, "n").check(job_of("pytorch", replicas={"worker": worker}))

    (problem,) = caught.value.problems
    assert problem.field == field
    assert "native" in problem.fix


def test_trainers_mpi_launcher_may_differ_from_its_nodes():
    pods = pods_of("trainer", job_of("mpi", replicas={"launcher": {"volumes": WORKERS}}))

    paths = [{each["mountPath"] for each in pod["spec"]["containers"][0]["volumeMounts"]} for pod in pods]
    assert ["/workers" in each for each in paths] == [False, True]


def _spec(**fields: Any) -> dict[str, Any]:
    """The pod of a native job of one node."""
    (pod,) = pods_of("native", job_of("jax", num_nodes=1, **fields))
    return pod["spec"]


@pytest.mark.parametrize(
    ("volume", "source", "mount"),
    [
        (
            {"claim": "sets", "read_only": True, "sub_path": "a/b"},
            {"persistentVolumeClaim": {"claimName": "sets", "readOnly": True}},
            {"subPath": "a/b", "readOnly": True},
        ),
        ({"new_claim": {"size": "1Gi"}}, {"persistentVolumeClaim": {"claimName": "train-data"}}, {}),
        ({"new_claim": {"size": "1Gi", "keep": True}, "name": "x"}, {"persistentVolumeClaim": {"claimName": "x"}}, {}),
        ({"empty_dir": {}}, {"emptyDir": {}}, {}),
        (
            {"empty_dir": {"medium": "memory", "size": "1Gi"}},
            {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {},
        ),
        ({"host_path": "/srv"}, {"hostPath": {"path": "/srv"}}, {}),
        ({"nfs": {"server": "n", "path": "/sets"}}, {"nfs": {"server": "n", "path": "/sets"}}, {}),
        ({"config_map": {"name": "c"}}, {"configMap": {"name": "c"}}, {}),
        (
            {"secret": {"name": "s", "items": [{"key": "a"}, {"key": "b", "path": "x/b"}]}},
            {"secret": {"secretName": "s", "items": [{"key": "a", "path": "a"}, {"key": "b", "path": "x/b"}]}},
            {},
        ),
        ({"s3": {"uri": "s3://sets", "image": "r"}}, {"emptyDir": {}}, {}),
        ({"git": {"repository": "https://h/x", "image": "g"}}, {"emptyDir": {}}, {"subPath": "checkout"}),
        (
            {"git": {"repository": "https://h/x", "image": "g"}, "sub_path": "src"},
            {"emptyDir": {}},
            {"subPath": "checkout/src"},
        ),
    ],
    ids=str,
)
def test_a_volume_in_the_pod(volume, source, mount):
    spec = _spec(volumes=[{"mount_path": "/data", **volume}])

    name = volume.get("name", "data")
    assert spec["volumes"][0] == {"name": name, **source}
    assert spec["containers"][0]["volumeMounts"] == [{"name": name, "mountPath": "/data", **mount}]


def test_volumes_of_one_name_and_source_are_one_volume_at_several_paths():
    git = {"name": "code", "git": {"repository": "https://h/x", "image": "g"}}
    paths = {"/a": "src", "/b": "conf"}
    spec = _spec(volumes=[{**git, "mount_path": path, "sub_path": part} for path, part in paths.items()])

    assert [each["name"] for each in spec["volumes"]] == ["code", "trainer-fetch"]
    assert [each["mountPath"] for each in spec["containers"][0]["volumeMounts"]] == ["/a", "/b"]
    (fetch,) = spec["initContainers"]
    assert fetch["command"][-2:] == ["src", "conf"]


def test_a_claim_that_is_also_written_to_is_not_mounted_read_only():
    claim = {"name": "sets", "claim": "sets"}
    spec = _spec(
        volumes=[{**claim, "mount_path": "/a", "read_only": True}, {**claim, "mount_path": "/b", "sub_path": "b"}]
    )

    assert spec["volumes"] == [{"name": "sets", "persistentVolumeClaim": {"claimName": "sets"}}]


def test_the_users_init_containers_and_sidecars_find_the_volumes():
    mounts = [{"name": "data", "mountPath": "/in"}]
    template = {
        "initContainers": [{"name": "unpack", "image": "u", "volumeMounts": mounts}],
        "containers": [{"name": "train"}, {"name": "show", "image": "s", "volumeMounts": mounts}],
    }
    spec = _spec(
        volumes=[{"mount_path": "/data", "s3": {"uri": "s3://sets", "image": "r"}}], pod_template={"spec": template}
    )

    assert [each["name"] for each in spec["initContainers"]] == ["fetch-data", "unpack"]
    assert spec["containers"][1]["volumeMounts"] == mounts


def test_the_volumes_of_a_runtime_are_replaced_by_name_and_by_path():
    pod = {
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "old", "emptyDir": {}}],
        "containers": [
            {
                "name": "node",
                "image": "i",
                "volumeMounts": [{"name": "old", "mountPath": "/data"}, {"name": "old", "mountPath": "/old"}],
            }
        ],
    }
    step = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    facts = Facts(runtime={"spec": {"template": {"spec": {"replicatedJobs": [step]}}}})
    job = job_of("jax", runtime_ref="r", volumes=[{"mount_path": "/data", "claim": "sets"}])

    rendered = kind_for("trainer", job).renderer.render(job, meta(job), facts)

    (template,) = templates_of(list(rendered.before))
    assert [each["name"] for each in template["spec"]["volumes"]] == ["old", "data"]
    volumes = {each["name"]: each for each in template["spec"]["volumes"]}
    assert volumes["data"] == {"name": "data", "persistentVolumeClaim": {"claimName": "sets"}}
    assert [(each["name"], each["mountPath"]) for each in template["spec"]["containers"][0]["volumeMounts"]] == [
        ("old", "/old"),
        ("data", "/data"),
    ]
