"""Addresses, certificates and tokens of a connection, renewed when they expire."""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from multidict import CIMultiDict
from yarl import URL

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.access.exec_plugin import PluginCredentials, run_plugin
from airflow_trainer_provider.cluster.access.kubeconfig import Kubeconfig
from airflow_trainer_provider.cluster.answers import NOT_SENT
from airflow_trainer_provider.errors import ApiError, BackendUnavailable

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration

#: How often tokens in files are read again, in seconds. The kubelet renews them long before they expire.
_FILE_SECONDS = 60
#: How long before a plugin's token expires it is renewed, in seconds; at most a fifth of its remaining lifetime.
_MARGIN = 60
#: Characters that a header's name may contain, in addition to letters, digits and those that ``quote`` never escapes.
_IN_HEADERS = "!#$&'*+^`|"


class Address(NamedTuple):
    """The address of an API server. Equal addresses mean the same cluster.

    :param server: URL of the API server, normalized.
    :param server_name: the name in the server's certificate, where it is not the host of the URL.
    :param proxy: URL of the proxy, without user and password; None for no proxy.
    """

    server: str
    server_name: str | None
    proxy: str | None

    @classmethod
    def of(cls, server: str, server_name: str | None, proxy: str | None) -> Address:
        """The address, normalized.

        :param proxy: URL of the proxy, with or without user and password.
        """
        url = URL(server)
        path = url.path.rstrip("/")
        return cls(f"{url.origin()}{path}", server_name, str(URL(proxy).origin()) if proxy else None)

    def __str__(self) -> str:
        name = f" ({self.server_name})" if self.server_name else ""
        return f"{self.server}{name}" + (f" through {self.proxy}" if self.proxy else "")


@dataclass(frozen=True)
class Credentials:
    """What a request to the API server is sent with.

    :param server: URL of the API server, without a slash at the end.
    :param headers: the headers that authenticate us; some names occur more than once.
    :param tls: the trusted authorities and the client certificate; None without TLS.
    :param identity: a digest that changes when the address or the content of ``tls`` changes.
    :param proxy: URL of a proxy; None for the one that the environment names, if any.
    :param server_name: the name in the server's certificate, where it is not the host of the URL.
    :param renew_at: when to load the credentials again, by the monotonic clock; None loads them again only after they
        are refused.
    """

    server: str
    headers: CIMultiDict[str] = field(repr=False)
    tls: ssl.SSLContext | None
    identity: str
    proxy: str | None = field(repr=False)
    server_name: str | None
    renew_at: float | None

    @property
    def address(self) -> Address:
        """The API server that these credentials are sent to."""
        return Address.of(self.server, self.server_name, self.proxy)

    def are(self, others: Credentials) -> bool:
        """Whether these credentials equal others, whenever each was loaded."""
        return self.headers == others.headers and self.identity == others.identity

    def trust_the_same(self, others: Credentials) -> bool:
        """Whether these credentials trust the same API servers as others, and use the same client certificate."""
        return self.identity == others.identity


