"""What a connection says, and how a cluster is reached by it."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import stat
import sys
import tempfile
import traceback
from datetime import datetime, timedelta, timezone

import pytest
from aiohttp import web
from yarl import URL

from airflow_trainer_provider.cluster.access import credentials as credentials_module
from airflow_trainer_provider.cluster.access import renewal
from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.access.credentials import CredentialSource
from airflow_trainer_provider.cluster.api import retry, session
from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.errors import ApiError, BackendUnavailable
from airflow_trainer_provider.kinds.base import CONFIG_MAPS
from tests.cluster.pki import Authority
from tests.unit.cluster.api_server import ApiServer, kubeconfig, ok, status

SECRET = "hush-hush"
TOKEN = "sha256~Xk29dLq0vRt7mPz4WcB8nHs3"
#: The client breaks off the handshake, which asyncio's debug mode logs on the server's side.
REFUSED = pytest.mark.loop_errors


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """A machine that is in no cluster, has no kubeconfig and no proxy."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(retry, "_SHORTEST", 0.001)


@pytest.fixture
async def connect():
    """Function (fields) -> client."""
    clients = []

    def connect(outage_budget=30.0, **fields):
        client = Client(ClusterConnection("conn", **fields), outage_budget=outage_budget)
        clients.append(client)
        return client

    yield connect
    for client in clients:
        await client.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("pki"), "ca")
    made.issue("server", "server", hosts=["127.0.0.1"])
    return made


