"""Airflow's connections become ways to a cluster."""

from __future__ import annotations

import asyncio
import json
import os
import time

import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException, Connection
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import supervisor, task_runner
from airflow.sdk.execution_time.comms import ConnectionResult, ErrorResponse

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.errors import BackendUnavailable, ConnectionUnreadable
from airflow_trainer_provider.hooks import connection as module
from airflow_trainer_provider.hooks.connection import (
    aget_cluster_connection,
    choose_namespace,
)
from airflow_trainer_provider.hooks.loop import run
from airflow_trainer_provider.hooks.supervisor.ask import ask

SECRET = "hush-hush"


@pytest.fixture
def read():
    return lambda conn_id: asyncio.run(aget_cluster_connection(conn_id))


def set_connection(monkeypatch, **values):
    monkeypatch.setenv("AIRFLOW_CONN_GIVEN", json.dumps(values))


def test_reads_a_connection(monkeypatch, read):
    set_connection(monkeypatch, conn_type="kubernetes", extra={"kube_config": {"a": SECRET}, "namespace": "ns"})

    found = read("given")

    assert found == ClusterConnection("given", kube_config=json.dumps({"a": SECRET}), namespace="ns")


def test_reads_the_fields_of_a_uri(monkeypatch, read):
    monkeypatch.setenv("AIRFLOW_CONN_GIVEN", "kubernetes://?extra__kubernetes__in_cluster=True&namespace=ns")

    assert read("given") == ClusterConnection("given", in_cluster=True, namespace="ns")


def test_reads_a_connection_that_was_made_where_its_type_was_not_known(monkeypatch, read):
    set_connection(monkeypatch, conn_type="generic", extra={"namespace": "ns"})

    assert read("given") == ClusterConnection("given", namespace="ns")


def test_the_variables_that_plugins_get_are_airflows_setting(monkeypatch, read):
    set_connection(monkeypatch, conn_type="kubernetes")
    monkeypatch.setenv("AIRFLOW__TRAINER__EXEC_PLUGIN_ENV", "VAULT_ADDR")

    assert read("given").plugin_env == ("VAULT_ADDR",)


def test_a_connection_without_fields_is_one(monkeypatch, read):
    set_connection(monkeypatch, conn_type="kubernetes")

    assert read("given") == ClusterConnection("given")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"conn_type": "postgres"}, "Connection 'given' is of type 'postgres'; .* one of type 'kubernetes'"),
        ({"conn_type": "kubernetes", "extra": f"{SECRET}"}, "Connection 'given': its extra is no JSON object"),
        ({"conn_type": "kubernetes", "extra": f'["{SECRET}"]'}, "Connection 'given': its extra is no JSON object"),
        ({"conn_type": "kubernetes", "extra": {"in_cluster": "x"}}, "Connection 'given': field in_cluster is 'x'"),
    ],
)
def test_what_cannot_be_read_is_named(values, words):
    with pytest.raises(BackendUnavailable, match=words) as caught:
        module.cluster_connection("given", Connection(conn_id="given", **_as_text(values)))

    assert SECRET not in str(caught.value)


class _SecretsBackend:
    """It fails, or finds none; or it finds the connection when it is asked again."""

    def __init__(self, fault=None, *, recovers=False):
        self.fault, self.recovers, self.asked = fault, recovers, 0

    def get_connection(self, conn_id):
        if self.fault:
            raise self.fault
        self.asked += 1
        found = self.recovers and self.asked > 1
        return Connection(conn_id=conn_id, conn_type="kubernetes") if found else None


class _Supervisor:
    """Airflow's API server, as a task process sees it."""

    def __init__(self, error, *, raises, recovers=lambda: False):
        self.error, self.raises, self.recovers = ErrorResponse(error=error), raises, recovers

    def send(self, message):
        if self.recovers():
            return ConnectionResult.model_construct(conn_id="given", conn_type="kubernetes")
        if self.raises:
            raise AirflowRuntimeError(error=self.error)
        return self.error


