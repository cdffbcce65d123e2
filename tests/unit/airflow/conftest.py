"""An Airflow without a scheduler, a database of its own, or anybody's home."""

from __future__ import annotations

import os
import tempfile

# Before the first import of airflow, which writes its configuration there.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-unit-"))