@pytest.fixture
def tls(authority):
    """Of a server whose certificate our own authority signed, and which asks for the client's."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.folder / "ca.crt")
    context.load_cert_chain(authority.folder / "server.crt", authority.folder / "server.key")
    context.verify_mode = ssl.CERT_OPTIONAL
    # As API servers do, it takes certificates without key identifiers; from Python 3.13 on OpenSSL would not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


@pytest.fixture
def pod(monkeypatch, tmp_path, authority):
    """Function (server) -> puts us in a pod of its cluster, with the files of a service account."""
    from kubernetes_asyncio.config import incluster_config

    class Pod:
        token = tmp_path / "token"

        def __call__(self, url):
            address = URL(url)
            monkeypatch.setenv("KUBERNETES_SERVICE_HOST", address.host)
            monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))

    Pod.token.write_text("pod-token\n")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(Pod.token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority.folder / "ca.crt"))
    return Pod()


def read(**extra):
    return ClusterConnection.from_extra("conn", extra)


def test_reads_each_field():
    found = read(
        kube_config={"a": SECRET},
        namespace=" ns ",
        cluster_context="ctx",
        disable_verify_ssl="True",
        disable_tcp_keepalive=True,
        in_cluster="false",
        xcom_sidecar_container_image="x",
    )

    assert found == ClusterConnection(
        "conn",
        kube_config=json.dumps({"a": SECRET}),
        namespace="ns",
        cluster_context="ctx",
        disable_verify_ssl=True,
        disable_tcp_keepalive=True,
    )
    assert SECRET not in repr(found)


def test_reads_the_names_that_older_airflow_gave_them():
    found = read(
        extra__kubernetes__in_cluster=True, extra__kubernetes__namespace="ns", extra__kubernetes__kube_config=""
    )

    assert found == ClusterConnection("conn", in_cluster=True, namespace="ns")


def test_a_field_that_is_there_wins_over_its_older_name():
    assert read(namespace="new", extra__kubernetes__namespace="old").namespace == "new"


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"in_cluster": "perhaps"}, "field in_cluster is 'perhaps'; allowed: true or false"),
        ({"disable_verify_ssl": 7}, "field disable_verify_ssl is 7"),
        ({"namespace": ["a"]}, "field namespace is \\['a'\\]; allowed: text"),
        ({"kube_config": [SECRET]}, "field kube_config is 'a list'"),
        (
            {"kube_config_path": f"users:\n- user: {{token: {SECRET}}}"},
            "kube_config_path is 'a text of .*in kube_config",
        ),
        ({"kube_config_path": f'{{"token": "{SECRET}"}}'}, "kube_config_path is 'a text of .*; allowed: one line"),
        ({"kube_config_path": {"token": SECRET}}, "field kube_config_path is 'a dict'; allowed: text"),
        ({"cluster_context": {"user": {"token": SECRET}}}, "field cluster_context is 'a dict'; allowed: text"),
        ({"cluster_context": f"token:\n{SECRET}"}, "field cluster_context is 'a text of"),
        ({"in_cluster": f"token: {SECRET}\n"}, "field in_cluster is 'a text of"),
        ({"namespace": [{"token": SECRET}]}, "field namespace is \\['a dict'\\]; allowed: text"),
        ({"namespace": "team/x"}, "field namespace is 'team/x'; allowed: the name of a namespace"),
        ({"in_cluster": TOKEN}, "field in_cluster is 'a text of 31 characters'"),
        ({"in_cluster": True, "kube_config": SECRET}, "gives in_cluster and kube_config: .* only one"),
        ({"kube_config_path": "a", "kube_config": SECRET}, "gives kube_config_path and kube_config: .* only one"),
    ],
)
def test_a_wrong_field_is_named(extra, words):
    with pytest.raises(BackendUnavailable, match=f"'conn'.*{words}") as caught:
        read(**extra)

    assert SECRET not in str(caught.value)


async def load(**fields):
    return await CredentialSource(ClusterConnection("conn", **fields)).load()


async def test_takes_the_kubeconfig_that_is_given(tmp_path):
    config = kubeconfig("https://given:6443/", token=SECRET)
    file = tmp_path / "config"
    file.write_text(config)

    for fields in ({"kube_config": config}, {"kube_config_path": str(file)}):
        found = await load(**fields)
        assert (found.server, found.headers) == ("https://given:6443", {"Authorization": f"Bearer {SECRET}"})
        assert SECRET not in repr(found)


async def test_without_a_way_takes_the_pods_service_account(pod, tmp_path):
    (tmp_path / "home" / ".kube").mkdir(parents=True)
    (tmp_path / "home" / ".kube" / "config").write_text(kubeconfig("https://home"))
    assert (await load()).server == "https://home"

    pod("https://10.0.0.1:443")
    found = await load()
    assert (found.server, found.headers) == ("https://10.0.0.1:443", {"Authorization": "Bearer pod-token"})
    assert (await load(kube_config=kubeconfig("https://given"))).server == "https://given"


async def test_merges_default_kubeconfigs_as_kubectl_does(monkeypatch, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text(json.dumps({"current-context": "x", "users": [{"name": "u", "user": {"token": "first"}}]}))
    two.write_text(
        kubeconfig("https://two", token="second").replace('"current-context": "x"', '"current-context": "?"')
    )
    monkeypatch.setenv("KUBECONFIG", f"{one}:{tmp_path / 'missing'}:{two}")

    found = await load()

    assert (found.server, found.headers) == ("https://two", {"Authorization": "Bearer first"})


async def test_says_where_it_looked_when_there_is_no_way(tmp_path):
    with pytest.raises(BackendUnavailable, match=r"no way to a cluster is given.*/home/.kube/config"):
        await load()


async def test_says_so_when_this_is_no_pod():
    with pytest.raises(BackendUnavailable, match="'conn': there is no service account of a pod"):
        await load(in_cluster=True)


def without(document, part, key):
    found = json.loads(document)
    del found[part][0][part[:-1]][key]
    return json.dumps(found)


CONFIG = kubeconfig("https://server", token=SECRET)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kube_config_path": "/nowhere/config"}, "kube_config_path: cannot read /nowhere/config: No such file"),
        ({"kube_config": f"token: {SECRET}: ]"}, "kube_config: it is neither a JSON nor a YAML object"),
        ({"kube_config": SECRET}, "kube_config: it is neither a JSON nor a YAML object"),
        ({"kube_config": CONFIG, "cluster_context": "y"}, "cluster_context: there is no context 'y' .* contexts: 'x'"),
        ({"kube_config_path": TOKEN}, "kube_config_path: cannot read a text of 31 characters: No such file"),
        (
            {"kube_config_path": "wJalrXUtnFEMI/K7MDENG/bPxRfiCY"},
            "kube_config_path: cannot read a text of 30 characters",
        ),
        ({"kube_config": CONFIG, "cluster_context": TOKEN}, "there is no context 'a text of 31 characters'"),
        *(
            ({"kube_config": CONFIG, "cluster_context": name}, f"there is no context '{name}'")
            for name in (
                "gke_my-project-123_us-central1-a_prod",
                "arn:aws:eks:us-east-1:123456789012:cluster/prod-eu1-gpu2",
            )
        ),
        (
            {"kube_config": CONFIG.replace('"current-context": "x"', '"k": 1')},
            "current-context is not set; contexts: 'x'",
        ),
        ({"kube_config": without(CONFIG, "contexts", "cluster")}, "names cluster None, which is not there"),
        ({"kube_config": CONFIG.replace('"name": "u"', '"name": "v"')}, "names user 'u', which is not there"),
        ({"kube_config": without(CONFIG, "clusters", "server")}, "cluster 'c' has no server"),
        (
            {"kube_config": CONFIG.replace('{"token"', '{"client-key": "/nowhere", "token"')},
            "client-key names /nowhere",
        ),
        ({"kube_config": kubeconfig("https://s", **{"client-key-data": SECRET})}, "client-key-data is not base64"),
        (
            {"kube_config": kubeconfig("https://s", cluster={"certificate-authority-data": "aHVzaA=="})},
            "its certificates cannot be used",
        ),
        ({"kube_config": kubeconfig("https://s", exec={"command": "/nowhere/x", "apiVersion": "v1"})}, "/nowhere/x"),
        ({"kube_config": kubeconfig("https://s", exec={"command": "x"})}, r"\(exec\) has no apiVersion"),
        ({"kube_config": kubeconfig("https://s", **{"as": "a", "as-groups": "b"})}, "as-groups is no list"),
        ({"kube_config": kubeconfig("https://s", **{"as": "a", "as-user-extra": {"b": "c"}})}, "does not map names to"),
        ({"kube_config": kubeconfig("https://s", **{"as-groups": ["b"]})}, "has as-groups, and no user to act as"),
        (
            {"kube_config": kubeconfig("http://s", exec={"command": "x", "apiVersion": "v1", "env": [{"name": "A"}]})},
            r"env \(exec\) has an entry without name and value",
        ),
        (
            {"kube_config": kubeconfig("http://s", exec={"command": "x", "apiVersion": "v1", "args": [f"{SECRET}\0"]})},
            "'x' cannot be started: its arguments",
        ),
        (
            {"kube_config": kubeconfig("https://s", **{"auth-provider": {"name": "gcp", "config": {"cmd-path": "x"}}})},
            "auth-provider runs a command",
        ),
        ({"kube_config": kubeconfig("https://s", exec={"command": "/", "apiVersion": "v1"})}, "'/' cannot be started"),
        ({"kube_config": kubeconfig("https://s", cluster={"proxy-url": "socks5://p"})}, "proxy-url .* names a socks5"),
    ],
)
async def test_what_is_wrong_is_named_and_no_secret_with_it(connect, fields, words):
    with pytest.raises(BackendUnavailable, match=f"(?s)'conn': .*{words}") as caught:
        await connect(**fields).get_path("/version")

    assert SECRET not in str(caught.value)
    assert not caught.value.retryable


async def test_paths_in_a_kubeconfig_are_relative_to_it(tmp_path):
    (tmp_path / "token").write_text("from-file\n")
    (tmp_path / "config").write_text(kubeconfig("https://s", tokenFile="token"))

    found = await load(kube_config_path=str(tmp_path / "config"))

    assert found.headers == {"Authorization": "Bearer from-file"}


def data(path):
    return base64.b64encode(path.read_bytes()).decode()


async def who(request):
    certificate = request.transport.get_extra_info("peercert")
    name = dict(part for parts in certificate.get("subject", ()) for part in parts) if certificate else {}
    return web.json_response({"who": name.get("commonName")})


async def test_shows_the_certificates_of_the_kubeconfig(connect, authority, tls, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    authority.issue("one", "user-one")
    cluster = {"certificate-authority-data": data(authority.folder / "ca.crt")}
    user = {"client-certificate-data": data(authority.folder / "one.crt")}
    user["client-key-data"] = data(authority.folder / "one.key")
    async with ApiServer(who, tls=tls) as server:
        client = connect(kube_config=server.kubeconfig(cluster=cluster, **user))
        assert await client.get_path("/version") == {"who": "user-one"}
        assert await connect(kube_config=server.kubeconfig(cluster=cluster)).get_path("/version") == {"who": None}

    # The private key was on the disk for a moment only.
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key_of", [None, "one"])
async def test_a_certificate_that_was_renewed_is_shown(connect, authority, tls, tmp_path, key_of):
    authority.issue("one", "user-one")
    authority.issue("two", "user-two", key_of=key_of)

    def write(server, name):
        files = {"client-certificate": str(authority.folder / f"{name}.crt")}
        files["client-key"] = str(authority.folder / f"{name}.key")
        cluster = {"certificate-authority": str(authority.folder / "ca.crt")}
        (tmp_path / "config").write_text(server.kubeconfig(cluster=cluster, **files))

    async with ApiServer(who, status(401, "Unauthorized"), who, tls=tls) as server:
        write(server, "one")
        client = connect(kube_config_path=str(tmp_path / "config"))
        assert await client.get_path("/version") == {"who": "user-one"}
        write(server, "two")
        assert await client.get_path("/version") == {"who": "user-two"}


@pytest.fixture
def moved(authority, tls, tmp_path):
    """Function -> the server has a certificate of another authority from now on; gives that authority's own."""
    other = Authority(tmp_path, "ca")
    other.issue("server", "server", hosts=["127.0.0.1"])

    def move():
        tls.load_cert_chain(other.folder / "server.crt", other.folder / "server.key")
        return data(other.folder / "ca.crt")

    return move


