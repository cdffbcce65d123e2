"""The pod failure policy of a Job: how the Job reacts to a failed pod, depending on the failure.

https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.spec.running.exit_codes import KILLED, ExitCodes

#: The reason of a Job that failed because of a rule.
REASON = "PodFailurePolicy"


def on_disruption(action: str) -> Manifest:
    """The rule for a pod that the cluster disrupted.

    :param action: the Job's reaction.
    """
    return {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def pod_failure_policy(codes: ExitCodes | None, container: str) -> Manifest:
    """The fields that make a Job fail after some exit codes, whatever its back-off limit allows.

    :param codes: the exit codes of the job's spec; None for no such fields.
    :param container: the name of the training's container; the exit codes of sidecars are ignored.
    """
    if codes is None:
        return {}
    # An eviction also ends the process with an exit code, which says nothing about the training. So do a suspension,
    # with SIGTERM and then SIGKILL, and the kernel when it runs out of memory; a pod has no condition for these.
    rules = [
        on_disruption("Count"),
        {"action": "Count", "onExitCodes": _on_codes(container, "In", KILLED)},
        {"action": "FailJob", "onExitCodes": _on_codes(container, "In" if codes.fail else "NotIn", codes.listed)},
    ]
    return {"podFailurePolicy": {"rules": rules}}


def _on_codes(container: str, operator: str, values: Iterable[int]) -> Manifest:
    return {"containerName": container, "operator": operator, "values": list(values)}
