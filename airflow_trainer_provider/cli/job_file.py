"""The file that says what to run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.job.plan.plan import Plan
from airflow_trainer_provider.kinds.manifest import plan_manifest
from airflow_trainer_provider.operators.asked import Governed, asked_for
from airflow_trainer_provider.spec import parse_manifest_spec


def read_job(path: str, governed: Governed) -> Plan:
    """Read a job: the fields that an operator takes, ``manifest`` and ``presets`` among them; or a manifest only.

    :param path: of the file; ``-`` for standard input.
    :param governed: the policies; what they fill in is part of the job.
    :raises SpecError: it cannot be read, or holds no job.
    :raises PolicyViolation: a policy does not allow the job.
    """
    value = _read(path)
    if "apiVersion" in value or "kind" in value:
        value = {"manifest": value}
    manifest = {"manifest": value.pop("manifest")} if "manifest" in value else {}
    asked = asked_for(value.pop("presets", None), value, None)
    if not manifest:
        return governed.plan(governed.spec(asked))
    job = plan_manifest(parse_manifest_spec({**asked.fields, **manifest}))
    governed.check(job)
    return job


def _why(error: Exception) -> str:
    """What is wrong with the file. The parser's own message quotes the line, which can contain a secret."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {getattr(error, 'problem', None)}"


def _read(path: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text()
        value = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        allowed, fix = "a file with one YAML or JSON document", f"Correct it: {_why(error)}."
        raise SpecError([Problem("FILE", path, allowed, fix)]) from None
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        allowed = "a mapping: the fields of a job, or a Kubernetes manifest"
        raise SpecError([Problem("FILE", path, allowed, "See 'python -m airflow_trainer_provider submit --help'.")])
    return value
