"""Error messages are printable and contain no secret."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.errors import (
    ApiError,
    BackendUnavailable,
    JobLost,
    ManageError,
    Problem,
    SpecError,
    SubmitError,
    TrainJobError,
    UnsupportedField,
)
from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis
from airflow_trainer_provider.job.diagnosis.failed import JobFailed

SECRET = "S3cret7Kx92value"
TEXT = f"\x1b[31mno answer\x1b[0m from http://u:{SECRET}@10.0.0.1:3128/x\u202e"


@pytest.mark.parametrize(
    "cls",
    [TrainJobError, ApiError, BackendUnavailable, SubmitError, ManageError, JobLost],
    ids=lambda cls: cls.__name__,
)
def test_the_message_of_an_error_is_cleaned(cls):
    assert str(cls(TEXT)) == "no answer from http://u:***@10.0.0.1:3128/x"


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("env.DB_PASSWORD", SECRET, "'***'"),
        ("env.DB_PASSWORD", "int", "'int'"),
        ("args", ["--token", SECRET], "['--token', '***']"),
        ("pod_template", {"spec": {"containers": [{"env": [{"name": "A_TOKEN", "value": SECRET}]}]}}, "'value': '***'"),
        ("image", f"https://u:{SECRET}@registry/x", "'https://u:***@registry/x'"),
        ("num_nodes", 0, "0"),
        ("framework", None, "None"),
    ],
)
def test_a_problem_shows_the_value_without_its_secret(field, value, shown):
    problem = Problem(field, value, "something else", "Change it.")

    for error in (SpecError([problem]), UnsupportedField("native", problem)):
        assert f"{field}: got" in str(error)
        assert shown in str(error)
        assert "allowed: something else. Change it." in str(error)
        assert SECRET not in str(error)


def test_the_code_in_a_traceback_stays_code():
    traceback = ("Traceback (most recent call last):", "    login(token=tok)", "ValueError: no")
    diagnosis = Diagnosis(job="j", phase="failed", reason="Error", message="it failed.", traceback=traceback)

    assert "    login(token=tok)" in str(JobFailed(diagnosis))


def test_an_error_names_all_problems():
    error = SpecError([Problem("num_nodes", 0, "1 or more", "Raise it."), Problem("image", None, "text", "Set image.")])

    assert str(error).splitlines() == [
        "Invalid training job (2 problems); nothing was started:",
        "  num_nodes: got 0; allowed: 1 or more. Raise it.",
        "  image: got None; allowed: text. Set image.",
    ]


def test_a_long_value_is_cut():
    error = SpecError([Problem("image", "x" * 5000, "text", "Shorten it.")])

    assert f"image: got '{'x' * 299}... (5002 characters); allowed: text." in str(error)
