"""MPIJob in its two versions: kubeflow.org/v1 of the Training Operator, and v2beta1 of the MPI Operator.

In v1 mpirun reaches the workers through ``kubectl exec``, in v2beta1 through ssh: the image then needs an sshd that
accepts root's key. https://github.com/kubeflow/mpi-operator/blob/v0.7.0/pkg/controller/mpi_job_controller.go

With ``backoff_limit``, v2beta1 restarts mpirun in a new pod, so that the logs of the earlier pods can still be read. It
restarts no worker, because nothing would limit the workers' restarts. v1 restarts the containers of launcher and
workers in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import PurePosixPath

from airflow_trainer_provider.errors import Problem, UnsupportedField
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.kinds.base import Facts, Manifest, Meta, Rendered, ReplicaRef, Resource
from airflow_trainer_provider.kinds.kind import Controller, Kind, ManifestRules, Renderer, Retention, Suspension
from airflow_trainer_provider.kinds.kubeflow import common, conditions, training_operator
from airflow_trainer_provider.kinds.objects import ssh
from airflow_trainer_provider.kinds.objects.files import MPI_FOLDER
from airflow_trainer_provider.kinds.objects.labels import written_groups
from airflow_trainer_provider.kinds.objects.mpi_launch import check_forwarded, check_settings, launcher_command
from airflow_trainer_provider.kinds.objects.pod import default_container, label_index, pod_template
from airflow_trainer_provider.kinds.objects.pod_check import pod_fields, security_contexts
from airflow_trainer_provider.kinds.status.containers import ended_for_good
from airflow_trainer_provider.spec.running.launcher import OPEN_MPI

_CONTAINER = "mpi"
_V1 = Resource("kubeflow.org/v1", "MPIJob", "mpijobs")
_V2BETA1 = Resource("kubeflow.org/v2beta1", "MPIJob", "mpijobs")
#: How long the launcher waits for a worker: v1 starts the launcher at once, and a worker may take long to pull its
#: image; v2beta1 starts it when the workers' containers already run.
_V1_SSH_SECONDS, _V2BETA1_SSH_SECONDS = 3600, 120
#: The command of the workers. They are terminated once the launcher has ended: a plain sleep would not react to
#: SIGTERM, and an sshd would exit as if it had failed.
_V1_WORKER = ("sh", "-c", 'trap "exit 0" TERM; sleep 365d & wait "$!"')
_V2BETA1_WORKER = ("sh", "-c", 'trap "exit 0" TERM; /usr/sbin/sshd -De & wait "$!"')
#: The same for a non-root user of the image, whose sshd_config is next to the folder of the keys, as in the operator's
#: images.
_V2BETA1_USERS_WORKER = (
    '[ ! -f "$1" ] || set -- -f "$1"; [ "$1" = -f ] || set --; trap "exit 0" TERM; /usr/sbin/sshd -De "$@" & wait "$!"'
)
_SSHD_CONFIG = ".sshd_config"
_SET_BY_V1 = frozenset({"OMPI_MCA_plm_rsh_agent", "OMPI_MCA_orte_default_hostfile"})
_SET_BY_V2BETA1 = frozenset(
    {
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_plm_rsh_args",
        "OMPI_MCA_orte_set_default_slots",
    }
)
#: The variables that the operator sets for Hydra's mpirun.
_SET_FOR_HYDRA = {
    "Intel": frozenset({"I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "I_MPI_PERHOST"}),
    "MPICH": frozenset({"HYDRA_HOST_FILE", "HYDRA_LAUNCH_EXTRA_ARGS"}),
}
_ROOT = "root: the operator's key and the image's sshd are root's"
_OTHER_USER = (
    "Drop it, set launcher.ssh_mount_path to that user's .ssh, or use backend 'native' or 'trainer', whose ssh runs as "
    "any user of the image."
)


def _templates(
    job: JobPlan, meta: Meta, worker: tuple[str, ...], timeout: int, *, by_kubectl: bool
) -> tuple[Manifest, Manifest | None]:
    """The launcher's and the workers' pod templates; None where the launcher is the only node."""
    launcher, workers = job.leader, job.group("worker")
    command = launcher_command(job, _template(job, launcher, meta, "0", None), timeout)
    index = label_index(common.REPLICA_INDEX_LABEL)
    return (
        _template(job, launcher, meta, "0", command, calls_api=by_kubectl),
        _template(job, workers[0], meta, index, worker) if workers else None,
    )


def _template(
    job: JobPlan,
    replica: Replica,
    meta: Meta,
    index: str | Manifest,
    command: tuple[str, ...] | None,
    *,
    calls_api: bool = False,
) -> Manifest:
    env = {**job.framework.environment(job, replica, {}), "TRAINER_FILES": MPI_FOLDER}
    return pod_template(
        job, replica, meta, container=_CONTAINER, index=index, env=env, command=command, calls_api=calls_api
    )


def _render_v1(job: JobPlan, meta: Meta, facts: Facts) -> Rendered:
    launcher, worker = _templates(job, meta, _V1_WORKER, _V1_SSH_SECONDS, by_kubectl=True)
    assert worker is not None, "a launcher that is a node is refused"
    spec = {
        "slotsPerWorker": job.spec.num_proc_per_node,
        # The container that kubectl exec enters where a pod has several.
        "mainContainer": _CONTAINER,
        "runPolicy": training_operator.run_policy(job),
        "mpiReplicaSpecs": {
            "Launcher": training_operator.replica_spec(job, (job.leader,), launcher),
            "Worker": training_operator.replica_spec(job, job.group("worker"), worker),
        },
    }
    return Rendered(common.main_object(_V1, job, meta, spec))


def _render_v2beta1(job: JobPlan, meta: Meta, facts: Facts) -> Rendered:
    settings = job.spec.mpi
    serves: tuple[str, ...] = _V2BETA1_WORKER
    if settings.ssh_mount_path:
        config = str(PurePosixPath(settings.ssh_mount_path).parent / _SSHD_CONFIG)
        serves = ("sh", "-c", _V2BETA1_USERS_WORKER, "sshd", config)
    launcher, worker = _templates(job, meta, serves, _V2BETA1_SSH_SECONDS, by_kubectl=False)
    workers = {"replicas": len(job.group("worker")), "restartPolicy": "Never", "template": worker}
    spec = {
        "slotsPerWorker": job.spec.num_proc_per_node,
        "launcherCreationPolicy": "WaitForWorkersReady",
        **({"mpiImplementation": settings.implementation} if settings.implementation != OPEN_MPI else {}),
        **({"runLauncherAsWorker": True} if settings.is_node else {}),
        **({"sshAuthMountPath": settings.ssh_mount_path} if settings.ssh_mount_path else {}),
        # The limit is that of the launcher's Job, where it defaults to 6.
        "runPolicy": {**common.run_policy(job, _together(job)), "backoffLimit": job.spec.run_policy.backoff_limit},
        "mpiReplicaSpecs": {
            # With OnFailure, the launcher's pod would be deleted after its last failure, together with its log.
            "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
            **({"Worker": workers} if worker else {}),
        },
    }
    # The operator's Secret has the same name as the Secret of this provider would have.
    return Rendered(common.main_object(_V2BETA1, job, ssh.with_key(meta), spec))


def _together(job: JobPlan) -> int:
    """How many pods are created together: the launcher's pod is created once the workers are ready."""
    return len(job.group("worker"))


