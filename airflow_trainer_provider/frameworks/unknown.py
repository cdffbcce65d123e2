"""What is known of a job whose framework nobody named: nothing that its logs could be read by."""

from __future__ import annotations

from airflow_trainer_provider.frameworks.base import Addresses, Framework
from airflow_trainer_provider.frameworks.layout import Job, Replica


def _no_environment(job: Job, replica: Replica, addresses: Addresses) -> dict[str, str]:
    return {}


#: Of jobs that a manifest describes, or that something else made. No spec can name it.
FRAMEWORK = Framework(name="", title="an unknown framework", roles=(), environment=_no_environment)
