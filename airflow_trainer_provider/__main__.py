"""``python -m airflow_trainer_provider``."""

from __future__ import annotations

import sys

from airflow_trainer_provider.cli import main

if __name__ == "__main__":
    sys.exit(main())