def _check_v1(job: JobPlan) -> None:
    check_settings(training_operator.BACKEND, job, ())
    common.check(training_operator.BACKEND, _CONTAINER, lambda _: _SET_BY_V1, job)
    if job.spec.queue_name:
        fix = "Kueue does not know MPIJob v1; use backend 'mpi-operator', 'trainer' or 'native'."
        problem = Problem("scheduling.queue_name", job.spec.queue_name, "no value", fix)
        raise UnsupportedField(training_operator.BACKEND, problem)
    token = ((job.spec.pod_template or {}).get("spec") or {}).get("automountServiceAccountToken")
    if token is False:
        fix = "Drop it: only the launcher gets a token, of an account of its own."
        allowed = "no value: the launcher reaches the workers by kubectl"
        problem = Problem("pod_template.spec.automountServiceAccountToken", token, allowed, fix)
        raise UnsupportedField(training_operator.BACKEND, problem)
    for path, account in pod_fields(job, "service_account", "launcher"):
        fix = "Set it as replicas.worker.pod.service_account: only the launcher needs an account of its own."
        allowed = "no value for the launcher, which reaches the workers by kubectl with an account of the operator's"
        raise UnsupportedField(training_operator.BACKEND, Problem(path, account, allowed, fix))
    field, resources = job.source(job.leader, "resources")
    if resources and resources.gpu:
        fix = "The operator would start ranks there too; leave GPUs to the workers, with resources_per_node."
        raise UnsupportedField(
            training_operator.BACKEND,
            Problem(f"{field}.gpu", resources.model_dump(exclude_none=True)["gpu"], "no value", fix),
        )


