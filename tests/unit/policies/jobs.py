"""Policies of the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_trainer_provider.policies.library import PolicyFile
from airflow_trainer_provider.policies.policy import Policy

REASON = "Because."


def policy(*rules: dict[str, Any], name: str = "one", **fields: Any) -> PolicyFile:
    """A policy; each rule has a reason unless it brings one."""
    given = [{"reason": REASON, **rule} for rule in rules]
    return PolicyFile(name, Path(f"/policies/{name}.yaml"), Policy.model_validate({"rules": given, **fields}))
