"""Reads kubeconfigs: selects one context, and checks its cluster and its user."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.errors import BackendUnavailable
from airflow_trainer_provider.text.secret_values import looks_random

#: Entries whose value is the path of a file, for clusters and for users.
_FILES = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key", "tokenFile")}
#: What separates the words of a path and of a context's name; and the least length of a word that can be a credential.
_NO_WORD = re.compile(r"[^A-Za-z0-9]+")
_LONG_WORD = 12


class Kubeconfig:
    """The kubeconfig of a connection. Errors name the connection, the field and the entry, never a value in it.

    :param connection: names a kubeconfig, or none to use the default one.
    """

    def __init__(self, connection: ClusterConnection) -> None:
        self._connection = connection
        self._texts: list[tuple[Path | None, str]] = []
        self._active: dict[str, Any] = {}

    @property
    def cluster(self) -> dict[str, Any]:
        """The active context's cluster, after :meth:`read`."""
        return dict(self._active["cluster"])

    @property
    def user(self) -> dict[str, Any]:
        """The active context's user, after :meth:`read`."""
        return dict(self._active["user"])

    def read(self) -> None:
        """Read the kubeconfig again.

        :raises BackendUnavailable: it cannot be read, or an entry that is needed is missing or wrong.
        """
        texts = self._read()
        # While the text is unchanged, the parsed kubeconfig is kept, with the tokens that were renewed in it.
        if texts != self._texts:
            self._active = self._select(self._merged(texts))
            self._texts = texts
        self._check_files()

    def single(self, folder: Path) -> dict[str, Any]:
        """A kubeconfig with the active context only, and with paths of files instead of base64 data.

        :param folder: where the files are written; private keys are among them.
        :raises BackendUnavailable: data that is not base64.
        """
        cluster = self._with_files("cluster", folder)
        user = self._with_files("user", folder)
        # The library's loader writes renewed tokens into this dictionary: it has to be the one that is kept here.
        if "auth-provider" in user:
            user["auth-provider"] = self._active["user"]["auth-provider"]
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "active", "cluster": cluster}],
            "users": [{"name": "active", "user": user}],
            "contexts": [{"name": "active", "context": {"cluster": "active", "user": "active"}}],
            "current-context": "active",
        }

    @property
    def _field(self) -> str:
        """The field of the connection that the kubeconfig comes from, as errors name it."""
        if self._connection.kube_config is not None:
            return "kube_config"
        return "kube_config_path" if self._connection.kube_config_path is not None else "the default kubeconfig"

    def _read(self) -> list[tuple[Path | None, str]]:
        if self._connection.kube_config is not None:
            return [(None, self._connection.kube_config)]
        if self._connection.kube_config_path is not None:
            paths = [Path(self._connection.kube_config_path).expanduser()]
        else:
            paths = [path for path in default_paths() if path.exists()]
        if not paths:
            looked = " and ".join(str(path) for path in default_paths())
            raise self._wrong(
                f"no way to a cluster is given, this process runs in no pod, and there is no kubeconfig at {looked}",
                "Set in_cluster, kube_config_path or kube_config in the connection",
            )
        try:
            return [(path.absolute(), path.read_text()) for path in paths]
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            name = _shown(str(getattr(error, "filename", None) or paths[0]))
            raise self._wrong(
                f"{self._field}: cannot read {name}: {reason}",
                "Each worker and triggerer needs the file, readable to Airflow's user",
            ) from None

    def _merged(self, texts: list[tuple[Path | None, str]]) -> dict[str, Any]:
        """Several kubeconfigs as one. As with kubectl, the first one that names something wins."""
        merged: dict[str, Any] = {"clusters": [], "users": [], "contexts": []}
        for path, text in texts:
            document = self._parsed(text)
            merged.setdefault("current-context", document.get("current-context"))
            for part, entry in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
                merged[part] += [self._named(item, part, entry, path) for item in document.get(part) or []]
        return merged

    def _named(self, item: Any, part: str, entry: str, path: Path | None) -> tuple[Any, dict[str, Any]]:
        """The name and the value of an entry of a kubeconfig.

        :param path: of the kubeconfig, where it is a file.
        """
        if not isinstance(item, Mapping) or not isinstance(item.get(entry) or {}, Mapping):
            raise self._wrong(f"{self._field}: an entry of {part} is not an object", "Correct it")
        value = dict(item.get(entry) or {})
        if path is not None:
            _absolute(value, path.parent)
        return item.get("name"), value

    def _parsed(self, text: str) -> Mapping[str, Any]:
        try:
            document = yaml.safe_load(text)
        except yaml.YAMLError:
            # The parser's message quotes the text, and with it credentials.
            document = None
        if not isinstance(document, Mapping):
            raise self._wrong(f"{self._field}: it is neither a JSON nor a YAML object", "Put a whole kubeconfig there")
        return document

    def _select(self, merged: dict[str, Any]) -> dict[str, Any]:
        wanted, context = self._selected_context(merged)
        cluster = self._part_of(merged, wanted, context, "cluster")
        user = self._part_of(merged, wanted, context, "user") if context.get("user") else {}
        if not isinstance(cluster.get("server"), str):
            raise self._wrong(f"{self._field}: cluster {context.get('cluster')!r} has no server", "Correct it")
        self._check_impersonation(user)
        self._check_commands(user)
        return {"cluster": cluster, "user": user}

    def _selected_context(self, merged: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The name of the context to use, and the context."""
        wanted = self._connection.cluster_context or merged["current-context"]
        source = "cluster_context" if self._connection.cluster_context else f"{self._field}: current-context"
        names = ", ".join(repr(name) for name, _ in merged["contexts"]) or "none"
        if not wanted:
            raise self._wrong(f"{source} is not set; contexts: {names}", "Name one of them in cluster_context")
        context = _first(merged["contexts"], wanted)
        if context is None:
            raise self._wrong(
                f"{source}: there is no context {_shown(wanted)!r} in the kubeconfig; contexts: {names}",
                "Name one of them in cluster_context",
            )
        return wanted, context

    def _part_of(self, merged: dict[str, Any], wanted: str, context: dict[str, Any], part: str) -> dict[str, Any]:
        """The cluster or the user of a context.

        :param wanted: the context's name.
        """
        name = context.get(part)
        found = _first(merged[f"{part}s"], name)
        if found is None:
            raise self._wrong(
                f"{self._field}: context {wanted!r} names {part} {name!r}, which is not there", "Correct it"
            )
        return found

    def _check_impersonation(self, user: dict[str, Any]) -> None:
        groups, extra = user.get("as-groups") or [], user.get("as-user-extra") or {}
        if not isinstance(groups, list):
            raise self._wrong(f"{self._field}: the user's as-groups is no list", "Correct it")
        if not isinstance(extra, Mapping) or not all(isinstance(values, list) for values in extra.values()):
            raise self._wrong(f"{self._field}: the user's as-user-extra does not map names to lists", "Correct it")
        lone = next((key for key in ("as-uid", "as-groups", "as-user-extra") if user.get(key)), None)
        if lone and not user.get("as"):
            raise self._wrong(f"{self._field}: the user has {lone}, and no user to act as (as)", "Add it")

    def _check_commands(self, user: dict[str, Any]) -> None:
        provider = user.get("auth-provider") or {}
        if "cmd-path" in (provider.get("config") or {}):
            raise self._wrong(
                f"{self._field}: the user's auth-provider runs a command, which kubectl does not do any more either",
                "Use a credential plugin (exec) such as gke-gcloud-auth-plugin",
            )
        plugin = user.get("exec") or {}
        for key in ("command", "apiVersion") if plugin else ():
            if not plugin.get(key):
                raise self._wrong(f"{self._field}: the credential plugin (exec) has no {key}", "Correct it")
        for each in plugin.get("env") or ():
            if not isinstance(each, Mapping) or not {"name", "value"} <= each.keys():
                what = f"{self._field}: the credential plugin's env (exec) has an entry without name and value"
                raise self._wrong(what, "Correct it")

    def _check_files(self) -> None:
        for part, keys in _FILES.items():
            for key in keys:
                path = self._active[part].get(key)
                if path is not None and f"{key}-data" not in self._active[part] and not os.access(path, os.R_OK):
                    raise self._wrong(
                        f"{self._field}: {key} names {path}, which cannot be read",
                        "Each worker and triggerer needs the file; or put its content into the kubeconfig, as "
                        f"{'token' if key == 'tokenFile' else f'{key}-data'}",
                    )

    def _with_files(self, part: str, folder: Path) -> dict[str, Any]:
        values = dict(self._active[part])
        for key in _FILES[part]:
            data = values.pop(f"{key}-data", None)
            if data is None:
                continue
            try:
                content = base64.b64decode(data, validate=True)
            except (binascii.Error, TypeError, ValueError):
                raise self._wrong(f"{self._field}: {key}-data is not base64", "Correct it") from None
            values[key] = str(folder / key)
            (folder / key).write_bytes(content)
        return values

    def _wrong(self, what: str, way_out: str) -> BackendUnavailable:
        return BackendUnavailable(f"Connection {self._connection.id!r}: {what}. {way_out}.")


def _shown(name: str) -> str:
    """The name of a file or of a context, for an error message; only its length where it may be a credential in the
    wrong field.

    A credential has long words that look random. The names that clouds give to contexts consist of short words.
    """
    is_credential = any(len(word) >= _LONG_WORD and looks_random(word) for word in _NO_WORD.split(name))
    return f"a text of {len(name)} characters" if is_credential else name


def default_paths() -> list[Path]:
    """The kubeconfigs that are used by default: those of ``$KUBECONFIG``, else ``~/.kube/config``."""
    named = [Path(path).expanduser() for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return named or [Path.home() / ".kube" / "config"]


def _absolute(values: dict[str, Any], folder: Path) -> None:
    """Make the paths in an entry absolute: paths in a kubeconfig are relative to its folder."""
    for key in (*_FILES["cluster"], *_FILES["user"]):
        if isinstance(values.get(key), str):
            values[key] = os.path.normpath(folder / values[key])
    plugin = values.get("exec")
    # As with kubectl: a bare name is looked for on the PATH.
    if isinstance(plugin, Mapping) and os.sep in str(plugin.get("command", "")):
        values["exec"] = {**plugin, "command": os.path.normpath(folder / str(plugin["command"]))}


def _first(items: list[tuple[str, dict[str, Any]]], name: Any) -> dict[str, Any] | None:
    return next((value for known, value in items if known == name), None)
