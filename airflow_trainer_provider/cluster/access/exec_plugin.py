"""Runs the credential plugin of a kubeconfig's user (``exec``).

A plugin runs in each process that connects to the cluster, including Airflow's scheduler and API server. It gets only
the environment variables that it needs: the others hold Airflow's own secrets.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import Any

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.answers import NOT_SENT
from airflow_trainer_provider.errors import ApiError, BackendUnavailable
from airflow_trainer_provider.text.redaction import redacted
from airflow_trainer_provider.timeouts import with_timeout

#: How long a plugin may take, in seconds.
_PLUGIN_SECONDS = 60
#: How long a killed plugin may take to exit, in seconds.
_KILLED_SECONDS = 1
#: How many characters of a failed plugin's output the error shows.
_PLUGIN_WORDS = 500
#: Variables that programs need to run at all, to speak to a user, and to reach the network.
_NAMES = frozenset(
    [
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP"),
        *("LD_LIBRARY_PATH", "KUBECONFIG"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        # For the plugins of GKE and AKS, in addition to those with the prefixes below.
        *("USE_GKE_GCLOUD_AUTH_PLUGIN", "ARM_TENANT_ID", "IDENTITY_ENDPOINT", "IDENTITY_HEADER"),
        *("IDENTITY_SERVER_THUMBPRINT", "IMDS_ENDPOINT", "MSI_ENDPOINT", "MSI_SECRET"),
    ]
)
#: Prefixes of the variables that clouds document for their plugins.
_PREFIXES = (
    *("LC_", "XDG_"),
    # aws, aws-iam-authenticator
    "AWS_",
    # kubelogin, az
    *("AZURE_", "AAD_", "ARM_CLIENT_"),
    # gke-gcloud-auth-plugin, gcloud
    *("GOOGLE_", "CLOUDSDK_", "GCE_METADATA_"),
    # oci, doctl, ibmcloud, ack-ram-authenticator
    *("OCI_", "DIGITALOCEAN_", "IBMCLOUD_", "ALIBABA_CLOUD_"),
)


@dataclass(frozen=True)
class PluginCredentials:
    """The credentials that a plugin prints: a token, or a certificate with its key, or all of them.

    :param expires_at: None where the plugin does not say.
    """

    token: str | None = field(repr=False)
    certificate: str | None = field(repr=False)
    key: str | None = field(repr=False)
    expires_at: datetime | None


async def run_plugin(connection: ClusterConnection, plugin: Mapping[str, Any]) -> PluginCredentials:
    """Run a credential plugin.

    :param connection: whose kubeconfig names it.
    :param plugin: the ``exec`` entry of the kubeconfig.
    :raises BackendUnavailable: the plugin cannot be started.
    :raises ApiError: without a status: the plugin gave no credentials; a later run may give some.
    """
    # In a thread: the library takes some tenths of a second to import, and would block the event loop.
    dateutil = await asyncio.to_thread(import_module, "kubernetes_asyncio.config.dateutil")
    env = plugin_environment(os.environ, plugin, connection.plugin_env)
    try:
        code, output, words = await with_timeout(_run(plugin, env), _PLUGIN_SECONDS)
    except asyncio.TimeoutError:
        raise _failed(connection, f"it took longer than {_PLUGIN_SECONDS} s") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its arguments and variables are none that a program can have"
        raise BackendUnavailable(
            f"Connection {connection.id!r}: the kubeconfig's credential plugin {plugin['command']!r} cannot be "
            f"started: {why}. Each worker and triggerer needs it."
        ) from None
    if code != 0:
        raise _failed(connection, f"it ended with exit code {code}: {_without_secrets(words, env)[:_PLUGIN_WORDS]}")
    try:
        # The errors below are not shown: they may quote the output, and with it the token.
        answer: dict[str, Any] = json.loads(output)
        status = {plugin["apiVersion"]: answer["status"]}[answer["apiVersion"]]
        expiry = status.get("expirationTimestamp")
        given = PluginCredentials(
            status.get("token"),
            status.get("clientCertificateData"),
            status.get("clientKeyData"),
            dateutil.parse_rfc3339(expiry) if expiry else None,
        )
    except Exception:
        raise _failed(connection, f"it printed no ExecCredential of {plugin['apiVersion']}") from None
    if not given.token and not (given.certificate and given.key):
        raise _failed(connection, "it gave neither a token nor a certificate with its key")
    return given


def plugin_environment(
    environment: Mapping[str, str], plugin: Mapping[str, Any], names: Sequence[str]
) -> dict[str, str]:
    """The environment of a plugin.

    :param environment: of this process.
    :param plugin: the ``exec`` entry of the kubeconfig; its ``env`` wins.
    :param names: of further variables that the plugin gets.
    """
    kept = {
        name: value
        for name, value in environment.items()
        if name in _NAMES or name in names or name.startswith(_PREFIXES)
    }
    given = {str(each["name"]): str(each["value"]) for each in plugin.get("env") or ()}
    # The plugin runs without a terminal, and cannot prompt a user.
    info = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    return {**kept, **given, "KUBERNETES_EXEC_INFO": json.dumps(info)}


async def _run(plugin: Mapping[str, Any], env: Mapping[str, str]) -> tuple[int | None, bytes, str]:
    """Run the plugin, and return its exit code, its output and the text that it wrote to stderr."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            str(plugin["command"]),
            *map(str, plugin.get("args") or ()),
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # A process group of its own, so that the plugin is killed together with the processes that it started.
            start_new_session=True,
        )
    )
    try:
        # A start that is cancelled half way would leave the process behind.
        process = await asyncio.shield(starting)
        output, words = await process.communicate()
    except BaseException:
        process = await asyncio.shield(starting)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(asyncio.TimeoutError):
            await with_timeout(process.wait(), _KILLED_SECONDS)
        raise
    return process.returncode, output, words.decode("utf-8", "replace").strip()


def _without_secrets(words: str, env: Mapping[str, str]) -> str:
    secrets = [value for name, value in env.items() if len(value) > 3 and redacted({name: value})[name] != value]
    # The longest first: one secret may be the beginning of another.
    for secret in sorted(secrets, key=len, reverse=True):
        words = words.replace(secret, "***")
    return words


def _failed(connection: ClusterConnection, words: str) -> ApiError:
    return ApiError(
        f"Connection {connection.id!r}: the kubeconfig's credential plugin gave no credentials: {words}. "
        "Run it by hand as Airflow's user.",
        reason=NOT_SENT,
    )
