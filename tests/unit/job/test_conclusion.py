"""A conclusion comes out of a trigger's event as it went in."""

from __future__ import annotations

import json

import pytest

from airflow_trainer_provider.job.conclusion import Conclusion
from airflow_trainer_provider.job.diagnosis import Diagnosis

FAILURE = Diagnosis(
    job="j",
    phase="failed",
    reason="Error",
    message="It broke.",
    traceback=("Traceback", "ValueError"),
    last_log_lines=("one", "two"),
    others=({"replica": "worker-1", "exit_code": None},),
)


@pytest.mark.parametrize(
    "conclusion", [Conclusion(summary={"phase": "succeeded", "result": [1, {"a": None}]}), Conclusion(failure=FAILURE)]
)
def test_it_comes_out_as_it_went_in(conclusion):
    assert Conclusion.parse(json.loads(json.dumps(conclusion.to_json()))) == conclusion