@pytest.mark.parametrize(
    ("backend", "api_server", "error"),
    [
        (None, ErrorType.CONNECTION_NOT_FOUND, AirflowNotFoundException),
        (ConnectionError("503 Service Unavailable"), ErrorType.CONNECTION_NOT_FOUND, ConnectionUnreadable),
        (PermissionError("403 for a moment"), ErrorType.CONNECTION_NOT_FOUND, ConnectionUnreadable),
        (None, ErrorType.API_SERVER_ERROR, ConnectionUnreadable),
        (None, ErrorType.GENERIC_ERROR, ConnectionUnreadable),
    ],
)
@pytest.mark.parametrize("raises", [True, False])
def test_a_connection_that_does_not_exist_is_distinguished_from_one_that_cannot_be_read(
    monkeypatch, read, backend, api_server, error, raises
):
    monkeypatch.setattr(supervisor, "ensure_secrets_backend_loaded", lambda: [_SecretsBackend(backend)])
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", _Supervisor(api_server, raises=raises), raising=False)

    with pytest.raises(error) as caught:
        read("given")

    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("what_failed", ["secrets backend", "API server"])
def test_a_connection_that_was_not_found_for_a_moment_is_one_that_cannot_be_read(monkeypatch, read, what_failed):
    backend = _SecretsBackend(recovers=what_failed == "secrets backend")
    # Airflow 3.1 asks the API server after all secrets backends; for later versions, the API server is one of them.
    api_server = _Supervisor(
        ErrorType.CONNECTION_NOT_FOUND, raises=False, recovers=lambda: what_failed == "API server" and backend.asked > 1
    )
    monkeypatch.setattr(supervisor, "ensure_secrets_backend_loaded", lambda: [backend])
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", api_server, raising=False)

    with pytest.raises(ConnectionUnreadable, match="finds it now"):
        read("given")


async def test_a_connection_is_read_while_no_other_request_is_made(monkeypatch):
    # Longer than a busy machine stalls.
    monkeypatch.setattr(f"{ask.__module__}._WAIT_SECONDS", 60)
    asking = []

    def request(*_):
        asking.append(1)
        assert len(asking) == 1
        time.sleep(0.05)
        asking.pop()
        return Connection(conn_id="given", conn_type="kubernetes")

    monkeypatch.setattr(module.BaseHook, "get_connection", request)

    await asyncio.gather(ask(request), module.aget_cluster_connection("given"))


async def test_a_connection_is_remembered_until_it_has_to_be_read_again(monkeypatch):
    set_connection(monkeypatch, conn_type="kubernetes", extra={"namespace": "old"})
    assert (await aget_cluster_connection("given")).namespace == "old"
    set_connection(monkeypatch, conn_type="kubernetes", extra={"namespace": "new"})
    assert (await aget_cluster_connection("given")).namespace == "old"

    assert (await module.reread(aget_cluster_connection, "given")).namespace == "new"
    assert (await aget_cluster_connection("given")).namespace == "new"


def test_a_forked_process_reads_connections_too(monkeypatch):
    set_connection(monkeypatch, conn_type="kubernetes")
    assert run(aget_cluster_connection("given"), timeout=60).id == "given"
    child = os.fork()
    if child == 0:
        try:
            run(aget_cluster_connection("given"), timeout=60)
            os._exit(0)
        finally:
            os._exit(1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_namespace_of_the_operator_wins_then_the_connections_then_airflows():
    says, silent = ClusterConnection("c", namespace="connection"), ClusterConnection("c")

    assert choose_namespace("operator", says, "default") == "operator"
    assert choose_namespace(None, says, "default") == "connection"
    assert choose_namespace(None, silent, "default") == "default"


def _as_text(values):
    extra = values.get("extra")
    return {**values, **({"extra": json.dumps(extra)} if isinstance(extra, dict) else {})}
