"""What rank 0 wrote, or why it is not a result."""

from __future__ import annotations

import json

import pytest

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.result import (
    RESULT_LIMIT_BYTES,
    VALUE_LIMIT_BYTES,
    Result,
    failed_figures,
    no_value,
    read_result,
    summarize,
    without_large_value,
)
from airflow_trainer_provider.job.status import JobPhase, JobStatus, Progress, ReplicaStatus
from airflow_trainer_provider.text.redaction import redacted

HANDLE = JobHandle(name="j", uid="u", backend="b", framework="f", leader="worker-0", owner=1, location="/l")


@pytest.mark.parametrize(
    ("content", "result"),
    [(None, None), (b"", None), (b" \n", None), (b"null", None), (b'{"a": [1, 2.5]}', {"a": [1, 2.5]}), (b"3", 3)],
)
def test_a_result_is_any_json_and_an_empty_one_is_none(content, result):
    assert read_result(content) == Result(result)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{'a': 1}", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"NaN", "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b"1e999", "1e999 is too large a number"),
        (b'{"a": 18446744073709551616}', "18446744073709551616 is too large a number"),
        (b"-9223372036854775809", "-9223372036854775809 is too large a number"),
        (b"[" * 4000, "not JSON"),
        (b'"a\\u0000b"', "the result has the character U+0000, which databases do not store. Write it in another form"),
        (b'{"a": "\\ud800"}', "the result has the character U+D800"),
        (b'{"__classname__": "x"}', "the result has the key '__classname__'"),
        (b"[" * 51 + b"]" * 51, "the result has more than 50 levels"),
        (
            b"1" * (RESULT_LIMIT_BYTES + 1),
            "more than 4095 bytes, which are the most that are kept. Write large results",
        ),
    ],
)
def test_what_is_no_result(content, why):
    result = read_result(content)

    assert result.value is None
    assert why in result.error


@pytest.mark.parametrize(
    ("content", "result"),
    [
        (b'{"trainer_function":"f","value":[1]}', Result([1], None, "f")),
        (b'{"trainer_function":"f","value":null}', Result(None, None, "f")),
        (b'{"trainer_function":"f","error":"a set at its top"}', Result(None, "a set at its top", "f")),
        (b'{"trainer_function":"f\\u0000","error":"a\\ud800"}', Result(None, "a\ufffd", "f\ufffd")),
        (b'{"trainer_function":3}', Result({"trainer_function": 3})),
    ],
)
def test_a_function_wraps_its_value(content, result):
    assert read_result(content) == result


def test_the_limit_itself_is_allowed():
    content = json.dumps("x" * (RESULT_LIMIT_BYTES - 2)).encode()

    assert len(content) == RESULT_LIMIT_BYTES
    assert read_result(content).error is None


def test_a_functions_value_may_be_larger_than_a_scripts_result():
    status = JobStatus(phase=JobPhase.SUCCEEDED, queued_at="2026-01-01T00:00:00Z")
    wrapping = len(b'{"trainer_function":"f","value":""}')
    largest = b'{"trainer_function":"f","value":"%s"}' % (b"x" * (VALUE_LIMIT_BYTES - wrapping))

    summary = summarize(HANDLE, status, largest)
    assert (len(summary["result"]), summary["result_bytes"]) == (VALUE_LIMIT_BYTES - wrapping, VALUE_LIMIT_BYTES)
    assert without_large_value(summary) == {**summary, "result": None}
    assert "more than 262144 bytes" in read_result(largest + b" ").error
    small = summarize(HANDLE, status, b'{"trainer_function":"f","value":1}')
    assert "result_bytes" not in small
    assert without_large_value(small) == small


def test_why_there_is_no_value_is_read_as_an_error():
    assert read_result(no_value("f", "its lines are gone")) == Result(None, "its lines are gone", "f")


def test_metrics_are_the_numbers_among_the_results_metrics():
    status = JobStatus(phase=JobPhase.SUCCEEDED, queued_at="2026-01-01T00:00:00Z", started_at="2026-01-01T00:00:01.5Z")
    content = b'{"metrics": {"auc": 0.9, "rounds": 4, "name": "x", "ok": true}}'

    summary = summarize(HANDLE, status, content)

    assert summary["metrics"] == {"auc": 0.9, "rounds": 4}
    assert (summary["queue_seconds"], summary["run_seconds"]) == (1.5, None)
    assert json.loads(json.dumps(summary)) == summary
    for other in (b"[1]", b'{"metrics": [1]}', None):
        assert summarize(HANDLE, status, other)["metrics"] == {}


def test_a_handle_is_read_from_all_its_forms():
    mapping = HANDLE.to_xcom()

    assert JobHandle.parse(HANDLE) is HANDLE
    assert JobHandle.parse(mapping) == JobHandle.parse(json.dumps(mapping)) == HANDLE


@pytest.mark.parametrize("value", [None, 3, "", "null", "[1]", "{}", {"name": "j"}, [1], HANDLE.to_xcom() | {"x": 1}])
def test_what_is_no_handle(value):
    with pytest.raises(SpecError, match=r"train\.output\['job'\]") as caught:
        JobHandle.parse(value)

    assert caught.value.problems[0].field == "job"


def test_values_that_look_like_secrets_are_masked():
    secret = ("HF_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "wandb_api_key", "MYSQL_PWD", "PRIVATE_KEY")
    shown = {"EPOCHS": "4", "PWD": "/srv", "STORE": "s3://bucket/path"}

    masked = redacted(dict.fromkeys(secret, "hunter2") | shown | {"DB": "postgres://me:hunter2@db/x"})

    assert "hunter2" not in str(masked)
    assert shown.items() <= masked.items()
    assert masked["DB"] == "postgres://me:***@db/x"


def test_the_figures_of_a_job_that_did_not_succeed_are_named_as_in_a_summary():
    status = JobStatus(
        phase=JobPhase.FAILED,
        queued_at="2026-01-01T00:00:00Z",
        started_at="2026-01-01T00:00:02Z",
        finished_at="2026-01-01T00:01:02Z",
        restarts=1,
        progress=Progress(metrics={"loss": 0.5}),
    )

    figures = failed_figures(status)

    assert figures == {
        "restarts": 1,
        "metrics": {"loss": 0.5},
        "queue_seconds": 2.0,
        "run_seconds": 60.0,
        "total_seconds": 62.0,
    }
    assert figures.items() <= summarize(HANDLE, status, None).items()


def test_what_no_database_stores_is_replaced_in_what_is_counted_and_said_of_a_job():
    replica = ReplicaStatus(group="worker", index=0, message="a\x00\ud800")
    # Metrics of a TrainJob may be another client's.
    progress = Progress(metrics={"a\x00": float("nan")})
    status = JobStatus(phase=JobPhase.FAILED, queued_at="2026-01-01T00:00:00Z", replicas=(replica,), progress=progress)

    summary = summarize(HANDLE, status, None)

    assert summary["replicas"][0]["message"] == "a\ufffd\ufffd"
    assert summary["metrics"] == failed_figures(status)["metrics"] == {"a\ufffd": "NaN"}


def test_a_handle_leaves_out_fields_that_hold_nothing():
    more = {"tools": {"tb": "http://tb/"}, "expires": True}

    assert HANDLE.to_xcom().keys().isdisjoint(more)
    assert HANDLE.model_copy(update=more).to_xcom() == {**HANDLE.to_xcom(), **more}
