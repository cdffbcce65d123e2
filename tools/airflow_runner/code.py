"""Whether an Airflow that runs was started from the code that is there now."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

#: What an instance has in memory, or was set up by. DAG files are not: Airflow reads them again.
LOADED = (
    "pyproject.toml",
    "constraints/*.txt",
    "airflow_trainer_provider/**/*.py",
    "tools/airflow_runner/**/*.py",
)


def code_digest(checkout: Path = CHECKOUT) -> str:
    """
    Return a digest of the package, its pinned dependencies, the runner and the Python.

    :param checkout: the project's folder.
    """
    digest = hashlib.sha256(sys.version.encode())
    for pattern in LOADED:
        for path in sorted(checkout.glob(pattern)):
            digest.update(f"\n{path.relative_to(checkout)} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
