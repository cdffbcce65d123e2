"""The spec of one training job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from airflow_trainer_provider.spec.base import Count, Number, SpecModel, Whole, wrong
from airflow_trainer_provider.spec.compute import Resources

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_JOB_NAME = re.compile(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?")
#: Prefix of the variables that this provider sets itself.
RESERVED_ENV = "TRAINER_"


def _words(value: Any) -> Any:
    if isinstance(value, str):
        raise wrong('a list of words, one per argument, e.g. ["python", "train.py"]', "Split it into words.")
    return value


def _env_names(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if not _ENV_NAME.fullmatch(name):
            allowed = "names of letters, digits, '_', '.' and '-' that do not begin with a digit"
            raise wrong(allowed, f"Rename {name!r}.", value=name)
        if name.startswith(RESERVED_ENV):
            raise wrong(
                "names that do not begin with TRAINER_, which the provider sets itself",
                f"Rename {name!r}.",
                value=name,
            )
    return value


def _job_name(value: str) -> str:
    if not _JOB_NAME.fullmatch(value):
        allowed = "1 to 32 lowercase letters, digits and '-', beginning with a letter, not ending with '-'"
        raise wrong(allowed, "Rename it.")
    return value


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Env = Annotated[dict[str, str], AfterValidator(_env_names)]
JobName = Annotated[str, AfterValidator(_job_name)]
Text = Annotated[str, Field(min_length=1)]


class ReplicaSettings(SpecModel):
    """What can differ between replicas. What is left out comes from the next wider scope.

    :param image: container image.
    :param command: what each process runs, one word an item; None runs the image's entry point.
    :param args: words after the command.
    :param env: environment variables; a group's are laid over the job's, name by name. An empty mapping is not
        None: as an override it leaves the replica none.
    :param working_dir: the folder the processes start in.
    :param resources: compute resources of one replica.
    """

    image: Text | None = None
    command: Words | None = None
    args: Words | None = None
    env: Env | None = None
    working_dir: Text | None = None
    resources: Resources | None = None


class ReplicaOverride(ReplicaSettings):
    """Settings of one replica. Each that is given replaces the group's; it is not merged.

    :param index: the replica's index within its group, from 0.
    """

    index: Annotated[Whole, Field(ge=0)]


class ReplicaGroup(ReplicaSettings):
    """Replicas of one role: master, worker, chief, ps, evaluator or launcher.

    :param replicas: how many; None takes it from ``num_nodes`` or ``num_workers``.
    :param overrides: settings of single replicas, by index.
    """

    replicas: Count | None = None
    overrides: tuple[ReplicaOverride, ...] = ()

    @model_validator(mode="after")
    def _indices_once(self) -> ReplicaGroup:
        indices = [override.index for override in self.overrides]
        twice = sorted({index for index in indices if indices.count(index) > 1})
        if twice:
            raise wrong("each index once", f"Merge the overrides of index {twice[0]}.", "overrides", twice[0])
        return self


class ElasticPolicy(SpecModel):
    """Let the number of nodes vary while the job runs, and nodes be replaced.

    :param min_nodes: the job trains with at least so many nodes.
    :param max_nodes: and at most so many; so many are started.
    :param max_restarts: how often the processes, or a lost node, may be started again.
    """

    min_nodes: Count
    max_nodes: Count
    max_restarts: Annotated[Whole, Field(ge=0)] = 3

    @model_validator(mode="after")
    def _ordered(self) -> ElasticPolicy:
        if self.min_nodes > self.max_nodes:
            allowed = f"at most max_nodes ({self.max_nodes})"
            raise wrong(allowed, "Lower min_nodes or raise max_nodes.", "min_nodes", self.min_nodes)
        return self


class RunPolicy(SpecModel):
    """How long and how often the job may run.

    :param backoff_limit: how often the whole job is started again after a failure (0 to 100).
    :param infrastructure_retries: how often the task submits the job again, within the same try, after the cluster or
        the machine failed it (0 to 100): a lost node, an eviction. Neither ``backoff_limit`` nor the task's ``retries``
        are used up by that.
    :param active_deadline_seconds: the job fails when it has not ended so long after its start, restarts
        included; None means no bound.
    :param grace_period_seconds: between the request to end and the kill (0 to 300).
    :param startup_timeout_seconds: a cluster's job is ended when not all replicas have started so long after it was
        submitted; the time that a queue keeps it suspended does not count. None means no bound, except for what can
        never start.
    :param ttl_seconds_after_finished: a cluster's job that is kept goes so long after its outcome has reached XCom;
        None keeps it.
    """

    backoff_limit: Annotated[Whole, Field(ge=0, le=100)] = 0
    infrastructure_retries: Annotated[Whole, Field(ge=0, le=100)] = 0
    active_deadline_seconds: Annotated[Number, Field(gt=0, allow_inf_nan=False)] | None = None
    grace_period_seconds: Annotated[Number, Field(ge=0, le=300)] = 30
    startup_timeout_seconds: Annotated[Number, Field(gt=0, allow_inf_nan=False)] | None = None
    ttl_seconds_after_finished: Annotated[Whole, Field(ge=0)] | None = None


class TrainJobSpec(SpecModel):
    """One training job, independent of where it runs.

    :param framework: ``pytorch``, ``tensorflow``, ``mpi``, ``xgboost``, ``paddle`` or ``jax``.
    :param name: readable part of the job's name; made from DAG and task where it is left out.
    :param num_nodes: how many nodes train, the master or chief counted in.
    :param num_workers: how many workers beside the automatic master or chief; instead of ``num_nodes``.
    :param num_proc_per_node: processes on each node; PyTorch also takes ``auto``, ``cpu`` and ``gpu``.
    :param replicas: settings per role, where roles differ.
    :param image: container image of all replicas.
    :param command: what each process runs, one word an item. The framework's launcher (torchrun, mpirun,
        paddle.distributed.launch) is put before it, unless it begins with one.
    :param args: words after the command.
    :param env: environment variables of all replicas.
    :param working_dir: the folder the processes start in.
    :param resources_per_node: compute resources of each node.
    :param launcher: ``auto``, or ``none`` to run the command as it is, with the rendezvous environment only.
    :param elastic: let the number of nodes vary; PyTorch only.
    :param run_policy: how long and how often the job may run.
    :param runtime_ref: the TrainingRuntime, or ClusterTrainingRuntime, that the ``trainer`` backend starts from; a
        name, or ``kind/name``.
    :param queue_name: the Kueue LocalQueue that admits the job; clusters only.
    :param pod_template: a Kubernetes PodTemplateSpec that all pods start from, for what has no field of its own:
        volumes, node selectors, tolerations, a service account, variables from Secrets; clusters only. Its container
        ``train`` is the training's own.
    :param on_kill_action: what becomes of a cluster's job whose task is marked, cleared or timed out: ``delete``, or
        ``suspend``, which ends its pods and keeps it.
    :param on_finish_action: what becomes of a cluster's job once its outcome has reached XCom: ``delete``,
        ``delete_succeeded`` or ``keep``.
    """

    framework: Text
    name: JobName | None = None
    num_nodes: Count | None = None
    num_workers: Count | None = None
    num_proc_per_node: Count | Literal["auto", "cpu", "gpu"] = 1
    replicas: Mapping[str, ReplicaGroup] = Field(default_factory=dict)
    image: Text | None = None
    command: Words | None = None
    args: Words = ()
    env: Env = Field(default_factory=dict)
    working_dir: Text | None = None
    resources_per_node: Resources | None = None
    launcher: Literal["auto", "none"] = "auto"
    elastic: ElasticPolicy | None = None
    run_policy: RunPolicy = RunPolicy()
    runtime_ref: Text | None = None
    queue_name: Text | None = None
    pod_template: Mapping[str, Any] | None = None
    on_kill_action: Literal["delete", "suspend"] = "delete"
    on_finish_action: Literal["delete", "delete_succeeded", "keep"] = "delete"

    @model_validator(mode="after")
    def _one_size(self) -> TrainJobSpec:
        if self.num_nodes is not None and self.num_workers is not None:
            allowed = "num_nodes (master counted in) or num_workers (beside the master), not both"
            raise wrong(allowed, "Drop one of them.", "num_workers", self.num_workers)
        sizes = {"num_nodes": self.num_nodes, "num_workers": self.num_workers}
        for name, size in sizes.items():
            if self.elastic and size is not None:
                allowed = "nothing beside elastic, whose max_nodes is the number of nodes"
                raise wrong(allowed, f"Drop {name} or elastic.", name, size)
        return self
