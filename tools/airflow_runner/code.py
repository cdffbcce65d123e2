"""Finds out whether a running Airflow was started from the current code."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

#: The files that an instance has in memory, or was set up from. DAG files are not among them: Airflow reads them again.
LOADED = (
    "pyproject.toml",
    "constraints/*.txt",
    "airflow_trainer_provider/**/*.py",
    "tools/airflow_runner/**/*.py",
)


def code_digest(checkout: Path = CHECKOUT) -> str:
    """
    Return a digest of the package, its pinned dependencies, the runner and the version of Python.

    :param checkout: the project's folder.
    """
    digest = hashlib.sha256(sys.version.encode())
    for pattern in LOADED:
        for path in sorted(checkout.glob(pattern)):
            digest.update(f"\n{path.relative_to(checkout)} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
