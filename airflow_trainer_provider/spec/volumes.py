"""The volumes of a job's pods: storage, configuration, and data that is available when the training starts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from airflow_trainer_provider.errors import Problem
from airflow_trainer_provider.spec.values.base import SpecModel, all_wrong, wrong
from airflow_trainer_provider.spec.values.paths import AbsolutePath, RelativePath, is_within
from airflow_trainer_provider.spec.values.words import Text, rendered_hint
from airflow_trainer_provider.spec.volume_sources import (
    S3,
    ClaimName,
    EmptyDir,
    Git,
    KeysAsFiles,
    NewClaim,
    Nfs,
    NodePath,
    mapping_like,
)

#: The sources, in the order in which errors and docs name them.
SOURCES = ("claim", "new_claim", "empty_dir", "host_path", "nfs", "config_map", "secret", "git", "s3")
#: The prefix of the names of the provider's own volumes.
RESERVED_NAME = "trainer-"
#: More volumes than a pod needs.
_MOST_VOLUMES = 100
#: A volume's name is part of the name of a container, which has at most 63 characters.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_LONGEST_SLUG = 32
#: Paths that containers need: nothing may be mounted at the first two, and nothing at or below the others.
_TAKEN, _CLOSED = ("/", "/dev"), ("/proc", "/sys")


def _mount_path(value: str) -> str:
    if value in _TAKEN or any(is_within(value, folder) for folder in _CLOSED) or ":" in value:
        allowed = "an absolute path without ':', other than /, /dev, /proc and /sys"
        raise wrong(allowed, "Mount it elsewhere, e.g. at /data.")
    return value


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        allowed = "1 to 40 lowercase letters, digits and '-', beginning and ending with a letter or digit"
        raise wrong(allowed, "Rename it.")
    if value.startswith(RESERVED_NAME):
        raise wrong(f"a name that does not begin with {RESERVED_NAME}, as the provider's own do", "Rename it.")
    return value


class Volume(SpecModel):
    """Files, or a device, in the training's container. Exactly one of the sources, ``claim`` to ``s3``, is set.

    :param mount_path: the absolute path at which the training finds the volume.
    :param name: the volume's name in the pod; made from ``mount_path`` if unset. Entries with the same name and the
        same source are one volume, mounted at several paths.
    :param sub_path: the path within the volume that is mounted.
    :param read_only: whether the training has read access only.
    :param claim: the name of an existing PersistentVolumeClaim.
    :param new_claim: a PersistentVolumeClaim that is created with the job.
    :param empty_dir: an empty folder that belongs to the pod.
    :param host_path: a path on the node that the pod runs on.
    :param nfs: a folder of an NFS server.
    :param config_map: a ConfigMap, whose keys become files.
    :param secret: a Secret, whose keys become files.
    :param git: a repository, which an init container clones.
    :param s3: objects of an object store, which an init container copies.
    """

    mount_path: Annotated[AbsolutePath, AfterValidator(_mount_path)]
    name: Annotated[Text, AfterValidator(_name)] | None = None
    sub_path: RelativePath | None = None
    read_only: bool = False
    claim: ClaimName | None = None
    new_claim: Annotated[NewClaim, mapping_like('{"size": "100Gi"}')] | None = None
    empty_dir: Annotated[EmptyDir, mapping_like("{}")] | None = None
    host_path: NodePath | None = None
    nfs: Annotated[Nfs, mapping_like('{"server": "nfs.example", "path": "/sets"}')] | None = None
    config_map: Annotated[KeysAsFiles, mapping_like('{"name": "settings"}')] | None = None
    secret: Annotated[KeysAsFiles, mapping_like('{"name": "hub"}')] | None = None
    git: Annotated[Git, mapping_like('{"repository": "https://git.example/team/train.git"}')] | None = None
    s3: Annotated[S3, mapping_like('{"uri": "s3://bucket/prefix"}')] | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Volume:
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            fix = f"Drop all but one of {', '.join(given)}." if given else "Say where its files come from."
            raise wrong(f"exactly one of {', '.join(SOURCES)}", fix, value=", ".join(given) or None)
        return self

    @model_validator(mode="after")
    def _together(self) -> Volume:
        if self.new_claim and self.new_claim.keep and self.name is None:
            fix = "Set it: jobs find a claim that is kept by this name."
            raise wrong("a name, where new_claim.keep is set", fix, "name", None)
        if self.is_block and (self.sub_path or self.read_only):
            field = "sub_path" if self.sub_path else "read_only"
            raise wrong("no value beside volume_mode Block", "Drop it: a device has none.", field, "a value")
        if self.s3 and self.sub_path:
            fix = "Append it to s3.uri, so that nothing else is copied."
            raise wrong("no value beside s3", fix, "sub_path", self.sub_path)
        return self

    @property
    def source(self) -> str:
        """The name of the source that is set."""
        return next(name for name in SOURCES if getattr(self, name) is not None)

    @property
    def is_block(self) -> bool:
        """Whether the volume is a block device rather than a file system."""
        return self.new_claim is not None and self.new_claim.volume_mode == "Block"

    @property
    def pod_name(self) -> str:
        """The volume's name in the pod: the given one, or one made from the mount path and unique to that path."""
        if self.name is not None:
            return self.name
        path = self.mount_path.strip("/")
        slug = re.sub(r"[^a-z0-9]+", "-", path.lower()).strip("-")
        if slug.startswith(RESERVED_NAME):
            slug = ""
        if slug.replace("-", "/") == path and len(slug) <= _LONGEST_SLUG:
            return slug
        digest = hashlib.sha256(path.encode()).hexdigest()[:6]
        return f"{slug[:_LONGEST_SLUG].strip('-') or 'volume'}-{digest}"


def merged_volumes(base: Sequence[Volume], over: Sequence[Volume]) -> tuple[Volume, ...]:
    """Merge two lists of volumes. For a mount path in both lists the second list's volume is used.

    :param base: e.g. the job's.
    :param over: e.g. a group's.
    """
    paths = {volume.mount_path for volume in over}
    return (*(volume for volume in base if volume.mount_path not in paths), *over)


def _each_path_once(volumes: tuple[Volume, ...]) -> tuple[Volume, ...]:
    first: dict[str, int] = {}
    problems = []
    for at, volume in enumerate(volumes):
        other = first.setdefault(volume.mount_path, at)
        if other != at:
            allowed, fix = f"a path other than that of [{other}]", "Mount one of them elsewhere."
            problems.append(Problem(f"[{at}].mount_path", volume.mount_path, allowed, fix))
    if problems:
        raise all_wrong(problems)
    return volumes


def _list(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return value
    allowed = 'a list of volumes, e.g. [{"mount_path": "/data", "claim": "data"}]'
    hint = rendered_hint(value) if isinstance(value, str) else None
    raise wrong(allowed, hint or "Write a list.", value=type(value).__name__)


#: The volumes of a job, a group or a replica.
Volumes = Annotated[
    tuple[Volume, ...], Field(max_length=_MOST_VOLUMES), BeforeValidator(_list), AfterValidator(_each_path_once)
]
