"""Where the harness keeps things: what is built (cache) and what belongs to a running cluster (state)."""

from __future__ import annotations

import os
from pathlib import Path

#: Source of the harness.
HERE = Path(__file__).parent
#: The checkout.
ROOT = HERE.parent.parent

#: A fixed place, not the cache: whoever runs ``down``, from whichever clone and with whichever environment, has
#: to find what an earlier ``up`` left running on this machine.
STATE = Path("/var/lib/airflow-trainer-provider/cluster")


def cache_root() -> Path:
    """Folder of everything built, shared by all checkouts of this user and keyed by content."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "airflow-trainer-provider"
