"""The backends by name. A new one is one word here."""

from __future__ import annotations

#: Runs jobs on the worker's own machine.
LOCAL = "local"
#: Looks what the cluster has.
AUTO = "auto"
#: Those of a cluster are the names in :mod:`airflow_trainer_provider.kinds.registry`, which the local one does without.
BACKENDS = (LOCAL, "trainer", "training-operator", "mpi-operator", "native")
