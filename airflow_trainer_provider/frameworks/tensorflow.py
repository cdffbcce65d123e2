"""TensorFlow: every replica learns the cluster and its own task from TF_CONFIG.

https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable
"""

from __future__ import annotations

import json

from airflow_trainer_provider.frameworks.base import Addresses, Framework, Role
from airflow_trainer_provider.frameworks.layout import Job, Replica


def _environment(job: Job, replica: Replica, addresses: Addresses) -> dict[str, str]:
    cluster: dict[str, list[str]] = {}
    for other in job.replicas:
        # An evaluator watches checkpoints; TensorFlow does not count it as a part of the cluster.
        if other.group != "evaluator":
            cluster.setdefault(other.group, []).append(str(addresses[other.name]))
    task = {"type": replica.group, "index": replica.index}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


FRAMEWORK = Framework(
    name="tensorflow",
    title="TensorFlow",
    roles=(
        Role("chief", most=1),
        Role("worker"),
        Role("ps", waited_for=False),
        Role("evaluator", most=1, waited_for=False),
    ),
    automatic="chief",
    environment=_environment,
)
