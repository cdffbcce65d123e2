"""What a reason of Kubernetes or of a backend means for the next try. One row per reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

RetryCanHelp = Literal["yes", "no", "unknown"]
#: What kind of failure it is.
FailureKind = Literal["memory", "disk", "infrastructure", "image", "user", "rejected", "start", "deadline", "unknown"]
#: What can resolve a cause that keeps a job from starting: time itself, someone who corrects it, or nothing.
Hope = Literal["itself", "someone", "none"]

#: The prefix of an init container's reason.
INIT = "Init:"
#: The prefix of the reason of a container, other than the training's, that made the pod fail.
SIDECAR = "Sidecar:"
#: The reason of a job, or a pod, that was ended because its deadline passed: nothing failed.
DEADLINE = "DeadlineExceeded"
#: Reasons why the kubelet cannot start a container yet, which only events have.
NODE_WARNINGS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox")
#: The reason of Trainer's controller when it could not create a JobSet, or an object that the JobSet needs.
NO_JOB_SET = "TrainJobResourcesCreationFailed"
#: The reason of a replica that ended with an exit code after which no restart helps, according to the job's spec.
PERMANENT_EXIT_CODE = "PermanentExitCode"
#: The reason of a local job's attempt whose files cannot be written.
NOT_PREPARED = "PreparationFailed"
#: The reason of a replica that used more memory than allowed.
OUT_OF_MEMORY = "OOMKilled"
#: The reason of a replica whose pod was deleted, and of a job of which a part was deleted.
DELETED = "Deleted"
#: The reason of a container that its node lost: how it ended is unknown.
LOST_CONTAINER = "ContainerStatusUnknown"
#: Reasons of a replica that ended by itself: its message is the end of its log.
BY_ITSELF = ("Error", PERMANENT_EXIT_CODE)
#: The reason of a container that its node creates, whose image it may have to pull before.
CREATING = "ContainerCreating"
#: Reasons of a replica that starts normally: each replica passes through these.
ON_THE_WAY = (None, CREATING, "PodInitializing", f"{INIT}{CREATING}")


@dataclass(frozen=True)
class Cause:
    """What a reason means.

    :param retry_can_help: whether the same job, tried again unchanged, can succeed.
    :param infrastructure: whether the cluster or the machine failed, and not the user's job.
    :param way_out: one sentence: what to do about it.
    :param kind: what kind of failure it is.
    :param hope: what can resolve it, while it keeps a job from starting.
    """

    retry_can_help: RetryCanHelp = "unknown"
    infrastructure: bool = False
    way_out: str | None = None
    kind: FailureKind = "unknown"
    hope: Hope = "itself"


_UNKNOWN = Cause()
_ERROR = Cause(kind="user")


def _failed_it(retry_can_help: RetryCanHelp, way_out: str) -> Cause:
    """The cause of a failure of the cluster or the machine."""
    return Cause(retry_can_help, True, way_out, "infrastructure")


_LOST = _failed_it("yes", "Nothing is wrong with the job: try it again, and let it resume from a checkpoint.")
_FULL = _failed_it("yes", "The node had less room than the scheduler thought: try it again.")
_REGISTRY = replace(
    _failed_it("unknown", "The registry did not answer: try it again, and check the nodes' way to it."), hope="someone"
)
_API = _failed_it("yes", "The API server, or a webhook that it asks, did not answer the controller: try it again.")
_SANDBOX = _failed_it("unknown", "The node cannot set up the pod's network: try it again, or ask who runs it.")
_QUOTA = _failed_it("yes", "Wait until other jobs end, ask for less, or have the namespace's quota raised.")
_COMMAND = Cause("no", way_out="Correct command: the image has no such program, or it is not executable.", kind="user")
_IMAGE = Cause(
    "no",
    way_out="Correct image, or give the pods the right to pull it (pod.image_pull.secrets).",
    kind="image",
    hope="someone",
)
_NO_IMAGE = replace(_IMAGE, hope="none")
_REFUSED = Cause(
    "no", way_out="The cluster refuses what the job needs: correct what the message names.", kind="rejected"
)
_POD_SECURITY = Cause(
    "no",
    way_out="Give the pods the securityContext that the message asks for, in pod_template (docs/how-to/kubernetes.md "
    "has it). A container that is not the job's own is added by an operator or a webhook: have it changed there, or "
    "use another backend.",
    kind="rejected",
    hope="someone",
)
_AMOUNTS = Cause(
    "no",
    way_out="Set what the message names in resources_per_node, for an MPI launcher in replicas.launcher.resources, or "
    "have a LimitRange of the namespace set it.",
    kind="rejected",
    hope="someone",
)
_CONFIG = Cause(
    "no",
    way_out="Create the Secret, ConfigMap or key that the message names, or correct the field that refers to it.",
    kind="rejected",
    hope="someone",
)
_MOUNT = Cause(
    way_out="The node cannot mount a volume: check the claim that volumes names, its storage class and its driver.",
    kind="start",
)
_CLAIM = Cause(
    way_out="Create the claim, correct volumes, or name a storage_class that the cluster can provision from.",
    kind="start",
)
_FETCH = Cause(
    way_out="Correct what the message names: a git or s3 source of volumes, its Secret, or its image.", kind="user"
)
_DISK = Cause(
    "no", way_out="Write less to the container's disk, or raise its ephemeral-storage in pod_template.", kind="disk"
)
_PREPARATION = Cause(
    "yes", way_out="Cure what the message names: on a full disk, make room for [trainer] local_root.", kind="start"
)
_CONTAINER = Cause(
    way_out="Correct what the message names: a mount, a device or a security setting of pod or pod_template.",
    kind="rejected",
    hope="someone",
)
_SIDECAR = Cause(
    way_out="Correct the container that the message names: in pod_template, or where it is added to the pods. As an "
    "init container with restartPolicy Always it would not fail them.",
    kind="user",
)
_SHARED_MEMORY = Cause(
    way_out="Give each replica more shared memory, with resources_per_node.shared_memory: 'auto' or a size; or start "
    "fewer data loader workers.",
    kind="memory",
)
_MEMORY = Cause("no", way_out="Raise resources_per_node.memory, or let the training hold less.", kind="memory")


#: Reasons of a controller that could not create a pod.
_POD_NOT_CREATED = frozenset({"FailedCreate", "FailedCreatePod"})
#: Reasons of a controller that could not create an object.
_NOT_CREATED = frozenset(
    {
        *_POD_NOT_CREATED,
        "FailedCreateService",
        "HeadlessServiceCreationFailed",
        "JobCreationFailed",
        "PVCCreationFailed",
        NO_JOB_SET,
    }
)
#: The MPI Operator has one reason for all failures; with this in the message, it could not create a pod.
_MPI_NOT_CREATED = ("MPIJobFailed", "pod created failed")


def _rows(cause: Cause, reasons: str) -> Iterable[tuple[str, Cause]]:
    return ((reason, cause) for reason in reasons.split())


_CAUSES: dict[str, Cause] = dict(
    [
        *_rows(_ERROR, "Error"),
        *_rows(_MEMORY, OUT_OF_MEMORY),
        (
            PERMANENT_EXIT_CODE,
            Cause(
                "no",
                way_out="run_policy.exit_codes declares this exit code permanent: correct what the job failed of, or "
                "the field.",
                kind="user",
            ),
        ),
        (NOT_PREPARED, _PREPARATION),
        *_rows(_COMMAND, "CommandNotFound CommandNotExecutable StartError ContainerCannotRun"),
        *_rows(_NO_IMAGE, "InvalidImageName ErrImageNeverPull"),
        *_rows(_IMAGE, "ErrImagePull ImagePullBackOff ImageInspectError SignatureValidationFailed"),
        *_rows(_REGISTRY, "RegistryUnavailable"),
        *_rows(_CONFIG, "CreateContainerConfigError"),
        *_rows(_CONTAINER, "CreateContainerError RunContainerError PreCreateHookError PreStartHookError"),
        (
            "Unschedulable",
            Cause(way_out="Ask for less, correct scheduling, or wait until there is room.", kind="start"),
        ),
        ("SchedulingGated", Cause(way_out="Whatever set the pods' scheduling gates has to remove them.", kind="start")),
        (
            "StartupTimeout",
            Cause(way_out="Cure what the message names, or raise run_policy.startup_timeout_seconds.", kind="start"),
        ),
        (
            DEADLINE,
            Cause(way_out="Raise run_policy.active_deadline_seconds, or train faster.", kind="deadline"),
        ),
        *_rows(_LOST, "Evicted Preempting PreemptionByScheduler DeletionByTaintManager EvictionByEvictionAPI"),
        *_rows(_LOST, "TerminationByKubelet DeletionByPodGC NodeLost NodeShutdown Shutdown Terminated"),
        *_rows(_LOST, f"{LOST_CONTAINER} {DELETED} SupervisorLost"),
        *_rows(_FULL, "UnexpectedAdmissionError NodeAffinity"),
        *_rows(_REFUSED, " ".join(sorted(_NOT_CREATED))),
        *_rows(_MOUNT, "FailedMount FailedAttachVolume FailedMapVolume"),
        *_rows(_SANDBOX, "FailedCreatePodSandBox"),
        *_rows(_REFUSED, "MPIJobFailedValidation ValidationError TrainingRuntimeNotSupported"),
    ]
)
#: Messages that show the cause more precisely than the reason: reasons, a pattern of the message, cause.
_BY_MESSAGE: tuple[tuple[frozenset[str], re.Pattern[str], Cause], ...] = (
    (
        frozenset({"ErrImagePull", "ImagePullBackOff"}),
        re.compile(r"timeout|toomanyrequests|\b(429|500|502|503|504)\b", re.IGNORECASE),
        _REGISTRY,
    ),
    (
        _NOT_CREATED,
        re.compile(r"quota exceeded|exceed\w* .*\bquota|podgroup phase is pending", re.IGNORECASE),
        _QUOTA,
    ),
    (
        _NOT_CREATED,
        re.compile(r"failed calling webhook|context deadline exceeded|status unknown for quota|not yet ready"),
        _API,
    ),
    (_NOT_CREATED, re.compile(r"violates PodSecurity"), _POD_SECURITY),
    (_NOT_CREATED, re.compile(r"must specify (limits|requests)\."), _AMOUNTS),
    # The API server itself has rejected the object, and does so again until someone changes the object or the rule.
    (
        _NOT_CREATED,
        re.compile(
            r"is forbidden|is invalid|denied|(entity|request is) too large|larger than max|not declared in schema"
        ),
        replace(_REFUSED, hope="someone"),
    ),
    (
        _NOT_CREATED,
        re.compile(
            r"time(d )?out|connection (refused|reset)|internal error|etcdserver|too many requests|try again"
            r"|has been modified|no endpoints|\bEOF\b|unavailable",
            re.IGNORECASE,
        ),
        _API,
    ),
    (
        frozenset({"FailedMount"}),
        re.compile(r'\b(configmap|secret) "[^"]*" not found|references non-existent', re.IGNORECASE),
        _CONFIG,
    ),
    # The scheduler also waits for claims.
    (frozenset({"Unschedulable"}), re.compile(r"persistentvolumeclaim", re.IGNORECASE), _CLAIM),
    (frozenset({"Error", "CrashLoopBackOff"}), re.compile(r"^init container fetch-"), _FETCH),
    (
        frozenset({"Evicted"}),
        re.compile(r"EmptyDir volume \S+ exceeds the limit"),
        Cause("no", way_out="Write less to the volume, or raise its limit: empty_dir.size in volumes.", kind="disk"),
    ),
    # The pod exceeded its own limit; its node did not run out of disk space.
    (frozenset({"Evicted"}), re.compile(r"exceeds the (total )?limit|exceeds its local ephemeral storage"), _DISK),
)
#: Log lines that show a cause that the reason does not show: a pattern of a line, cause.
_BY_LOG: tuple[tuple[re.Pattern[str], Cause], ...] = (
    (
        re.compile(
            r"\bbus error\b|\b(insufficient|out of) shared memory\b|/dev/shm\b.*(no space left|not enough space)"
            r"|(no space left|not enough space).*/dev/shm\b|shared memory segment /dev/shm",
            re.IGNORECASE,
        ),
        _SHARED_MEMORY,
    ),
)
#: Log lines in which the runner of a function reports its own faults: a pattern of a line, cause.
_BY_RUNNER: tuple[tuple[re.Pattern[str], Cause], ...] = (
    (
        re.compile(r"\btrainer runner: cannot load the function: "),
        Cause(
            "no",
            way_out="The function's code could not be loaded where the job runs: use an image that has the modules and "
            "the Python version that it needs, or add modules of your own to include=.",
            kind="user",
        ),
    ),
    (
        re.compile(r"\btrainer runner: cannot write the function's value "),
        Cause(way_out="Let the container's user write the file, and its launcher pass the variable on.", kind="user"),
    ),
)
#: Signal that ends a process -> cause.
_BY_SIGNAL = {"SIGBUS": _SHARED_MEMORY}
#: The kubelet names the resource: OutOfcpu, OutOfmemory, OutOfnvidia.com/gpu.
_OUT_OF = "OutOf"


def cause_of_runner(log: Sequence[str]) -> Cause | None:
    """The cause that the runner of a function reports for a fault of its own; None where it reports none.

    :param log: the last lines of a process.
    """
    found = (cause for pattern, cause in _BY_RUNNER if any(pattern.search(line) for line in log))
    return next(found, None)


def cause_of_end(signal: str | None, log: Sequence[str]) -> Cause | None:
    """The cause of a process's end where its reason does not show it.

    :param signal: the signal that ended it.
    :param log: its last lines.
    :return: None where neither shows a cause.
    """
    found = (cause for pattern, cause in _BY_LOG if any(pattern.search(line) for line in log))
    return next(found, None) or _BY_SIGNAL.get(signal or "")


def cause_of(reason: str | None, message: str | None = None) -> Cause:
    """What a reason means for the next try.

    :param reason: of a replica or a job.
    :param message: the message of the reason.
    """
    word = _common((reason or "").removeprefix(INIT), message)
    if word.startswith(SIDECAR):
        return _SIDECAR
    for reasons, pattern, cause in _BY_MESSAGE:
        if word in reasons and pattern.search(message or ""):
            return cause
    return _FULL if word.startswith(_OUT_OF) else _CAUSES.get(word, _UNKNOWN)


def is_of_pod_creation(reason: str | None, message: str | None = None) -> bool:
    """Whether a controller reports that it could not create a pod.

    :param reason: of a job.
    :param message: the message of the reason.
    """
    return _common(reason or "", message) in _POD_NOT_CREATED


def _common(reason: str, message: str | None) -> str:
    """The reason that other controllers use for the same failure."""
    is_pod = reason == _MPI_NOT_CREATED[0] and _MPI_NOT_CREATED[1] in (message or "")
    return "FailedCreatePod" if is_pod else reason
