"""The file that says what to run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.frameworks.layout import Job, lay_out
from airflow_trainer_provider.kinds.manifest import ManifestJob, manifest_job
from airflow_trainer_provider.spec import parse_manifest_spec, parse_spec


def read_job(path: str) -> Job | ManifestJob:
    """Read a job: the fields that an operator takes, ``manifest`` among them; or a manifest and nothing else.

    :param path: of the file; ``-`` for standard input.
    :raises SpecError: it cannot be read, or holds no job.
    """
    value = _read(path)
    if "apiVersion" in value or "kind" in value:
        value = {"manifest": value}
    return manifest_job(parse_manifest_spec(value)) if "manifest" in value else lay_out(parse_spec(value))


def _read(path: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text()
        value = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        allowed, fix = "a file with one YAML or JSON document", f"Correct it: {' '.join(str(error).split())}"
        raise SpecError([Problem("FILE", path, allowed, fix)]) from error
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        allowed = "a mapping: the fields of a job, or a Kubernetes manifest"
        raise SpecError([Problem("FILE", path, allowed, "See 'python -m airflow_trainer_provider submit --help'.")])
    return value
