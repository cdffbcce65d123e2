"""A credential plugin gets what it needs of the environment, and is gone when nothing waits for it any more."""

from __future__ import annotations

import asyncio
import stat
from contextlib import suppress

import psutil
import pytest

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.access.exec_plugin import plugin_environment, run_plugin
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.timeouts import with_timeout
from tests.unit.cluster.api_server import until

VERSION = "client.authentication.k8s.io/v1"
SECRET = "hush-hush"
#: Seconds that a plugin's end may take, on a machine that stalls.
_BOUND = 30
GIVEN = f'{{"apiVersion": "{VERSION}", "kind": "ExecCredential", "status": {{"token": "t"}}}}'


@pytest.fixture
def plugin(tmp_path):
    """Function (shell script) -> the kubeconfig's entry for a plugin that runs it."""

    def plugin(script, **fields):
        program = tmp_path / "plugin"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return {"command": str(program), "apiVersion": VERSION, **fields}

    return plugin


def connection(*names):
    return ClusterConnection("conn", plugin_env=names)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("PATH", True),
        ("HOME", True),
        ("LC_ALL", True),
        ("TZ", True),
        ("TMPDIR", True),
        ("https_proxy", True),
        ("NO_PROXY", True),
        ("REQUESTS_CA_BUNDLE", True),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", True),
        ("AZURE_FEDERATED_TOKEN_FILE", True),
        ("AAD_LOGIN_METHOD", True),
        ("ARM_CLIENT_SECRET", True),
        ("MSI_SECRET", True),
        ("GOOGLE_APPLICATION_CREDENTIALS", True),
        ("CLOUDSDK_CONFIG", True),
        ("XDG_CACHE_HOME", True),
        ("NAMED", True),
        ("AIRFLOW__CORE__FERNET_KEY", False),
        ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", False),
        ("AIRFLOW_CONN_KUBE", False),
        ("FERNET_KEY", False),
        ("DATABASE_URL", False),
        ("POSTGRES_PASSWORD", False),
        ("PYTHONPATH", False),
        ("NAMED_AS_WELL", False),
    ],
)
def test_the_environment_of_a_plugin(name, kept):
    found = plugin_environment({name: "x"}, {"apiVersion": VERSION}, ("NAMED", "OTHER"))

    assert found.pop("KUBERNETES_EXEC_INFO") == (
        f'{{"apiVersion": "{VERSION}", "kind": "ExecCredential", "spec": {{"interactive": false}}}}'
    )
    assert found == ({name: "x"} if kept else {})


def test_what_the_kubeconfig_says_wins():
    env = [{"name": "AWS_PROFILE", "value": "training"}, {"name": "AIRFLOW__X", "value": "1"}]

    found = plugin_environment({"AWS_PROFILE": "mine", "HOME": "/h"}, {"apiVersion": VERSION, "env": env}, ())

    assert {**found, "KUBERNETES_EXEC_INFO": ""} == {
        "AWS_PROFILE": "training",
        "AIRFLOW__X": "1",
        "HOME": "/h",
        "KUBERNETES_EXEC_INFO": "",
    }


async def test_a_plugin_does_not_see_airflows_secrets(plugin, monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", SECRET)
    monkeypatch.setenv("VAULT_ADDR", "https://vault")
    entry = plugin(f"env > {tmp_path}/env; echo '{GIVEN}'", args=["a"], env=[{"name": "MINE", "value": "1"}])

    assert (await run_plugin(connection("VAULT_ADDR"), entry)).token == "t"

    seen = (tmp_path / "env").read_text()
    assert SECRET not in seen
    assert {"VAULT_ADDR=https://vault", "MINE=1"} <= set(seen.splitlines())


async def test_a_plugin_that_says_more_beside_than_a_pipe_holds_is_read(plugin):
    entry = plugin(f"head -c 400000 /dev/zero | tr '\\0' x >&2; echo '{GIVEN}'")

    assert (await with_timeout(run_plugin(connection(), entry), _BOUND)).token == "t"


async def test_a_plugin_cannot_ask(plugin):
    assert (await run_plugin(connection(), plugin(f"cat; echo '{GIVEN}'"))).token == "t"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo $AWS_SECRET_ACCESS_KEY $CLIENT_SECRET >&2; exit 3", r"exit code 3: \*\*\* \*\*\*\. Run"),
        (f"echo '{SECRET}'", "it printed no ExecCredential of client.authentication"),
        (f"""echo '{{"apiVersion": "other", "status": {{"token": "{SECRET}"}}}}'""", "it printed no ExecCredential of"),
        (f"""echo '{{"apiVersion": "{VERSION}", "status": "{SECRET}"}}'""", "it printed no ExecCredential of"),
        (f"""echo '{GIVEN[:-2]}, "expirationTimestamp": "{SECRET}"}}}}'""", "it printed no ExecCredential of"),
    ],
)
async def test_errors_hold_no_secrets(plugin, monkeypatch, script, words):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)

    with pytest.raises(ApiError, match=words) as caught:
        await run_plugin(connection(), plugin(script, env=[{"name": "CLIENT_SECRET", "value": f"{SECRET}-2"}]))

    assert SECRET not in str(caught.value)
    # Nor does what it comes from.
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize("ends", ["timeout", "cancelled"])
async def test_a_plugin_without_waiters_is_killed_with_all_that_it_started(plugin, monkeypatch, tmp_path, ends):
    loop = asyncio.get_running_loop()
    now = loop.time
    entry = plugin(f"trap '' TERM; sleep 600 & echo $$ $! > {tmp_path}/pids; wait")
    running = asyncio.create_task(run_plugin(connection(), entry))
    await until(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text().strip())
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    if ends == "cancelled":
        running.cancel()
    else:
        monkeypatch.setattr(loop, "time", lambda: now() + 3600)

    try:
        with pytest.raises(ApiError if ends == "timeout" else asyncio.CancelledError):
            await with_timeout(running, _BOUND)

        assert len(pids) == 2
        # Killed they are; the kernel takes a moment to end what the plugin has started.
        await with_timeout(until(lambda: not any(_runs(pid) for pid in pids)), _BOUND)
    finally:
        _kill(pids)


@pytest.mark.parametrize("is_there", [False, True])
async def test_a_plugin_that_is_cancelled_while_it_starts_is_killed(plugin, tmp_path, monkeypatch, is_there):
    entry = plugin(f"sleep 600 & echo $$ $! > {tmp_path}/pids; wait")
    starting, start = asyncio.Event(), asyncio.create_subprocess_exec

    async def watched(*arguments, **options):
        started = await start(*arguments, **options) if is_there else None
        starting.set()
        await asyncio.sleep(0.01)
        return started or await start(*arguments, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", watched)
    running = asyncio.create_task(run_plugin(connection(), entry))
    await starting.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await with_timeout(running, _BOUND)

    left = [each.pid for each in psutil.process_iter(["cmdline"]) if entry["command"] in (each.info["cmdline"] or ())]
    _kill(left)
    assert left == []


def _kill(pids):
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()


def _runs(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
