"""TensorFlow: every replica reads the cluster and its own task from TF_CONFIG.

https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable
"""

from __future__ import annotations

import json

from airflow_trainer_provider.frameworks.remember import remember_last
from airflow_trainer_provider.job.plan.framework import Addresses, Framework, Role
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica


def _environment(job: JobPlan, replica: Replica, addresses: Addresses) -> dict[str, str]:
    task = json.dumps({"type": replica.group, "index": replica.index})
    return {"TF_CONFIG": f'{{"cluster": {_cluster(job, addresses)}, "task": {task}}}'}


@remember_last
def _cluster(job: JobPlan, addresses: Addresses) -> str:
    cluster: dict[str, list[str]] = {}
    for replica in job.replicas:
        # An evaluator watches checkpoints; TensorFlow does not count it as a part of the cluster.
        if replica.group != "evaluator":
            cluster.setdefault(replica.group, []).append(str(addresses[replica.name]))
    return json.dumps(cluster)


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
