"""What the API server's refusals are reported as. The answers are those of a real one; tests/cluster asks it again."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from airflow_trainer_provider.cluster.answers import (
    BAD_CERTIFICATE,
    NOT_SENT,
    api_error,
    changed_nothing,
    from_status,
    is_transient,
)
from airflow_trainer_provider.cluster.operations.refusal import explain, refusal
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.kinds.base import Resource

TRAIN_JOBS = Resource("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs")
MPI_JOBS = Resource("kubeflow.org/v2beta1", "MPIJob", "mpijobs")
WHAT = "POST /apis/x"
DENIED = "ValidatingAdmissionPolicy 'gpus' with binding 'gpus-team' denied request: ask for fewer"
SENT = "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2527402 vs. 2097152)"
OTHER_UID = {"field": "spec.template.metadata.labels[controller-uid]", "message": "Invalid value: {}: must be 'x'"}
LESS_DATA = ["This TrainJob is larger than", "Give it less data"]
WEBHOOK = "validator.trainjob.trainer.kubeflow.org"


def answered(code, reason="", message="", **details):
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return api_error(WHAT, code, json.dumps(body).encode(), {})


def test_an_answer_keeps_what_the_api_server_says():
    error = answered(422, "Invalid", "TrainJob is invalid", causes=[{"field": "spec.x", "message": "Required value"}])

    assert str(error) == "POST /apis/x: 422 Invalid: TrainJob is invalid"
    assert (error.status, error.reason, error.answer) == (422, "Invalid", "TrainJob is invalid")
    assert error.causes == (("spec.x", "Required value"),)


def test_an_answer_of_something_else_is_shortened():
    error = api_error(WHAT, 502, b"\xff<html>" + b"x" * 100_000, {"Retry-After": "3"})

    assert (error.status, error.reason, error.retry_after) == (502, "", 3)
    assert len(str(error)) < 3000


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7), ("-1", 0), ("soon", None), ("", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0)],
)
def test_reads_when_to_ask_again(header, seconds):
    assert api_error(WHAT, 429, b"", {"Retry-After": header}).retry_after == seconds


def test_reads_a_date_on_which_to_ask_again():
    in_a_minute = format_datetime(datetime.now(timezone.utc) + timedelta(minutes=1), usegmt=True)

    assert 50 < (api_error(WHAT, 429, b"", {"Retry-After": in_a_minute}).retry_after or 0) <= 60


def test_the_events_of_a_watch_are_read_alike():
    error = from_status("GET /x", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})

    assert (error.status, error.reason, error.answer) == (410, "Expired", "too old")


@pytest.mark.parametrize(
    ("error", "transient", "harmless"),
    [
        (ApiError("cut"), True, False),
        (ApiError("refused", reason=NOT_SENT), True, True),
        (ApiError("certificate", reason=BAD_CERTIFICATE), False, True),
        (answered(429, "TooManyRequests"), True, True),
        (answered(500, "InternalError", 'failed calling webhook "x": timeout'), True, True),
        (answered(500, "InternalError", "etcdserver: request timed out"), True, False),
        (answered(500, "", "etcdserver: request is too large"), False, True),
        (answered(503, "ServiceUnavailable"), True, True),
        (api_error(WHAT, 503, b"upstream reset", {}), True, False),
        (answered(504, "Timeout"), True, False),
        (answered(409, "Conflict", 'Operation cannot be fulfilled on resourcequotas "q": modified'), True, True),
        (answered(409, "Conflict", 'Operation cannot be fulfilled on trainjobs "a": modified'), False, True),
        (answered(409, "AlreadyExists"), False, True),
        (answered(404, "NotFound"), False, True),
    ],
)
def test_what_may_be_asked_again(error, transient, harmless):
    assert (is_transient(error), changed_nothing(error)) == (transient, harmless)


@pytest.mark.parametrize(
    ("error", "reason", "retryable", "words"),
    [
        (
            answered(403, "Forbidden", f'admission webhook "{WEBHOOK}" denied the request: spec.runtimeRef: not found'),
            "DeniedByWebhook",
            False,
            [WEBHOOK, "spec.runtimeRef: not found"],
        ),
        (
            answered(
                422,
                "Invalid",
                'Service "x" is invalid: spec.ports[0].nodePort: Invalid value: 30600: provided port is already '
                "allocated",
                causes=[{"field": "spec.ports[0].nodePort", "message": "Invalid value: 30600"}],
            ),
            "NodePortTaken",
            True,
            ["30600", "Set another node_port, or drop it"],
        ),
        (
            answered(422, "Invalid", f"trainjobs is forbidden: {DENIED}", causes=[{"message": DENIED}]),
            "DeniedByPolicy",
            False,
            ["ValidatingAdmissionPolicy gpus (binding gpus-team) refused this TrainJob", "'ns': ask for fewer. "],
        ),
        (answered(413, "RequestEntityTooLarge", "limit is 3145728"), "TooLarge", False, LESS_DATA),
        (
            api_error(WHAT, 413, b"<html>Request Entity Too Large", {}),
            "TooLarge",
            False,
            [
                "larger than what a proxy before the API server passes on",
                "client_max_body_size",
                "<html>Request Entity",
            ],
        ),
        (answered(500, "", "etcdserver: request is too large"), "TooLarge", False, LESS_DATA),
        (answered(500, "", SENT), "TooLarge", False, LESS_DATA),
        (answered(422, "Invalid", "is invalid", causes=[OTHER_UID]), "TooLarge", False, LESS_DATA),
        (
            answered(400, "BadRequest", f'admission webhook "{WEBHOOK}" denied the request: no'),
            "DeniedByWebhook",
            False,
            [WEBHOOK],
        ),
        (
            answered(500, "InternalError", f'Internal error occurred: failed calling webhook "{WEBHOOK}": timeout'),
            "WebhookUnreachable",
            True,
            [WEBHOOK, "controller"],
        ),
        (
            answered(
                403,
                "Forbidden",
                'trainjobs.trainer.kubeflow.org is forbidden: User "system:serviceaccount:airflow:worker" cannot '
                'create resource "trainjobs" in API group "trainer.kubeflow.org" in the namespace "ns"',
            ),
            "NoPermission",
            False,
            ["system:serviceaccount:airflow:worker may not create trainjobs", "'ns'", "RoleBinding"],
        ),
        (
            answered(403, "Forbidden", 'pods "p" is forbidden: violates PodSecurity "restricted:latest"'),
            "Forbidden",
            False,
            ['violates PodSecurity "restricted:latest"'],
        ),
        (
            answered(403, "Forbidden", 'pods "p" is forbidden: exceeded quota: q, requested: cpu=2, limited: cpu=1'),
            "QuotaExceeded",
            True,
            ["exceeded quota: q", "'ns'"],
        ),
        (
            answered(
                400,
                "BadRequest",
                'TrainJob in version "v1alpha1" cannot be handled as a TrainJob: strict decoding error: unknown field '
                '"spec.bad", unknown field "spec.trainer.worse"',
            ),
            "UnknownField",
            False,
            ["spec.bad, spec.trainer.worse"],
        ),
        (
            answered(
                422,
                "Invalid",
                "is invalid",
                causes=[{"field": "spec.a", "message": "Required value"}, {"field": "spec.b", "message": "too long"}],
            ),
            "Invalid",
            False,
            ["spec.a: Required value; spec.b: too long"],
        ),
        (
            answered(404, "NotFound", 'namespaces "ns" not found'),
            "NamespaceMissing",
            False,
            ["no namespace 'ns'", "[trainer] namespace"],
        ),
        (
            answered(
                403,
                "Forbidden",
                "is forbidden: unable to create new content in namespace ns because it is being terminated",
            ),
            "NamespaceTerminating",
            False,
            ["'ns' is being deleted"],
        ),
        (answered(404, "NotFound", 'trainjobs "a" not found'), "NotFound", False, ['trainjobs "a" not found']),
        (
            api_error(WHAT, 404, b"404 page not found\n", {}),
            "CrdMissing",
            False,
            ["trainjobs.trainer.kubeflow.org", "v1alpha1", "Install Kubeflow Trainer"],
        ),
        (answered(409, "AlreadyExists", '"a" already exists'), "AlreadyExists", False, ['"a" already exists']),
        (answered(409, "Conflict", "modified"), "Conflict", True, ["modified"]),
        (answered(410, "Expired", "too old"), "Expired", True, ["too old"]),
        (answered(401, "Unauthorized", "Unauthorized"), "Unauthorized", True, ["token or certificate"]),
        (answered(500, "InternalError", "etcd"), "InternalError", True, ["TrainJob", "'ns'", "etcd"]),
        (ApiError("POST /x: ServerDisconnectedError"), "NoAnswer", True, ["did not answer"]),
        (
            ApiError("POST /x: certificate", reason=BAD_CERTIFICATE),
            BAD_CERTIFICATE,
            True,
            ["certificate-authority-data"],
        ),
    ],
)
def test_refusals_are_distinguished(error, reason, retryable, words):
    found = explain(error, TRAIN_JOBS, "ns")

    assert (found.reason, found.retryable) == (reason, retryable)
    assert [word for word in words if word not in found.text] == []


@pytest.mark.parametrize(
    ("error", "limit"),
    [
        (
            answered(500, "", "etcdserver: request is too large"),
            "what the cluster stores, 1.5 MiB with all that it adds.",
        ),
        (api_error(WHAT, 413, b"<html>", {}), "what a proxy before the API server passes on."),
    ],
)
def test_an_object_that_is_too_large_is_named_with_its_size(error, limit):
    error.sent_bytes = 1_600_000

    assert f"This TrainJob of 1600000 bytes as JSON is larger than {limit}" in explain(error, TRAIN_JOBS, "ns").text


def test_a_missing_version_of_a_crd_names_what_brings_it():
    found = explain(api_error(WHAT, 404, b"404 page not found\n", {}), MPI_JOBS, "ns")

    assert "mpijobs.kubeflow.org is missing, or lacks this version" in found.text
    assert "Install the MPI Operator" in found.text


def test_ends_a_submit_with_it():
    error = refusal(answered(404, "NotFound", 'namespaces "ns" not found'), TRAIN_JOBS, "ns")

    assert "There is no namespace 'ns'" in str(error)
    assert not error.retryable