def _check_v2beta1(job: JobPlan) -> None:
    backend = "mpi-operator"
    settings = job.spec.mpi
    operators = _SET_FOR_HYDRA.get(settings.implementation, _SET_BY_V2BETA1)
    common.check(backend, _CONTAINER, lambda _: operators, job, _together(job))
    if not settings.ssh_mount_path:
        _check_root(backend, job)
    check_forwarded(backend, job, _CONTAINER)


def _check_root(backend: str, job: JobPlan) -> None:
    for path, context in security_contexts(job, _CONTAINER).items():
        user = context.get("runAsUser")
        for field, value in (("runAsUser", user or None), ("runAsNonRoot", context.get("runAsNonRoot") or None)):
            if value is not None:
                raise UnsupportedField(backend, Problem(f"{path}.{field}", value, _ROOT, _OTHER_USER))
    for path, user in pod_fields(job, "security.run_as_user"):
        if user:
            raise UnsupportedField(backend, Problem(path, user, _ROOT, _OTHER_USER))


def _replica_ref_v2beta1(pod: Manifest, main: Manifest) -> ReplicaRef | None:
    labels = pod["metadata"].get("labels") or {}
    group = labels.get(common.JOB_ROLE_LABEL)
    if group == "launcher":
        return ReplicaRef(group, 0)
    index = labels.get(common.REPLICA_INDEX_LABEL, "")
    if group != "worker" or not index.isdecimal():
        return None
    # A launcher that also trains has index 0, and the workers' indices start at 1.
    return ReplicaRef(group, int(index) - bool(main["spec"].get("runLauncherAsWorker")))


def _container(main: Manifest, group: str) -> str | None:
    if written_groups(main):
        return _CONTAINER
    specs = {kind.lower(): spec for kind, spec in main["spec"]["mpiReplicaSpecs"].items()}
    name: str | None = main["spec"].get("mainContainer")
    return name or default_container((specs.get(group) or {}).get("template") or {})


def _blocked_by_v2beta1(main: Manifest, pods: Sequence[Manifest]) -> ReplicaRef | None:
    """The worker that can no longer become ready, before the launcher was created.

    The operator creates the launcher once all workers are ready. It does not replace such a worker, and sets no
    condition for it.
    """
    replicas = (main.get("status") or {}).get("replicaStatuses") or {}
    if main["spec"].get("launcherCreationPolicy") != "WaitForWorkersReady" or "Launcher" in replicas:
        return None
    refs = [(_replica_ref_v2beta1(pod, main), pod) for pod in pods]
    if any(ref is not None and ref.group == "launcher" for ref, _ in refs):
        return None
    return next((ref for ref, pod in refs if _is_never_ready(pod)), None)


def _is_never_ready(pod: Manifest) -> bool:
    """Whether a pod can no longer become ready and is not being deleted. The operator replaces a deleted pod."""
    has_failed = (pod.get("status") or {}).get("phase") == "Failed"
    return "deletionTimestamp" not in pod["metadata"] and (has_failed or ended_for_good(pod) is not None)


MPIJOB_V1 = Kind(
    key="mpijob-v1",
    resource=_V1,
    frameworks=frozenset({"mpi"}),
    read=conditions.read,
    groups=common.groups,
    replica_ref=training_operator.replica_ref,
    container=_container,
    pod_label=common.JOB_NAME_LABEL,
    suspension=Suspension(common.suspend),
    controller=Controller(
        leaves_deleted=True,
        without_restart=training_operator.without_restart,
        blocked_by=training_operator.blocked_by,
        deadline_at=common.deadline_at,
    ),
    retention=Retention(training_operator.ttl),
    renderer=Renderer(
        check=_check_v1,
        render=_render_v1,
        name_limit=common.name_limit,
        tool_pod=partial(common.tool_pod, common.REPLICA_TYPE_LABEL),
    ),
    manifests=ManifestRules(check=common.check_manifest, deadline=training_operator.deadline),
)
# The ttl of its run policy applies to the launcher's Job, and never deletes the MPIJob.
MPIJOB_V2BETA1 = Kind(
    key="mpijob-v2beta1",
    resource=_V2BETA1,
    frameworks=frozenset({"mpi"}),
    read=conditions.read,
    groups=common.groups,
    replica_ref=_replica_ref_v2beta1,
    container=_container,
    pod_label=common.JOB_NAME_LABEL,
    suspension=Suspension(common.suspend),
    controller=Controller(leaves_deleted=True, blocked_by=_blocked_by_v2beta1, deadline_at=common.deadline_at),
    renderer=Renderer(
        check=_check_v2beta1,
        render=_render_v2beta1,
        name_limit=common.name_limit,
        tool_pod=partial(common.tool_pod, common.JOB_ROLE_LABEL),
    ),
    manifests=ManifestRules(check=common.check_manifest, deadline=common.deadline),
)
