"""Data for jobs: a repository behind a password, an object store, Secrets, a ConfigMap, and volumes for new claims."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import data_server
from tests.cluster.access import Access

#: Has git and rclone as well.
_IMAGE = "trainer.test/worker:test"


@dataclass(frozen=True)
class Data:
    """What is there for the jobs of a test.

    :param url: of the server.
    :param storage_class: of the volumes that claims can be bound to.
    """

    url: str
    storage_class: str

    def git(self, **fields: Any) -> dict[str, Any]:
        git = {"repository": f"{self.url}/git/train.git", "secret_name": "git", "image": _IMAGE, **fields}
        return {"mount_path": "/in/src", "git": git, "sub_path": "src"}

    def s3(self) -> dict[str, Any]:
        s3 = {"uri": "s3://sets/small", "endpoint": self.url, "secret_name": "store", "image": _IMAGE}
        return {"mount_path": "/in/sets", "s3": s3}

    def claim(self, **fields: Any) -> dict[str, Any]:
        claim = {"size": "1Gi", "storage_class": self.storage_class, "access_modes": ["ReadWriteMany"], **fields}
        return {"mount_path": "/scratch", "name": "scratch", "new_claim": claim}


def _git(*words: str | Path, cwd: Path) -> None:
    author = ("-c", "user.name=test", "-c", "user.email=test@example")
    subprocess.run(["git", *author, *words], cwd=cwd, check=True, capture_output=True)


def _serve(folder: Path) -> None:
    """Write what the server serves."""
    work = folder / "work"
    (work / "src").mkdir(parents=True)
    (work / "src" / "train.py").write_text("print()")
    _git("init", "--quiet", "--initial-branch=main", cwd=work)
    _git("add", "src", cwd=work)
    _git("commit", "--quiet", "-m", "first", cwd=work)
    _git("clone", "--quiet", "--bare", work, folder / "git" / "train.git", cwd=folder)
    # For servers that only serve files: they cannot send a part of the history.
    _git("update-server-info", cwd=folder / "git" / "train.git")
    (folder / "sets" / "small" / "deep").mkdir(parents=True)
    (folder / "sets" / "small" / "deep" / "a").write_text("1")
    (folder / "sets" / "large").write_text("2")


def _volume(name: str, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    folder.chmod(0o777)
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": name,
        "hostPath": {"path": str(folder)},
    }
    metadata = {"name": f"{name}-{folder.name}"}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


@contextmanager
def served(cluster: Access, namespace: str, shared: Path) -> Iterator[Data]:
    """Serve data in a namespace.

    :param cluster: the test cluster.
    :param namespace: of the jobs that read them.
    :param shared: a folder that the node has too.
    """
    kubectl, where = cluster.kubectl, f"--namespace={namespace}"
    (shared / "served").mkdir()
    _serve(shared / "served")
    volumes = [_volume(namespace, shared / name) for name in ("first", "second")]
    kubectl.apply(volumes)
    for name, keys in {
        "git": {"username": data_server.USER, "password": data_server.PASSWORD},
        "store": {"AWS_ACCESS_KEY_ID": data_server.KEY, "AWS_SECRET_ACCESS_KEY": data_server.SECRET_KEY},
        "hub": {"token": "s3cret"},
    }.items():
        kubectl("create", "secret", "generic", name, *(f"--from-literal={k}={v}" for k, v in keys.items()), where)
    kubectl("create", "configmap", "settings", "--from-literal=a.yaml=rate", where)
    program = {
        "name": "data",
        "image": _IMAGE,
        "command": ["python3", "-c", Path(data_server.__file__).read_text()],
        "env": [{"name": "FOLDER", "value": "/served"}],
        "volumeMounts": [{"name": "served", "mountPath": "/served"}],
        "readinessProbe": {"tcpSocket": {"port": data_server.PORT}, "periodSeconds": 1},
    }
    served = {"name": "served", "hostPath": {"path": str(shared / "served")}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "data"}}
    kubectl.apply([{**pod, "spec": {"containers": [program], "volumes": [served]}}], where)
    kubectl("wait", "pod/data", "--for=condition=Ready", "--timeout=170s", where)
    found = kubectl.get("pod", "data", namespace)
    assert found
    try:
        yield Data(f"http://{found['status']['podIP']}:{data_server.PORT}", namespace)
    finally:
        for volume in volumes:
            kubectl("delete", "persistentvolume", volume["metadata"]["name"], "--wait=false")
        names = ("secret/git", "secret/store", "secret/hub", "configmap/settings", "pod/data")
        kubectl("delete", *names, where, "--ignore-not-found", "--grace-period=1")
