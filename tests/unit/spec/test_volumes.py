"""Volumes: what is accepted, what an error says, and which of them a replica has."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_trainer_provider.errors import Problem, SpecError, UnsupportedField
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.spec import Volume, parse_spec

SOURCES = "exactly one of claim, new_claim, empty_dir, host_path, nfs, config_map, secret, git, s3"
CLAIM = {"mount_path": "/data", "claim": "sets"}


def _problems(*volumes: Any) -> dict[str, Problem]:
    with pytest.raises(SpecError) as caught:
        parse_spec({"framework": "jax", "volumes": list(volumes)})
    return {problem.field: problem for problem in caught.value.problems}


def _volume(**fields: Any) -> dict[str, Any]:
    return {"mount_path": "/data", **fields}


def _new(**fields: Any) -> dict[str, Any]:
    return _volume(new_claim={"size": "10Gi", **fields})


def _git(**fields: Any) -> dict[str, Any]:
    return _volume(git={"repository": "https://git.example/team/train.git", **fields})


def _s3(**fields: Any) -> dict[str, Any]:
    return _volume(s3={"uri": "s3://sets/small", **fields})


@pytest.mark.parametrize(
    "source",
    [
        {"claim": "sets"},
        {"new_claim": {"size": 2**30, "access_modes": ["ReadWriteMany", "ReadOnlyMany"], "volume_mode": "Block"}},
        {"new_claim": {"size": "1Gi", "keep": "true"}, "name": "checkpoints"},
        {"empty_dir": {}},
        {"empty_dir": {"medium": "memory", "size": "1Gi"}},
        {"host_path": "/srv/sets/"},
        {"nfs": {"server": "10.0.0.1", "path": "/"}},
        {"config_map": {"name": "settings", "items": [{"key": "a.yaml", "path": "conf/a.yaml"}, {"key": "b"}]}},
        {"secret": {"name": "hub"}, "read_only": True},
        {"git": {"repository": "git@git.example:team/train.git", "revision": "feature/a#1", "secret_name": "key"}},
        {"git": {"repository": "ssh://git@git.example:2222/team/train"}, "sub_path": "src/train"},
        {"s3": {"uri": "s3://sets", "endpoint": "https://minio.example:9000/", "region": "eu-west-1"}},
    ],
    ids=str,
)
def test_a_source(source):
    spec = parse_spec({"framework": "jax", "volumes": [_volume(**source)]})

    assert spec.volumes[0].source == next(iter(source))
    assert parse_spec({"framework": "jax", "volumes": spec.volumes}) == spec


@pytest.mark.parametrize(
    ("volume", "field", "value", "allowed", "fix"),
    [
        # One source.
        (_volume(), "", None, SOURCES, "Say where its files come from."),
        (_volume(claim="a", empty_dir={}), "", "claim, empty_dir", SOURCES, "Drop all but one of claim, empty_dir."),
        ({"claim": "a"}, ".mount_path", None, "a value", "Set volumes[0].mount_path."),
        # Near misses, and Kubernetes' names.
        ({**CLAIM, "mountPath": "/x"}, ".mountPath", "mountPath", "mount_path", "Did you mean 'mount_path'?"),
        ({**CLAIM, "readOnly": True}, ".readOnly", "readOnly", "read_only", "Did you mean 'read_only'?"),
        (_volume(pvc="a"), ".pvc", "pvc", "claim", "Write claim, the claim's name alone."),
        (
            _volume(persistentVolumeClaim={"claimName": "a"}),
            ".persistentVolumeClaim",
            "persistentVolumeClaim",
            "claim",
            "Write claim, the claim's name alone.",
        ),
        (_volume(emptyDir={}), ".emptyDir", "emptyDir", "empty_dir", "Did you mean 'empty_dir'?"),
        (_volume(hostPath={"path": "/x"}), ".hostPath", "hostPath", "host_path", "Did you mean 'host_path'?"),
        (_volume(configMap={"name": "x"}), ".configMap", "configMap", "config_map", "Did you mean 'config_map'?"),
        (
            _volume(claim={"claimName": "a"}),
            ".claim",
            "dict",
            "the claim's name alone",
            "Write the claim's name itself.",
        ),
        (_volume(host_path={"path": "/x"}), ".host_path", "dict", "the node's path alone", "Write the node's path"),
        (_volume(config_map="x"), ".config_map", "str", 'a mapping, e.g. {"name": "settings"}', "Write a mapping"),
        (
            _new(storageClassName="x"),
            ".new_claim.storageClassName",
            "storageClassName",
            "storage_class",
            "Did you mean",
        ),
        (_git(branch="x"), ".git.branch", "branch", "revision", "Write revision."),
        (_git(secret="x"), ".git.secret", "secret", "secret_name", "Did you mean 'secret_name'?"),
        # Paths and names.
        ({"mount_path": "data", "claim": "a"}, ".mount_path", "data", "an absolute path", "Write the whole path."),
        (
            {"mount_path": "/a/../b", "claim": "a"},
            ".mount_path",
            "/a/../b",
            "without '.', '..'",
            "Write the whole path.",
        ),
        (
            {"mount_path": "/", "claim": "a"},
            ".mount_path",
            "/",
            "other than /, /dev, /proc and /sys",
            "Mount it elsewhere",
        ),
        ({"mount_path": "/proc/x", "claim": "a"}, ".mount_path", "/proc/x", "other than /", "Mount it elsewhere"),
        ({"mount_path": "/a:b", "claim": "a"}, ".mount_path", "/a:b", "without ':'", "Mount it elsewhere"),
        ({**CLAIM, "sub_path": "/x"}, ".sub_path", "/x", "a relative path", "Write the path below it."),
        ({**CLAIM, "sub_path": "a/../../b"}, ".sub_path", "a/../../b", "a relative path", "Write the path below it."),
        ({**CLAIM, "name": "Data"}, ".name", "Data", "1 to 40 lowercase letters", "Rename it."),
        ({**CLAIM, "name": "trainer-x"}, ".name", "trainer-x", "does not begin with trainer-", "Rename it."),
        ({**CLAIM, "claim": "My_Claim"}, ".claim", "My_Claim", "1 to 253 lowercase letters", "Write the object's name"),
        ({**CLAIM, "read_only": "maybe"}, ".read_only", "maybe", "true or false", "Change volumes[0].read_only."),
        # New claims.
        (_volume(new_claim={}), ".new_claim.size", None, "a value", "Set volumes[0].new_claim.size."),
        (_new(size="10GB"), ".new_claim.size", "10GB", "a positive quantity", 'Write "10G" for powers of 1000'),
        (_new(access_modes=["RWX"]), ".new_claim.access_modes[0]", "RWX", "ReadWriteMany", "Write 'ReadWriteMany'."),
        (
            _new(access_modes=["readwritemany"]),
            ".new_claim.access_modes[0]",
            "readwritemany",
            "ReadWriteMany",
            "Did you",
        ),
        (_new(access_modes=[]), ".new_claim.access_modes", "an empty list", "at least one mode", "Name one"),
        (
            _new(access_modes=["ReadWriteOnce"] * 2),
            ".new_claim.access_modes",
            "ReadWriteOnce",
            "each mode once",
            "Drop one",
        ),
        (
            _new(access_modes=["ReadWriteOncePod", "ReadWriteMany"]),
            ".new_claim.access_modes",
            "ReadWriteOncePod, ReadWriteMany",
            "no other mode beside ReadWriteOncePod",
            "Drop it, or the others.",
        ),
        (_new(volume_mode="block"), ".new_claim.volume_mode", "block", "Filesystem, Block", "Did you mean 'Block'?"),
        (_new(keep=True), ".name", None, "a name, where new_claim.keep is set", "Set it: jobs find a claim"),
        (
            {**_new(volume_mode="Block"), "sub_path": "a"},
            ".sub_path",
            "a value",
            "no value beside volume_mode",
            "Drop it",
        ),
        # Others.
        (
            _volume(empty_dir={"medium": "Memory"}),
            ".empty_dir.medium",
            "Memory",
            "disk, memory",
            "Did you mean 'memory'?",
        ),
        (
            _volume(nfs={"server": "a b", "path": "/"}),
            ".nfs.server",
            "a b",
            "a host name or an address",
            "Write the host",
        ),
        (_volume(secret={"name": "a", "items": []}), ".secret.items", "an empty list", "at least one key", "Name one"),
        (
            _git(repository="https://robot:hunter2@git.example/x.git"),
            ".git.repository",
            "a URL with a user",
            "a URL without a user and a password",
            "Put the password into a Secret, and name that in secret_name.",
        ),
        (
            _git(repository="https://hunter2@git.example/x"),
            ".git.repository",
            "a URL with a user",
            "a URL without",
            "Put",
        ),
        (
            _git(repository="file:///srv/x"),
            ".git.repository",
            "file:///srv/x",
            "an https://, http://, ssh://",
            "Correct",
        ),
        (_git(repository="-upload-pack:x"), ".git.repository", "-upload-pack:x", "an https://", "Correct"),
        (
            _git(revision="--upload-pack=x"),
            ".git.revision",
            "--upload-pack=x",
            "the name of a branch",
            "Write the name",
        ),
        (
            _s3(uri="https://sets"),
            ".s3.uri",
            "https://sets",
            "s3://BUCKET, or s3://BUCKET/PREFIX",
            "Correct the address",
        ),
        (_s3(endpoint="minio:9000"), ".s3.endpoint", "minio:9000", "an http:// or https:// URL", "Write the address"),
        (
            _s3(endpoint="http://a:hunter2@m"),
            ".s3.endpoint",
            "a URL with a user",
            "a URL without a user",
            "Put the password",
        ),
        ({**_s3(), "sub_path": "a"}, ".sub_path", "a", "no value beside s3", "Append it to s3.uri"),
        (
            _git(repository="ssh://git:hunter2@git.example/x"),
            ".git.repository",
            "a URL with a user",
            "a URL without a user and a password",
            "Put the password into a Secret",
        ),
        (
            _s3(endpoint="https://minio.example:99999"),
            ".s3.endpoint",
            "https://minio.example:99999",
            "an http:// or https:// URL",
            "Write the address",
        ),
        (
            {**_new(volume_mode="Block"), "read_only": True},
            ".read_only",
            "a value",
            "no value beside volume_mode",
            "Drop it",
        ),
        ({"mount_path": "/dev", "claim": "a"}, ".mount_path", "/dev", "other than /, /dev", "Mount it elsewhere"),
    ],
    ids=str,
)
def test_a_wrong_volume(volume, field, value, allowed, fix):
    problem = _problems(volume)[f"volumes[0]{field}"]

    assert problem.value == value
    assert allowed in problem.allowed
    assert problem.fix.startswith(fix)
    assert "hunter2" not in str(problem)


def test_two_volumes_at_one_path():
    problem = _problems(CLAIM, {"mount_path": "/data/", "empty_dir": {}})["volumes[1].mount_path"]

    assert (problem.value, problem.allowed) == ("/data", "a path other than that of [0]")


@pytest.mark.parametrize(
    ("volumes", "hint"), [("[{'claim': 'a'}]", "render_template_as_native_obj"), ({"claim": "a"}, "Write a list.")]
)
def test_what_is_no_list(volumes, hint):
    with pytest.raises(SpecError, match=r"volumes: got .*a list of volumes") as caught:
        parse_spec({"framework": "jax", "volumes": volumes})

    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/data", "data"),
        ("/data/sets", "data-sets"),
        ("/data-sets", "data-sets-c1ff92"),
        ("/Data_Sets", "data-sets-a66790"),
        ("/_", "volume-d2e2ad"),
        ("/trainer/files", "volume-"),
        (f"/{'x' * 60}", f"{'x' * 32}-"),
    ],
)
def test_a_name_is_made_from_the_path_that_no_other_path_makes(path, name):
    made = Volume.model_validate({"mount_path": path, "claim": "a"}).pod_name

    assert made.startswith(name)
    assert len(made) <= 40


VOLUMES = [CLAIM, {"mount_path": "/scratch", "empty_dir": {}}]
OTHER = {"mount_path": "/scratch/", "host_path": "/mnt/scratch"}
MORE = {"mount_path": "/hub", "secret": {"name": "hub"}}


def _mounted(**worker: Any) -> list[list[tuple[str, str]]]:
    """Path and source of the volumes of each replica: a master and two workers."""
    spec = {"framework": "pytorch", "num_nodes": 3, "volumes": VOLUMES, "replicas": {"worker": worker}}
    job = plan_job(parse_spec(spec))
    return [[(volume.mount_path, volume.source) for volume in replica.volumes] for replica in job.replicas]


JOBS = [("/data", "claim"), ("/scratch", "empty_dir")]


def test_a_groups_volumes_are_added_and_replace_those_of_the_same_path():
    of_workers = [("/data", "claim"), ("/scratch", "host_path"), ("/hub", "secret")]

    assert _mounted(volumes=[OTHER, MORE]) == [JOBS, of_workers, of_workers]


@pytest.mark.parametrize(("volumes", "mounted"), [([MORE], [("/hub", "secret")]), ([], [])])
def test_an_overrides_volumes_are_all_that_the_replica_has(volumes, mounted):
    assert _mounted(overrides=[{"index": 1, "volumes": volumes}]) == [JOBS, JOBS, mounted]


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"volumes": [CLAIM]}, "volumes"), ({"replicas": {"worker": {"volumes": [CLAIM]}}}, "replicas.worker.volumes")],
)
def test_the_local_backend_refuses_them_and_names_the_way_out(tmp_path, fields, field):
    job = plan_job(parse_spec({"framework": "jax", "command": ["sh", "-c", "true"], **fields}))

    with pytest.raises(UnsupportedField, match="Backend 'local'") as caught:
        LocalBackend(tmp_path, 0.05, None).check(job)

    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == (field, "a value")
    assert problem.fix == "Drop volumes, and give the script this machine's own folders; or use a cluster."
