"""What a Job does after a pod has failed, by how it failed.

https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.spec.running.exit_codes import KILLED, ExitCodes

#: The reason of a Job that a rule has failed.
REASON = "PodFailurePolicy"


def on_disruption(action: str) -> Manifest:
    """The rule for a pod that the cluster took away.

    :param action: of the Job.
    """
    return {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def pod_failure_policy(codes: ExitCodes | None, container: str) -> Manifest:
    """The fields of a Job that fails after some exit codes, whatever its back-off limit allows.

    :param codes: those of the job's spec; without them there are no such fields.
    :param container: the training's; sidecars decide nothing.
    """
    if codes is None:
        return {}
    # An eviction ends the process too, with an exit code that says nothing of the training. So do a suspension, with
    # SIGTERM and then SIGKILL, and the kernel where memory is short; a pod has no condition for these.
    rules = [
        on_disruption("Count"),
        {"action": "Count", "onExitCodes": _on_codes(container, "In", KILLED)},
        {"action": "FailJob", "onExitCodes": _on_codes(container, "In" if codes.fail else "NotIn", codes.listed)},
    ]
    return {"podFailurePolicy": {"rules": rules}}


def _on_codes(container: str, operator: str, values: Iterable[int]) -> Manifest:
    return {"containerName": container, "operator": operator, "values": list(values)}
