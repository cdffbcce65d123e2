"""Runs the credential plugin of a kubeconfig's user (``exec``)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_trainer_provider.cluster.answers import NOT_SENT
from airflow_trainer_provider.errors import ApiError, BackendUnavailable

#: How long a plugin may take, in seconds.
_PLUGIN_SECONDS = 60
#: How much of what a failed plugin says is told.
_PLUGIN_WORDS = 500
#: What the library says of a plugin that ends in failure, before the plugin's own words.
_FAILED = "exec: process returned"


@dataclass(frozen=True)
class PluginCredentials:
    """What a plugin gives: a token, or a certificate with its key, or all of them.

    :param expires_at: None where it does not say.
    """

    token: str | None = field(repr=False)
    certificate: str | None = field(repr=False)
    key: str | None = field(repr=False)
    expires_at: datetime | None


async def run_plugin(connection_id: str, plugin: Mapping[str, Any]) -> PluginCredentials:
    """Run a plugin.

    :param connection_id: for errors.
    :param plugin: the ``exec`` entry of the kubeconfig.
    :raises BackendUnavailable: it cannot be started.
    :raises ApiError: without a status: it gave no credentials, and may do so later.
    """
    from kubernetes_asyncio.config.dateutil import parse_rfc3339
    from kubernetes_asyncio.config.exec_provider import ExecProvider
    from kubernetes_asyncio.config.kube_config import ConfigNode

    try:
        status = await asyncio.wait_for(ExecProvider(ConfigNode("exec", dict(plugin))).run(), _PLUGIN_SECONDS)
        expiry = status.get("expirationTimestamp")
        given = PluginCredentials(
            status.get("token"),
            status.get("clientCertificateData"),
            status.get("clientKeyData"),
            parse_rfc3339(expiry) if expiry else None,
        )
    except (FileNotFoundError, PermissionError) as error:
        raise BackendUnavailable(
            f"Connection {connection_id!r}: the kubeconfig's credential plugin {plugin['command']!r} cannot be "
            f"started: {error.strerror}. Each worker and triggerer needs it."
        ) from None
    except asyncio.TimeoutError:
        raise _failed(connection_id, f"it took longer than {_PLUGIN_SECONDS} s") from None
    except Exception as error:
        # The plugin's own words; other errors may quote its output, and with it the token.
        words = str(error)[:_PLUGIN_WORDS] if str(error).startswith(_FAILED) else "it printed no ExecCredential"
        raise _failed(connection_id, words) from None
    if not given.token and not (given.certificate and given.key):
        raise _failed(connection_id, "it gave neither a token nor a certificate with its key")
    return given


def _failed(connection_id: str, words: str) -> ApiError:
    return ApiError(
        f"Connection {connection_id!r}: the kubeconfig's credential plugin gave no credentials: {words}. "
        "Run it by hand as Airflow's user.",
        reason=NOT_SENT,
    )
