from __future__ import annotations

from types import SimpleNamespace

import pytest
import structlog
from structlog.contextvars import bound_contextvars, get_contextvars

from airflow_trainer_provider.hooks.supervisor import task_log
from airflow_trainer_provider.hooks.supervisor.task_log import write_line


@pytest.mark.parametrize("kept", [{}, {"trigger_id": 7}], ids=["worker", "triggerer"])
def test_a_line_carries_only_what_its_log_is_found_by(monkeypatch, kept):
    written = []
    info = lambda line: written.append((line, get_contextvars()))  # noqa: E731
    monkeypatch.setattr(task_log, "_log", SimpleNamespace(info=info))

    with bound_contextvars(dag_id="retrain", ti_id="0198", **kept):
        write_line("[worker-0] 100 % done")
        assert get_contextvars() == {"dag_id": "retrain", "ti_id": "0198", **kept}

    assert written == [("[worker-0] 100 % done", kept)]


def test_a_line_is_logged_as_it_is():
    with structlog.testing.capture_logs() as entries:
        write_line("[worker-0] 100 %s {done}")

    assert entries == [{"event": "[worker-0] 100 %s {done}", "log_level": "info"}]
