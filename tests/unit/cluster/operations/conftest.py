from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster.operations import create, submit, suspension, wait


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Let the code that waits for the cluster look again soon."""
    monkeypatch.setattr(create, "_DOUBT_SECONDS", 0.01)
    for module in (wait, submit, suspension):
        monkeypatch.setattr(module, "_LOOK_SECONDS", 0.01)