async def closing(request):
    """An answer after which the connection is closed: the next request looks at the certificate."""
    answer = web.json_response({"ok": 1})
    answer.force_close()
    return answer


@pytest.mark.parametrize("has_plugin", [False, True])
@REFUSED
async def test_another_authority_reaches_what_runs_from_the_connection(authority, tls, moved, plugin, has_plugin):
    # Another token each time, as those of EKS: it is no other authority.
    plugin.gives("token-RUN")
    user = plugin.user if has_plugin else {"token": SECRET}

    def connection(authority_data):
        cluster = {"certificate-authority-data": authority_data}
        return ClusterConnection("conn", kube_config=server.kubeconfig(cluster=cluster, **user))

    async with ApiServer(closing, tls=tls) as server:
        now = [connection(data(authority.folder / "ca.crt"))]

        async def reread():
            return now[0]

        client = Client(now[0], outage_budget=30.0, reread=reread)
        assert await client.get_path("/version") == {"ok": 1}
        new = moved()
        waiting = asyncio.create_task(client.get_path("/version"))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        now[0] = connection(new)

        assert await waiting == {"ok": 1}
        await client.close()


@REFUSED
async def test_another_authority_that_the_connection_does_not_name_is_not_believed(connect, authority, tls, moved):
    cluster = {"certificate-authority-data": data(authority.folder / "ca.crt")}
    async with ApiServer(closing, tls=tls) as server:
        client = connect(kube_config=server.kubeconfig(cluster=cluster, token=SECRET), outage_budget=0.1)
        await client.get_path("/version")
        moved()

        with pytest.raises(ApiError) as caught:
            await client.get_path("/version")
        assert caught.value.reason == "BadCertificate"
        assert len(server.asked) == 1