class CredentialSource:
    """Loads the credentials of a connection, as often as needed.

    :param connection: how to reach the cluster.
    """

    def __init__(self, connection: ClusterConnection) -> None:
        self._connection = connection
        self._kubeconfig = Kubeconfig(connection)

    async def load(self) -> Credentials:
        """The credentials as they are now.

        :raises BackendUnavailable: the connection cannot be used.
        :raises ApiError: without a status: its credential plugin failed.
        """
        if await asyncio.to_thread(self._is_in_pod):
            return await asyncio.to_thread(self._from_service_account)
        return await self._from_kubeconfig()

    async def address(self) -> Address:
        """The address of the API server that the connection leads to now. No credential plugin is run.

        :raises BackendUnavailable: the connection cannot be used.
        """
        if await asyncio.to_thread(self._is_in_pod):
            return (await self.load()).address
        await asyncio.to_thread(self._kubeconfig.read)
        cluster = self._kubeconfig.cluster
        return Address.of(cluster["server"], cluster.get("tls-server-name"), cluster.get("proxy-url"))

    def _is_in_pod(self) -> bool:
        # Called in a thread: the library takes some tenths of a second to import.
        is_silent = self._connection.kube_config is None and self._connection.kube_config_path is None
        return self._connection.in_cluster or (is_silent and _runs_in_a_pod())

    def _from_service_account(self) -> Credentials:
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config import ConfigException, load_incluster_config

        configuration = Configuration()
        try:
            load: Callable[..., None] = load_incluster_config
            load(client_configuration=configuration, try_refresh_token=False)
        except (ConfigException, OSError) as error:
            raise BackendUnavailable(
                f"Connection {self._connection.id!r}: there is no service account of a pod: {error} Run this in a pod "
                "whose service account token is mounted, or name a kubeconfig instead of in_cluster."
            ) from None
        return self._credentials(configuration, {}, time.monotonic() + _FILE_SECONDS)

    async def _from_kubeconfig(self) -> Credentials:
        await asyncio.to_thread(self._kubeconfig.read)
        plugin = self._kubeconfig.user.get("exec")
        given = await run_plugin(self._connection, plugin) if plugin else None
        # In a thread: the library, the files and the certificates take many milliseconds, and would block the event
        # loop.
        return await asyncio.to_thread(asyncio.run, self._loaded(given))

    async def _loaded(self, given: PluginCredentials | None) -> Credentials:
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config import load_kube_config_from_dict

        user, cluster, configuration = self._kubeconfig.user, self._kubeconfig.cluster, Configuration()
        with tempfile.TemporaryDirectory(prefix="trainer-") as folder:
            single = self._kubeconfig.single(Path(folder))
            if given is not None:
                _put(given, single["users"][0]["user"], Path(folder))
            try:
                await load_kube_config_from_dict(single, client_configuration=configuration)
            except Exception as error:
                raise self._failed(user, error) from None
            # Older versions of the library ignore these two fields.
            configuration.proxy, configuration.tls_server_name = (
                cluster.get("proxy-url"),
                cluster.get("tls-server-name"),
            )
            return self._credentials(configuration, user, _renew_at(user, given.expires_at if given else None))

    def _credentials(self, configuration: Configuration, user: dict[str, Any], renew_at: float | None) -> Credentials:
        headers = _impersonation(user)
        if "BearerToken" in configuration.api_key:
            # A token that was read from a file usually ends with a line break.
            headers["Authorization"] = configuration.api_key["BearerToken"].strip()
        verify = configuration.verify_ssl and not self._connection.disable_verify_ssl
        server = str(configuration.host).rstrip("/")
        try:
            tls = _tls(configuration, verify) if server.startswith("https:") else None
        except (ssl.SSLError, OSError) as error:
            raise self._wrong(
                f"its certificates cannot be used: {error.strerror or 'not in PEM format'}", "Correct the kubeconfig"
            ) from None
        return Credentials(
            server=server,
            headers=headers,
            tls=tls,
            identity=_identity(configuration, verify),
            proxy=configuration.proxy,
            server_name=configuration.tls_server_name,
            renew_at=renew_at,
        )

    def _failed(self, user: dict[str, Any], error: Exception) -> Exception:
        # The error's text is not shown: it may quote whole entries of the kubeconfig.
        kind = type(error).__name__
        if "auth-provider" not in user:
            return self._wrong(f"its kubeconfig cannot be used ({kind})", "Check it with kubectl")
        return ApiError(
            f"Connection {self._connection.id!r}: the kubeconfig's auth-provider gave no token ({kind}). Check it with "
            "kubectl.",
            reason=NOT_SENT,
        )

    def _wrong(self, what: str, way_out: str) -> BackendUnavailable:
        return BackendUnavailable(f"Connection {self._connection.id!r}: {what}. {way_out}.")


def _runs_in_a_pod() -> bool:
    from kubernetes_asyncio.config import incluster_config

    return (
        bool(os.environ.get(incluster_config.SERVICE_HOST_ENV_NAME))
        and Path(incluster_config.SERVICE_TOKEN_FILENAME).is_file()
    )


def _put(given: PluginCredentials, user: dict[str, Any], folder: Path) -> None:
    """Write what a plugin gave into the kubeconfig's user, in the plugin's place."""
    del user["exec"]
    if given.token:
        user["token"] = given.token
    if given.certificate and given.key:
        for entry, text in (("client-certificate", given.certificate), ("client-key", given.key)):
            user[entry] = str(folder / entry)
            (folder / entry).write_text(text)


def _renew_at(user: dict[str, Any], expiry: datetime | None) -> float | None:
    if expiry is not None:
        left = (expiry - datetime.now(timezone.utc)).total_seconds()
        return time.monotonic() + max(left - min(_MARGIN, left / 5), 1)
    # The library itself knows when the token of an auth-provider has to be renewed.
    return time.monotonic() + _FILE_SECONDS if user.keys() & {"tokenFile", "auth-provider"} else None


def _impersonation(user: dict[str, Any]) -> CIMultiDict[str]:
    named = {"as": "Impersonate-User", "as-uid": "Impersonate-Uid"}
    headers = CIMultiDict({header: str(user[key]) for key, header in named.items() if user.get(key)})
    headers.extend(("Impersonate-Group", str(group)) for group in user.get("as-groups") or ())
    for key, values in (user.get("as-user-extra") or {}).items():
        name = f"Impersonate-Extra-{quote(str(key), safe=_IN_HEADERS)}"
        headers.extend((name, str(value)) for value in values or ())
    return headers


def _tls(configuration: Configuration, verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    # Python 3.13 requires certificate extensions that the CAs of many clusters lack, and that no other client requires.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _identity(configuration: Configuration, verify: bool) -> str:
    digest = hashlib.sha256(f"{configuration.host} {verify}".encode())
    for path in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file):
        digest.update(Path(path).read_bytes() if path else b"-")
    return digest.hexdigest()
