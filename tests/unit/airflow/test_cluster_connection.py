"""Airflow's connections become ways to a cluster."""

from __future__ import annotations

import asyncio
import json

import pytest
from airflow.providers.common.compat.sdk import Connection

from airflow_trainer_provider.cluster.connection import ClusterConnection
from airflow_trainer_provider.errors import BackendUnavailable
from airflow_trainer_provider.hooks import connection as module
from airflow_trainer_provider.hooks.connection import (
    aget_cluster_connection,
    choose_namespace,
)

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


def test_the_namespace_of_the_operator_wins_then_the_connections_then_airflows():
    says, silent = ClusterConnection("c", namespace="connection"), ClusterConnection("c")

    assert choose_namespace("operator", says, "default") == "operator"
    assert choose_namespace(None, says, "default") == "connection"
    assert choose_namespace(None, silent, "default") == "default"


def _as_text(values):
    extra = values.get("extra")
    return {**values, **({"extra": json.dumps(extra)} if isinstance(extra, dict) else {})}
