"""Where the files of a volume come from. A volume names exactly one source."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from airflow_trainer_provider.spec.compute import Memory
from airflow_trainer_provider.spec.validation import choice
from airflow_trainer_provider.spec.values.base import SpecModel, all_wrong, wrong
from airflow_trainer_provider.spec.values.names import ObjectName
from airflow_trainer_provider.spec.values.paths import AbsolutePath, RelativePath
from airflow_trainer_provider.spec.values.words import Text, rendered_hint

#: The abbreviations of the access modes that ``kubectl get`` shows.
_ACCESS_MODES = {
    "RWO": "ReadWriteOnce",
    "ROX": "ReadOnlyMany",
    "RWX": "ReadWriteMany",
    "RWOP": "ReadWriteOncePod",
}
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
#: One word that git does not read as an option.
_REVISION = re.compile(r"[^-\s\x00-\x1f\x7f][^\s\x00-\x1f\x7f]{0,254}")
#: The address format that git accepts for ssh in addition to URLs: git@host:group/repository.git.
_SCP = re.compile(r"\w[\w.-]*(?:@\w[\w.-]*)?:(?!//)[^\s\x00-\x1f\x7f]+")
_REPOSITORY_SCHEMES = ("https", "http", "ssh", "git")
_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9](?:/[^\x00-\x1f\x7f]*)?")
_HOST = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.:]*[A-Za-z0-9])?")
_IN_A_SECRET = "Put the password into a Secret, and name that in secret_name."


def mapping_like(example: str) -> BeforeValidator:
    """Refuse any value but a mapping, with an example in the error.

    :param example: a valid mapping, as the user writes it.
    """

    def check(value: Any) -> Any:
        if isinstance(value, (Mapping, SpecModel)):
            return value
        hint = rendered_hint(value) if isinstance(value, str) else None
        raise wrong(f"a mapping, e.g. {example}", hint or "Write a mapping of its fields.", value=type(value).__name__)

    return BeforeValidator(check)


def _scalar(what: str) -> BeforeValidator:
    """Refuse the mapping that Kubernetes uses for a field that is plain text in this spec."""

    def check(value: Any) -> Any:
        if isinstance(value, Mapping):
            raise wrong(f"{what} alone", f"Write {what} itself.", value="dict")
        return value

    return BeforeValidator(check)


def _access_mode(value: Any) -> Any:
    words = list(_ACCESS_MODES.values())
    if value in words:
        return value
    if not isinstance(value, str):
        raise wrong(", ".join(words), "Use one of these.", value=type(value).__name__)
    long = _ACCESS_MODES.get(value.upper())
    otherwise = f"Write {long!r}." if long else "Use one of these."
    raise all_wrong([choice("", value[:63], words, otherwise)])


AccessMode = Annotated[str, BeforeValidator(_access_mode)]


class NewClaim(SpecModel):
    """A PersistentVolumeClaim that is created with the job.

    :param size: the requested size, e.g. ``"100Gi"``.
    :param storage_class: the StorageClass; None uses the cluster's default.
    :param access_modes: one or more of ``ReadWriteOnce``, ``ReadOnlyMany`` and ``ReadWriteMany``, or
        ``ReadWriteOncePod`` alone.
    :param volume_mode: ``Filesystem``; or ``Block``, with the device at the volume's ``mount_path``.
    :param keep: False deletes the claim together with the job's object. True keeps it under the volume's ``name``, and
        later jobs of the namespace with the same claim use it again.
    """

    size: Memory
    storage_class: ObjectName | None = None
    access_modes: Annotated[tuple[AccessMode, ...], Field(max_length=4)] = ("ReadWriteOnce",)
    volume_mode: Literal["Filesystem", "Block"] = "Filesystem"
    keep: bool = False

    @model_validator(mode="after")
    def _modes_together(self) -> NewClaim:
        if not self.access_modes:
            raise wrong("at least one mode", "Name one, or drop access_modes.", "access_modes", "an empty list")
        twice = next((mode for mode, count in Counter(self.access_modes).items() if count > 1), None)
        if twice:
            raise wrong("each mode once", f"Drop one {twice}.", "access_modes", twice)
        if "ReadWriteOncePod" in self.access_modes and len(self.access_modes) > 1:
            allowed = "no other mode beside ReadWriteOncePod"
            raise wrong(allowed, "Drop it, or the others.", "access_modes", ", ".join(self.access_modes))
        return self


class EmptyDir(SpecModel):
    """A folder that belongs to the pod. It is empty when the pod starts, and is deleted with the pod.

    :param medium: ``disk``, the node's disk; or ``memory``, which counts against the container's memory limit.
    :param size: the maximum size; a pod that writes more to the disk is evicted.
    """

    medium: Literal["disk", "memory"] = "disk"
    size: Memory | None = None


class Nfs(SpecModel):
    """A folder that an NFS server exports.

    :param server: the server's host name or address.
    :param path: the exported path.
    """

    server: Annotated[Text, Field(max_length=253)]
    path: AbsolutePath

    @model_validator(mode="after")
    def _host(self) -> Nfs:
        if not _HOST.fullmatch(self.server):
            raise wrong("a host name or an address", "Write the host alone.", "server", self.server)
        return self


def _key(value: str) -> str:
    if not _KEY.fullmatch(value):
        raise wrong("1 to 253 letters, digits, '-', '_' and '.'", "Write a key of the object's data.")
    return value


class Item(SpecModel):
    """A key of a ConfigMap or a Secret that is mounted as a file.

    :param key: the key.
    :param path: the file's path below the mount path; the key itself if unset.
    """

    key: Annotated[Text, AfterValidator(_key)]
    path: RelativePath | None = None


class KeysAsFiles(SpecModel):
    """A ConfigMap or a Secret, whose keys become files.

    :param name: the object's name, in the job's namespace.
    :param items: the keys to mount; None mounts all keys.
    """

    name: ObjectName
    items: Annotated[tuple[Item, ...], Field(max_length=1000)] | None = None

    @model_validator(mode="after")
    def _some_items(self) -> KeysAsFiles:
        if self.items == ():
            raise wrong("at least one key", "Name one, or drop items to take all.", "items", "an empty list")
        return self


def _repository(value: str) -> str:
    allowed = "an https://, http://, ssh:// or git:// URL, or user@host:path"
    url = _split(value)
    if url is None or url.scheme not in _REPOSITORY_SCHEMES:
        if _SCP.fullmatch(value) and "://" not in value:
            return value
        raise wrong(allowed, "Correct the repository's address.")
    if url.password is not None or (url.username and url.scheme.startswith("http")):
        raise wrong("a URL without a user and a password", _IN_A_SECRET, value="a URL with a user")
    if not _has_host(url) or not url.path.strip("/") or re.search(r"[\s\x00-\x1f\x7f]", value):
        raise wrong(allowed, "Correct the repository's address.")
    return value


def _revision(value: str) -> str:
    if not _REVISION.fullmatch(value):
        raise wrong("the name of a branch or a tag, or the id of a commit", "Write the name alone.")
    return value


class Git(SpecModel):
    """A repository that an init container clones before the training starts.

    :param repository: the repository's address: a URL, or ``user@host:path``.
    :param revision: a branch, a tag, or the ID of a commit; the repository's default branch if unset.
    :param secret_name: the Secret with ``username`` and ``password``, or with ``ssh-privatekey`` and optionally
        ``known_hosts``; None for a public repository.
    :param image: the image of the init container, with ``sh`` and ``git``, and with ``ssh`` for an ssh address. None
        uses ``[trainer] git_image``.
    """

    repository: Annotated[Text, AfterValidator(_repository)]
    revision: Annotated[Text, AfterValidator(_revision)] | None = None
    secret_name: ObjectName | None = None
    image: Text | None = None


def _uri(value: str) -> str:
    if not _BUCKET.fullmatch(value):
        raise wrong("s3://BUCKET, or s3://BUCKET/PREFIX", "Correct the address of the bucket.")
    return value.rstrip("/")


def _endpoint(value: str) -> str:
    url = _split(value)
    if url is None or url.scheme not in ("http", "https") or not _has_host(url):
        raise wrong("an http:// or https:// URL", "Write the address of the object store.")
    if url.username is not None or url.password is not None:
        raise wrong("a URL without a user and a password", _IN_A_SECRET, value="a URL with a user")
    return value


class S3(SpecModel):
    """Objects of an object store, which an init container copies before the training starts.

    :param uri: ``s3://BUCKET/PREFIX``; all objects below the prefix are copied.
    :param endpoint: the URL of the object store; None means Amazon S3.
    :param region: the bucket's region.
    :param secret_name: the Secret with ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``; None for a public bucket.
    :param image: the image of the init container, with ``sh`` and ``rclone``. None uses ``[trainer] s3_image``.
    """

    uri: Annotated[Text, AfterValidator(_uri)]
    endpoint: Annotated[Text, AfterValidator(_endpoint)] | None = None
    region: Annotated[Text, AfterValidator(_key)] | None = None
    secret_name: ObjectName | None = None
    image: Text | None = None


def _split(text: str) -> Any:
    """The parts of a URL; None for text that is not a URL."""
    try:
        url = urlsplit(text)
        url.port  # noqa: B018
    except ValueError:
        return None
    return url


def _has_host(url: Any) -> bool:
    return bool(url.hostname) and _HOST.fullmatch(url.hostname.strip("[]")) is not None


#: The name of a PersistentVolumeClaim, and a path on the node.
ClaimName = Annotated[ObjectName, _scalar("the claim's name")]
NodePath = Annotated[AbsolutePath, _scalar("the node's path")]
