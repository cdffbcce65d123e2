"""MPIJob in its two versions: kubeflow.org/v1 of the Training Operator, and v2beta1 of the MPI Operator.

In v1 mpirun reaches the workers through ``kubectl exec``, in v2beta1 through ssh: there the image needs an sshd that
takes root's key. https://github.com/kubeflow/mpi-operator/blob/v0.7.0/pkg/controller/mpi_job_controller.go

With ``backoff_limit`` v2beta1 starts mpirun again in a new pod, so that the earlier ones can still be read; v1 starts
it again in place.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from airflow_trainer_provider.errors import Problem, UnsupportedField
from airflow_trainer_provider.frameworks.layout import Job, Replica
from airflow_trainer_provider.kinds import kubeflow, kubeflow_status, training_operator
from airflow_trainer_provider.kinds.base import Facts, Kind, Manifest, Meta, Place, Rendered, Resource
from airflow_trainer_provider.kinds.mpi_launch import FILES, launcher_command
from airflow_trainer_provider.kinds.pod import label_index, pod_template

_CONTAINER = "mpi"
_V1 = Resource("kubeflow.org/v1", "MPIJob", "mpijobs")
_V2BETA1 = Resource("kubeflow.org/v2beta1", "MPIJob", "mpijobs")
#: v1 starts the launcher at once, and a worker's image may take long to pull; in v2beta1 the workers' containers run
#: already.
_V1_PATIENCE, _V2BETA1_PATIENCE = 3600, 120
#: What the workers run. They are ended when the launcher has: a plain sleep would not hear SIGTERM, and an sshd would
#: seem to fail.
_V1_WORKER = ("sh", "-c", 'trap "exit 0" TERM; sleep 365d & wait "$!"')
_V2BETA1_WORKER = ("sh", "-c", 'trap "exit 0" TERM; /usr/sbin/sshd -De & wait "$!"')
_SET_BY_V1 = frozenset({"OMPI_MCA_plm_rsh_agent", "OMPI_MCA_orte_default_hostfile"})
_SET_BY_V2BETA1 = frozenset(
    {
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_plm_rsh_args",
        "OMPI_MCA_orte_set_default_slots",
    }
)


def _templates(job: Job, meta: Meta, worker: tuple[str, ...], patience: int) -> tuple[Manifest, Manifest]:
    """The launcher's and the workers' pod templates."""
    launcher = job.leader
    if job.source(launcher, "resources")[0] == "resources_per_node":
        # The launcher trains nothing: it is not a node.
        launcher = replace(launcher, resources=None)
    command = launcher_command(launcher, _template(job, launcher, meta, "0", None), patience)
    index = label_index(kubeflow.REPLICA_INDEX_LABEL)
    return (
        _template(job, launcher, meta, "0", command),
        _template(job, job.group("worker")[0], meta, index, worker),
    )


def _template(
    job: Job, replica: Replica, meta: Meta, index: str | Manifest, command: tuple[str, ...] | None
) -> Manifest:
    env = {**job.framework.environment(job, replica, {}), "TRAINER_FILES": FILES}
    return pod_template(job, replica, meta, container=_CONTAINER, index=index, env=env, command=command)


def _render_v1(job: Job, meta: Meta, facts: Facts) -> Rendered:
    launcher, worker = _templates(job, meta, _V1_WORKER, _V1_PATIENCE)
    spec = {
        "slotsPerWorker": job.spec.num_proc_per_node,
        # The one that kubectl exec enters, where there are several.
        "mainContainer": _CONTAINER,
        "runPolicy": training_operator.run_policy(job),
        "mpiReplicaSpecs": {
            "Launcher": training_operator.replica_spec(job, (job.leader,), launcher),
            "Worker": training_operator.replica_spec(job, job.group("worker"), worker),
        },
    }
    return Rendered(kubeflow.main_object(_V1, job, meta, spec))


def _render_v2beta1(job: Job, meta: Meta, facts: Facts) -> Rendered:
    launcher, worker = _templates(job, meta, _V2BETA1_WORKER, _V2BETA1_PATIENCE)
    retries = job.spec.run_policy.backoff_limit
    spec = {
        "slotsPerWorker": job.spec.num_proc_per_node,
        "launcherCreationPolicy": "WaitForWorkersReady",
        # The limit is the launcher's Job's, which takes a missing one as 6.
        "runPolicy": {**kubeflow.run_policy(job), "backoffLimit": retries},
        "mpiReplicaSpecs": {
            # OnFailure would take the launcher's pod away with its last failure, its log with it.
            "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
            "Worker": {
                "replicas": len(job.group("worker")),
                "restartPolicy": "OnFailure" if retries else "Never",
                "template": worker,
            },
        },
    }
    return Rendered(kubeflow.main_object(_V2BETA1, job, meta, spec))


def _check_v1(job: Job) -> None:
    kubeflow.check(training_operator.BACKEND, _CONTAINER, lambda _: _SET_BY_V1, job)
    if job.spec.queue_name:
        fix = "Kueue does not know MPIJob v1; use backend 'mpi-operator', 'trainer' or 'native'."
        problem = Problem("queue_name", job.spec.queue_name, "no value", fix)
        raise UnsupportedField(training_operator.BACKEND, problem)
    field, resources = job.source(job.leader, "resources")
    if field != "resources_per_node" and resources and resources.gpu:
        fix = "The operator would start ranks there too; leave GPUs to the workers, with resources_per_node."
        raise UnsupportedField(training_operator.BACKEND, Problem(f"{field}.gpu", resources.gpu, "no value", fix))


def _place_v2beta1(pod: Manifest, main: Manifest) -> Place | None:
    labels = pod["metadata"].get("labels") or {}
    group = labels.get(kubeflow.JOB_ROLE_LABEL)
    if group == "launcher":
        return (group, 0)
    index = labels.get(kubeflow.REPLICA_INDEX_LABEL, "")
    if group != "worker" or not index.isdecimal():
        return None
    # A launcher that trains too has the first index.
    return (group, int(index) - bool(main["spec"].get("runLauncherAsWorker")))


MPIJOB_V1 = Kind(
    key="mpijob-v1",
    resource=_V1,
    frameworks=frozenset({"mpi"}),
    render=_render_v1,
    read=kubeflow_status.read,
    groups=kubeflow.groups,
    place=training_operator.place,
    pod_label=kubeflow.JOB_NAME_LABEL,
    name_limit=kubeflow.name_limit,
    suspend=kubeflow.suspend,
    check=_check_v1,
    ttl=training_operator.ttl,
)
# Its ttl is the launcher's Job's, and never deletes the MPIJob.
MPIJOB_V2BETA1 = Kind(
    key="mpijob-v2beta1",
    resource=_V2BETA1,
    frameworks=frozenset({"mpi"}),
    render=_render_v2beta1,
    read=kubeflow_status.read,
    groups=kubeflow.groups,
    place=_place_v2beta1,
    pod_label=kubeflow.JOB_NAME_LABEL,
    name_limit=kubeflow.name_limit,
    suspend=kubeflow.suspend,
    check=partial(kubeflow.check, "mpi-operator", _CONTAINER, lambda _: _SET_BY_V2BETA1),
)