@REFUSED
async def test_a_server_without_a_trusted_certificate_is_refused_at_once(connect, tls):
    async with ApiServer(ok({"ok": 1}), tls=tls) as server:
        with pytest.raises(ApiError, match=r"self-signed|unable to get local issuer") as caught:
            await connect(kube_config=server.kubeconfig(token=SECRET)).get_path("/version")
        assert caught.value.reason == "BadCertificate"
        assert server.asked == []
        careless = connect(kube_config=server.kubeconfig(), disable_verify_ssl=True)
        assert await careless.get_path("/version") == {"ok": 1}


async def test_verification_can_be_turned_off():
    careful = await load(kube_config=kubeconfig("https://s"))
    careless = await load(kube_config=kubeconfig("https://s"), disable_verify_ssl=True)
    skipped = await load(kube_config=kubeconfig("https://s", cluster={"insecure-skip-tls-verify": True}))

    assert careful.tls.verify_mode == ssl.CERT_REQUIRED
    assert careful.tls.check_hostname
    assert careless.tls.verify_mode == skipped.tls.verify_mode == ssl.CERT_NONE
    assert careful.identity != careless.identity


async def test_a_kubeconfig_can_impersonate(connect):
    shown = []

    async def answer(request):
        shown.extend((name, value) for name, value in request.headers.items() if name.startswith("Impersonate"))
        return web.json_response({})

    user = {"as": "alice", "as-uid": 7, "as-groups": ["team", "all"]}
    user["as-user-extra"] = {"scopes": ["view", "edit"], "example.org/a%b": ["c"]}
    async with ApiServer(answer) as server:
        await connect(kube_config=server.kubeconfig(**user)).create(CONFIG_MAPS, "ns", {})

    assert shown == [
        ("Impersonate-User", "alice"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "team"),
        ("Impersonate-Group", "all"),
        ("Impersonate-Extra-scopes", "view"),
        ("Impersonate-Extra-scopes", "edit"),
        ("Impersonate-Extra-example.org%2Fa%25b", "c"),
    ]


