from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster.api import retry


@pytest.fixture(autouse=True)
def repeat_soon(monkeypatch):
    """The client repeats requests soon."""
    monkeypatch.setattr(retry, "_SHORTEST", 0.001)
