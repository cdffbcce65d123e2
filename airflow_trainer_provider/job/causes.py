"""What a reason of Kubernetes, or of a backend, means for the next try. One row per reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

RetryCanHelp = Literal["yes", "no", "unknown"]

#: Stands before the reason of an init container.
INIT = "Init:"
#: Reasons of a replica that nothing hinders: each passes through these.
ON_THE_WAY = (None, "ContainerCreating", "PodInitializing", f"{INIT}ContainerCreating")


@dataclass(frozen=True)
class Cause:
    """What a reason means.

    :param retry_can_help: whether the same job, tried again unchanged, can succeed.
    :param infrastructure: whether the cluster or the machine failed, and not what the user gave it to run.
    :param way_out: one sentence: what to do about it.
    """

    retry_can_help: RetryCanHelp = "unknown"
    infrastructure: bool = False
    way_out: str | None = None


_UNKNOWN = Cause()
_LOST = Cause("yes", True, "Nothing is wrong with the job: try it again, and let it resume from a checkpoint.")
_FULL = Cause("yes", True, "The node had less room than the scheduler thought: try it again.")
_COMMAND = Cause("no", way_out="Correct command: the image has no such program, or it is not executable.")
_IMAGE = Cause(
    "no", way_out="Correct image, or give the pods the right to pull it (pod_template.spec.imagePullSecrets)."
)
_REGISTRY = Cause("unknown", True, "The registry did not answer: try it again, and check the nodes' way to it.")
_REFUSED = Cause("no", way_out="The cluster refuses what the job needs: correct what the message names.")
_CONFIG = Cause("no", way_out="Create the Secret, ConfigMap or key that the message names, or correct pod_template.")
_QUOTA = Cause("yes", True, "Wait until other jobs end, ask for less, or have the namespace's quota raised.")
_DISK = Cause("no", way_out="Write less to the container's disk, or raise its ephemeral-storage in pod_template.")
_CONTAINER = Cause(way_out="Correct what the message names: a mount, a device or a security setting of pod_template.")
_MEMORY = Cause("no", way_out="Raise resources_per_node.memory, or let the training hold less.")


def _rows(cause: Cause, reasons: str) -> Iterable[tuple[str, Cause]]:
    return ((reason, cause) for reason in reasons.split())


_CAUSES: dict[str, Cause] = dict(
    [
        *_rows(_MEMORY, "OOMKilled"),
        *_rows(_COMMAND, "CommandNotFound CommandNotExecutable StartError ContainerCannotRun"),
        *_rows(_IMAGE, "InvalidImageName ErrImageNeverPull ErrImagePull ImagePullBackOff ImageInspectError"),
        *_rows(_IMAGE, "SignatureValidationFailed"),
        *_rows(_REGISTRY, "RegistryUnavailable"),
        *_rows(_CONFIG, "CreateContainerConfigError"),
        *_rows(_CONTAINER, "CreateContainerError RunContainerError PreCreateHookError PreStartHookError"),
        (
            "Unschedulable",
            Cause(way_out="Ask for less, correct node selectors and tolerations, or wait until there is room."),
        ),
        ("SchedulingGated", Cause(way_out="Whatever set the pods' scheduling gates has to remove them.")),
        (
            "StartupTimeout",
            Cause(way_out="Cure what the message names, or raise run_policy.startup_timeout_seconds."),
        ),
        ("DeadlineExceeded", Cause(way_out="Raise run_policy.active_deadline_seconds, or train faster.")),
        *_rows(_LOST, "Evicted Preempting PreemptionByScheduler DeletionByTaintManager EvictionByEvictionAPI"),
        *_rows(_LOST, "TerminationByKubelet DeletionByPodGC NodeLost NodeShutdown Shutdown Terminated"),
        *_rows(_LOST, "ContainerStatusUnknown Deleted SupervisorLost"),
        *_rows(_FULL, "UnexpectedAdmissionError NodeAffinity"),
        *_rows(_REFUSED, "FailedCreate FailedCreatePod FailedCreateService TrainJobResourcesCreationFailed"),
        *_rows(_REFUSED, "JobCreationFailed HeadlessServiceCreationFailed PVCCreationFailed"),
        *_rows(_REFUSED, "MPIJobFailedValidation ValidationError TrainingRuntimeNotSupported"),
    ]
)
#: What the message says is nearer to the cause than the reason: reasons, what the message holds, cause.
_BY_MESSAGE: tuple[tuple[frozenset[str], re.Pattern[str], Cause], ...] = (
    (
        frozenset({"ErrImagePull", "ImagePullBackOff"}),
        re.compile(r"timeout|toomanyrequests|\b(429|500|502|503|504)\b", re.IGNORECASE),
        _REGISTRY,
    ),
    (
        frozenset({"FailedCreate", "FailedCreatePod", "JobCreationFailed", "TrainJobResourcesCreationFailed"}),
        re.compile(r"exceeded quota"),
        _QUOTA,
    ),
    # A pod over its own limit, and not on a node that had no disk left for anybody.
    (frozenset({"Evicted"}), re.compile(r"exceeds the (total )?limit|exceeds its local ephemeral storage"), _DISK),
)
#: The kubelet names the resource: OutOfcpu, OutOfmemory, OutOfnvidia.com/gpu.
_OUT_OF = "OutOf"


def cause_of(reason: str | None, message: str | None = None) -> Cause:
    """What a reason means for the next try.

    :param reason: of a replica or a job.
    :param message: what was said with it.
    """
    word = (reason or "").removeprefix(INIT)
    for reasons, pattern, cause in _BY_MESSAGE:
        if word in reasons and pattern.search(message or ""):
            return cause
    return _FULL if word.startswith(_OUT_OF) else _CAUSES.get(word, _UNKNOWN)