def knows(*tokens):
    """An answer to who carries one of the tokens; 401 to others."""

    async def answer(request):
        known = request.headers.get("Authorization") in [f"Bearer {token}" for token in tokens]
        return await (ok({"ok": 1}) if known else status(401, "Unauthorized", "Unauthorized"))(request)

    return answer


@pytest.fixture
def plugin(tmp_path):
    """A credential plugin; function (token, expires in, exit code) -> what it gives from now on. It counts its runs:
    RUN stands for the number.
    """
    script, output, runs = tmp_path / "plugin", tmp_path / "output.json", tmp_path / "runs"
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        f"open({str(runs)!r}, 'a').write('x')\n"
        f"given = json.load(open({str(output)!r}))\n"
        f"run = str(len(open({str(runs)!r}).read()))\n"
        "given['status'] = json.loads(json.dumps(given['status']).replace('RUN', run))\n"
        "sys.stderr.write('log in first' if given['code'] else '')\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential', "
        "'status': given['status']}))\n"
        "sys.exit(given['code'])\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)

    class Plugin:
        user = {"exec": {"command": str(script), "apiVersion": "client.authentication.k8s.io/v1"}}

        @property
        def runs(self):
            return len(runs.read_text())

        def gives(self, token=None, *, seconds=None, code=0, **given):
            if token is not None:
                given["token"] = token
            if seconds is not None:
                expiry = datetime.now(timezone.utc) + timedelta(seconds=seconds)
                given["expirationTimestamp"] = expiry.strftime("%Y-%m-%dT%H:%M:%SZ")
            output.write_text(json.dumps({"status": given, "code": code}))

    return Plugin()


@pytest.fixture
def clock(monkeypatch):
    """Function (seconds) -> lets time pass for credentials."""
    passed = [0.0]
    real = renewal.time.monotonic

    class Time:
        @staticmethod
        def monotonic():
            return real() + passed[0]

    monkeypatch.setattr(renewal, "time", Time)
    monkeypatch.setattr(credentials_module, "time", Time)

    def let_pass(seconds):
        passed[0] += seconds

    return let_pass


async def test_a_plugins_token_is_used_until_it_is_about_to_expire(connect, plugin, clock):
    plugin.gives("one", seconds=600)
    async with ApiServer(knows("one", "two")) as server:
        client = connect(kube_config=server.kubeconfig(**plugin.user))
        for _ in range(3):
            await client.get_path("/version")
        plugin.gives("two", seconds=600)
        clock(500)
        await client.get_path("/version")
        assert plugin.runs == 1
        clock(60)
        await asyncio.gather(*(client.get_path("/version") for _ in range(5)))

    assert plugin.runs == 2
    tokens = [asked.headers["Authorization"] for asked in server.asked]
    assert tokens == ["Bearer one"] * 4 + ["Bearer two"] * 5


async def test_a_short_lived_token_is_used_for_most_of_its_life(connect, plugin, clock):
    plugin.gives("one", seconds=30)
    async with ApiServer(knows("one")) as server:
        client = connect(kube_config=server.kubeconfig(**plugin.user))
        await client.get_path("/version")
        clock(20)
        await client.get_path("/version")

    assert plugin.runs == 1


