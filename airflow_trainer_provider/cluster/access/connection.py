"""How a cluster is reached: the fields of Airflow's ``kubernetes`` connection type, checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_trainer_provider.errors import BackendUnavailable
from airflow_trainer_provider.spec.values.names import is_label
from airflow_trainer_provider.text.secret_values import looks_random

#: The prefix that older versions of Airflow put before the name of each field.
_PREFIX = "extra__kubernetes__"
#: The longest value that an error shows, in characters.
_LONGEST_WORD = 32
_BOOLEANS = {"true": True, "false": False, "": False}


@dataclass(frozen=True)
class ClusterConnection:
    """The fields of a ``kubernetes`` connection, as Airflow's own hook understands them.

    At most one of ``in_cluster``, ``kube_config_path`` and ``kube_config`` may be set. If none is set, the service
    account of the pod that this process runs in is used, and outside a cluster the default kubeconfig.

    :param id: the connection's id.
    :param in_cluster: use the service account of the pod that this process runs in.
    :param kube_config_path: path of a kubeconfig.
    :param kube_config: the text of a kubeconfig, as JSON or YAML.
    :param namespace: of the jobs, unless the operator names another one; None where the connection names none.
    :param cluster_context: context of the kubeconfig; None for its current one.
    :param disable_verify_ssl: accept any certificate.
    :param disable_tcp_keepalive: do not probe idle connections.
    :param plugin_env: names of environment variables that credential plugins get, in addition to those that they always
        get.
    """

    id: str
    in_cluster: bool = False
    kube_config_path: str | None = None
    kube_config: str | None = field(default=None, repr=False)
    namespace: str | None = None
    cluster_context: str | None = None
    disable_verify_ssl: bool = False
    disable_tcp_keepalive: bool = False
    plugin_env: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        ways = ("in_cluster", "kube_config_path", "kube_config")
        given = [name for name in ways if getattr(self, name)]
        if len(given) > 1:
            raise BackendUnavailable(
                f"Connection {self.id!r} gives {' and '.join(given)}: each is a way to the cluster, and only one can "
                f"be taken. Leave one of {', '.join(ways)}, or none for the pod's own service account or the default "
                "kubeconfig."
            )

    @classmethod
    def from_extra(
        cls, connection_id: str, extra: Mapping[str, Any], plugin_env: tuple[str, ...] = ()
    ) -> ClusterConnection:
        """Read the fields.

        :param connection_id: the connection's id.
        :param extra: the connection's extra fields; those that do not say how to reach a cluster are ignored.
        :param plugin_env: as for this class; it is no field of a connection.
        :raises BackendUnavailable: a field has a value that is not allowed, or more than one way to the cluster is
            given.
        """
        fields = _Fields(connection_id, extra)
        return cls(
            id=connection_id,
            in_cluster=fields.boolean("in_cluster"),
            kube_config_path=fields.text("kube_config_path"),
            kube_config=fields.document("kube_config"),
            namespace=fields.namespace("namespace"),
            cluster_context=fields.text("cluster_context"),
            disable_verify_ssl=fields.boolean("disable_verify_ssl"),
            disable_tcp_keepalive=fields.boolean("disable_tcp_keepalive"),
            plugin_env=plugin_env,
        )


class _Fields:
    def __init__(self, connection_id: str, extra: Mapping[str, Any]) -> None:
        self._id = connection_id
        self._extra = extra

    def boolean(self, name: str) -> bool:
        value = self._get(name)
        found = _BOOLEANS.get(str(value if value is not None else "").strip().lower())
        if found is None:
            raise self._wrong(name, value, "true or false")
        return found

    def text(self, name: str) -> str | None:
        value = self._get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, value, "text")
        text = (value or "").strip()
        if _is_document(text):
            raise self._wrong(name, text, "one line; a kubeconfig's text belongs in kube_config")
        return text or None

    def namespace(self, name: str) -> str | None:
        value = self.text(name)
        if value is not None and not is_label(value):
            raise self._wrong(name, value, "the name of a namespace: lowercase letters, digits and '-'")
        return value

    def document(self, name: str) -> str | None:
        # Its content is never shown: it holds credentials.
        value = self._get(name)
        if isinstance(value, Mapping):
            return json.dumps(value) if value else None
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, f"a {type(value).__name__}", "a kubeconfig as a JSON object, or as text")
        return (value or "").strip() or None

    def _get(self, name: str) -> Any:
        return self._extra.get(name, self._extra.get(_PREFIX + name))

    def _wrong(self, name: str, value: Any, allowed: str) -> BackendUnavailable:
        return BackendUnavailable(
            f"Connection {self._id!r}: field {name} is {_shown(value)!r}; allowed: {allowed}. Correct the connection."
        )


def _is_document(text: str) -> bool:
    return "\n" in text or text.startswith("{")


def _shown(value: Any) -> Any:
    """A field's value for an error message. A value that may be a kubeconfig or a credential in the wrong field is
    described, not shown.
    """
    if isinstance(value, list):
        return [_shown(each) for each in value]
    if isinstance(value, Mapping):
        return f"a {type(value).__name__}"
    if isinstance(value, str) and (_is_document(value) or len(value) > _LONGEST_WORD or looks_random(value)):
        return f"a text of {len(value)} characters"
    return value