async def test_a_plugin_can_give_a_certificate(connect, plugin, authority, tls, monkeypatch, tmp_path):
    authority.issue("plugin", "user-of-plugin")
    certificate, key = ((authority.folder / f"plugin.{end}").read_text() for end in ("crt", "key"))
    plugin.gives(clientCertificateData=certificate, clientKeyData=key)
    cluster = {"certificate-authority": str(authority.folder / "ca.crt")}
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "empty"))
    async with ApiServer(who, tls=tls) as server:
        client = connect(kube_config=server.kubeconfig(cluster=cluster, **plugin.user))
        assert await client.get_path("/version") == {"who": "user-of-plugin"}

    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize("given", [{}, {"clientCertificateData": SECRET}, {"token": ""}])
async def test_a_plugin_that_gives_nothing_is_reported(connect, plugin, given):
    plugin.gives(**given)
    with pytest.raises(ApiError, match="gave neither a token nor a certificate") as caught:
        await connect(kube_config=kubeconfig("http://s", **plugin.user), outage_budget=0).get_path("/version")

    assert SECRET not in str(caught.value)


async def test_a_plugin_runs_again_where_its_token_is_refused(connect, plugin):
    plugin.gives("one")
    async with ApiServer(knows("one"), knows("two")) as server:
        client = connect(kube_config=server.kubeconfig(**plugin.user))
        await client.get_path("/version")
        plugin.gives("two")
        assert await client.get_path("/version") == {"ok": 1}

    assert plugin.runs == 2
    assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer one", "Bearer one", "Bearer two"]


async def test_a_token_that_was_never_known_is_refused_at_once(connect, plugin):
    plugin.gives("wrong")
    async with ApiServer(knows("right")) as server:
        with pytest.raises(ApiError) as caught:
            await connect(kube_config=server.kubeconfig(**plugin.user)).get_path("/version")

    assert caught.value.status == 401
    assert len(server.asked) == 1
    assert plugin.runs == 2


async def test_a_plugin_that_fails_is_run_again_and_its_words_are_reported(connect, plugin):
    plugin.gives(SECRET, code=1)
    async with ApiServer(knows(SECRET)) as server:
        client = connect(kube_config=server.kubeconfig(**plugin.user), outage_budget=0.01)
        with pytest.raises(ApiError, match=r"gave no credentials: it ended with exit code 1: log in first") as caught:
            await client.get_path("/version")
        assert SECRET not in str(caught.value)
        plugin.gives(SECRET)
        await client.get_path("/version")


async def test_a_token_that_still_holds_is_kept_when_its_renewal_fails(connect, plugin, clock):
    plugin.gives("one", seconds=600)
    async with ApiServer(knows("one")) as server:
        client = connect(kube_config=server.kubeconfig(**plugin.user))
        await client.get_path("/version")
        plugin.gives("one", code=1)
        clock(550)
        await client.get_path("/version")
        await client.get_path("/version")

    assert plugin.runs == 2


@pytest.mark.parametrize("due", [True, False], ids=["every minute", "where it was refused"])
async def test_a_pods_token_is_read_again(connect, pod, clock, tls, due):
    async with ApiServer(knows("pod-token"), knows("rotated"), tls=tls) as server:
        pod(server.url)
        client = connect()
        await client.get_path("/version")
        pod.token.write_text("rotated\n")
        if due:
            clock(61)
        assert await client.get_path("/version") == {"ok": 1}

    tokens = ["Bearer pod-token"] + ([] if due else ["Bearer pod-token"]) + ["Bearer rotated"]
    assert [asked.headers["Authorization"] for asked in server.asked] == tokens


async def test_a_pods_token_that_is_gone_for_a_moment_is_kept(connect, pod, clock, tls):
    async with ApiServer(knows("pod-token"), tls=tls) as server:
        pod(server.url)
        client = connect(in_cluster=True)
        await client.get_path("/version")
        pod.token.unlink()
        clock(61)
        assert await client.get_path("/version") == {"ok": 1}


async def test_a_token_file_is_read_again(connect, clock, tmp_path):
    (tmp_path / "token").write_text("one")
    async with ApiServer(knows("one", "two")) as server:
        client = connect(kube_config=server.kubeconfig(tokenFile=str(tmp_path / "token")))
        await client.get_path("/version")
        (tmp_path / "token").write_text("two")
        clock(61)
        await client.get_path("/version")

    assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer one", "Bearer two"]


async def test_a_kubeconfig_that_was_changed_is_read_where_its_token_is_refused(connect, clock, tmp_path):
    async with ApiServer(knows("two")) as server:
        (tmp_path / "config").write_text(server.kubeconfig(token="one"))
        client = connect(kube_config_path=str(tmp_path / "config"))
        with pytest.raises(ApiError):
            await client.get_path("/version")
        (tmp_path / "config").write_text(server.kubeconfig(token="two"))
        clock(1)
        assert await client.get_path("/version") == {"ok": 1}


async def test_who_was_known_is_known_again(connect):
    async with ApiServer(knows("t"), status(401, "Unauthorized"), knows("t")) as server:
        client = connect(kube_config=server.kubeconfig(token="t"))
        await client.get_path("/version")
        assert await client.get_path("/version") == {"ok": 1}


async def proxied(request):
    return web.json_response({"through": str(request.headers["Host"])})


@pytest.mark.parametrize("source", ["kubeconfig", "environment", "environment without scheme"])
async def test_goes_through_the_proxy(connect, monkeypatch, source):
    async with ApiServer(proxied) as proxy:
        cluster = {"proxy-url": proxy.url} if source == "kubeconfig" else {}
        if source != "kubeconfig":
            monkeypatch.setenv(
                "http_proxy", proxy.url if source == "environment" else proxy.url.removeprefix("http://")
            )
        client = connect(kube_config=kubeconfig("http://cluster.invalid:8080", cluster=cluster))
        assert await client.get_path("/version") == {"through": "cluster.invalid:8080"}


@pytest.mark.parametrize("source", ["kubeconfig", "environment"])
@pytest.mark.parametrize("server", ["https://10.0.0.1:6443", "http://10.0.0.1:6443"])
async def test_the_error_of_a_proxy_that_refuses_does_not_contain_its_password(connect, monkeypatch, source, server):
    async def refuse(request):
        return web.Response(status=407, text=f"no entry for http://user:{SECRET}@here")

    async with ApiServer(refuse) as proxy:
        address = proxy.url.replace("http://", f"http://user:{SECRET}@")
        cluster = {"proxy-url": address} if source == "kubeconfig" else {}
        if source == "environment":
            monkeypatch.setenv("https_proxy", address)
            monkeypatch.setenv("http_proxy", address)
        with pytest.raises(ApiError, match=r"40[47]") as caught:
            await connect(0.1, kube_config=kubeconfig(server, cluster=cluster)).get_path("/version")

    # Logs show the causes as well.
    assert SECRET not in "".join(traceback.format_exception(caught.value))


async def test_no_proxy_is_heeded(connect, monkeypatch):
    async with ApiServer(ok({"direct": 1})) as server:
        monkeypatch.setenv("http_proxy", "http://proxy.invalid:1")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert await connect(kube_config=server.kubeconfig()).get_path("/version") == {"direct": 1}


async def test_a_netrc_is_not_looked_at(connect, monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text("default login other password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with ApiServer(knows("t")) as server:
        assert await connect(kube_config=server.kubeconfig(token="t")).get_path("/version") == {"ok": 1}


@pytest.mark.parametrize("disabled", [False, True])
async def test_idle_connections_are_probed(connect, monkeypatch, disabled):
    made = []
    monkeypatch.setattr(
        session, "_probed_socket", lambda address, make=session._probed_socket: _keep(made, make(address))
    )
    async with ApiServer(ok()) as server:
        await connect(kube_config=server.kubeconfig(), disable_tcp_keepalive=disabled).get_path("/version")
        probed = [(one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), _idle(one)) for one in made]

    assert probed == ([] if disabled else [(1, 30)])


def _keep(made, one):
    made.append(one)
    return one


def _idle(one):
    return one.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)


def test_an_empty_kubeconfig_leads_to_no_cluster():
    assert read(kube_config={}, in_cluster=True) == ClusterConnection("conn", in_cluster=True)
