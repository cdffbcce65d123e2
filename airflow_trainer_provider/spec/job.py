"""The spec of one training job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from airflow_trainer_provider.spec.compute import Resources, parse_quantity
from airflow_trainer_provider.spec.pod import PodSettings
from airflow_trainer_provider.spec.pod_template import PodTemplate
from airflow_trainer_provider.spec.running.checkpoint import Checkpoint
from airflow_trainer_provider.spec.running.exit_codes import ExitCodes
from airflow_trainer_provider.spec.running.function import FUNCTION_COMMAND, FunctionCode
from airflow_trainer_provider.spec.running.launcher import Launcher, LauncherSettings
from airflow_trainer_provider.spec.running.metrics import Metrics
from airflow_trainer_provider.spec.running.on_oom import OnOom
from airflow_trainer_provider.spec.running.rendezvous import RendezvousOptions
from airflow_trainer_provider.spec.running.runtime import InitializerSource, Runtime, RuntimeRef
from airflow_trainer_provider.spec.running.tools import Tools
from airflow_trainer_provider.spec.scheduling import Gang, JobScheduling, Scheduling
from airflow_trainer_provider.spec.values.base import Count, Number, Seconds, SpecModel, Whole, wrong
from airflow_trainer_provider.spec.values.limits import MOST_INT32, MOST_OVERRIDES, MOST_REPLICAS
from airflow_trainer_provider.spec.values.names import JobName
from airflow_trainer_provider.spec.values.variables import Env
from airflow_trainer_provider.spec.values.words import Text, Words
from airflow_trainer_provider.spec.volume_sources import mapping_like
from airflow_trainer_provider.spec.volumes import Volumes

#: More groups than any framework has roles.
_MOST_GROUPS = 16


def _few_groups(value: Any) -> Any:
    if isinstance(value, Mapping) and len(value) > _MOST_GROUPS:
        raise wrong(f"at most {_MOST_GROUPS} groups", "Name the framework's roles only.", value=f"{len(value)} groups")
    return value


class ReplicaSettings(SpecModel):
    """What can differ between replicas. A field that is not set is inherited from the group, and then from the job.

    :param image: container image.
    :param command: what each process runs, one word an item; None runs the image's entry point.
    :param args: words after the command.
    :param env: environment variables: text, a number, or where the value comes from; a group's are laid over the job's,
        name by name. An empty mapping is not None: as an override it leaves the replica none.
    :param working_dir: the folder the processes start in.
    :param resources: compute resources of one replica.
    :param scheduling: where the pods may run. A group's is laid over the job's field by field, and mappings in it key
        by key; an override's replaces the group's.
    :param pod: settings of the pods, likewise.
    :param volumes: what is mounted. A group's are added to the job's, and one with the same ``mount_path`` replaces the
        job's; an override's are all that the replica has.
    """

    image: Text | None = None
    command: Words | None = None
    args: Words | None = None
    env: Env | None = None
    working_dir: Text | None = None
    resources: Resources | None = None
    scheduling: Scheduling | None = None
    volumes: Volumes | None = None
    pod: PodSettings | None = None


class ReplicaOverride(ReplicaSettings):
    """Settings of one replica. Each that is given replaces the group's; it is not merged.

    :param index: the replica's index within its group, from 0.
    """

    index: Annotated[Whole, Field(ge=0, lt=MOST_REPLICAS)]


class ReplicaGroup(ReplicaSettings):
    """Replicas of one role: master, worker, chief, ps, evaluator or launcher.

    :param replicas: how many. None takes it from ``num_nodes`` or ``num_workers`` for workers, and is 1 for others.
    :param overrides: settings of single replicas, by index.
    """

    replicas: Count | None = None
    overrides: Annotated[tuple[ReplicaOverride, ...], Field(max_length=MOST_OVERRIDES)] = ()

    @model_validator(mode="after")
    def _indices_once(self) -> ReplicaGroup:
        indices = Counter(override.index for override in self.overrides)
        twice = sorted(index for index, count in indices.items() if count > 1)
        if twice:
            raise wrong("each index once", f"Merge the overrides of index {twice[0]}.", "overrides", twice[0])
        return self


class ElasticPolicy(SpecModel):
    """Let the number of nodes vary while the job runs, and nodes be replaced.

    :param min_nodes: the job trains with at least so many nodes.
    :param max_nodes: and at most so many; so many are started.
    :param max_restarts: how often the processes, or a lost node, may be started again.
    :param rdzv_conf: options of the rendezvous, as torchrun's ``--rdzv-conf`` has them, e.g. ``join_timeout`` and
        ``last_call_timeout`` in seconds. The rendezvous itself is c10d, and the first node holds it.
    """

    min_nodes: Count
    max_nodes: Count
    max_restarts: Annotated[Whole, Field(ge=0, le=MOST_REPLICAS)] = 3
    rdzv_conf: RendezvousOptions = Field(default_factory=dict)

    @model_validator(mode="after")
    def _ordered(self) -> ElasticPolicy:
        if self.min_nodes > self.max_nodes:
            allowed = f"at most max_nodes ({self.max_nodes})"
            raise wrong(allowed, "Lower min_nodes or raise max_nodes.", "min_nodes", self.min_nodes)
        return self


class RunPolicy(SpecModel):
    """How long and how often the job may run.

    :param backoff_limit: how often the job may be started again after failures (0 to 100). Where a backend can restart
        single replicas only, none restarts more often than this; the how-to on clusters has a table.
    :param exit_codes: after which exit codes of a replica the job is started again, and after which it ends for good,
        and neither ``backoff_limit`` nor the task's ``retries`` start it again; None starts it again after any.
    :param infrastructure_retries: how often the task submits the job again, within the same try, after the cluster or
        the machine failed it (0 to 100): a lost node, an eviction. Neither ``backoff_limit`` nor the task's ``retries``
        are used up by that.
    :param on_oom: how the memory of a cluster's job grows that ran out of it, and that the task then submits again,
        within the same try; None lets the job fail.
    :param active_deadline_seconds: the job fails when it has not ended so long after its start, restarts
        included; None means no bound.
    :param grace_period_seconds: between the request to end and the kill (0 to 300).
    :param startup_timeout_seconds: a cluster's job is ended when not all replicas have started so long after it was
        submitted; the time that a queue keeps it suspended does not count. None means no bound, except for what can
        never start.
    :param ttl_seconds_after_finished: a job that is kept goes so long after its outcome has reached XCom, and may go
        from then on where it runs on this machine; None keeps it.
    :param clean_pods: which pods of a cluster's job that is kept go when it has ended: ``Running``, those that still
        run; ``All``, once its outcome has reached XCom; ``None``, no pod, and those that still run go on.
    """

    backoff_limit: Annotated[Whole, Field(ge=0, le=100)] = 0
    exit_codes: ExitCodes | None = None
    infrastructure_retries: Annotated[Whole, Field(ge=0, le=100)] = 0
    on_oom: OnOom | None = None
    active_deadline_seconds: Seconds | None = None
    grace_period_seconds: Annotated[Number, Field(ge=0, le=300)] = 30
    startup_timeout_seconds: Seconds | None = None
    ttl_seconds_after_finished: Annotated[Whole, Field(ge=0, le=MOST_INT32)] | None = None
    clean_pods: Literal["None", "Running", "All"] = "Running"


class TrainJobSpec(SpecModel):
    """One training job, independent of where it runs.

    :param framework: ``pytorch``, ``tensorflow``, ``mpi``, ``xgboost``, ``paddle`` or ``jax``.
    :param name: readable part of the job's name; made from DAG and task where it is left out.
    :param num_nodes: how many nodes train, the master or chief counted in; 1 where nothing says otherwise. This is what
        the Training Operator's SDK calls ``num_workers``.
    :param num_workers: how many workers beside the automatic master or chief; instead of ``num_nodes``. 100 are 101
        nodes under PyTorch, TensorFlow and XGBoost, and 100 where there are only workers, or a launcher beside them.
    :param num_proc_per_node: processes on each node; PyTorch also takes ``auto``, ``cpu`` and ``gpu``.
    :param replicas: settings per role, where roles differ. With a size for ``worker``, and neither ``num_nodes`` nor
        ``num_workers``, they are the whole layout: no master is added.
    :param image: container image of all replicas.
    :param command: what each process runs, one word an item. The framework's launcher (torchrun, mpirun,
        paddle.distributed.launch) is put before it, unless it begins with one, or with a launcher of its own, such as
        ``accelerate``, ``deepspeed`` or ``tune``.
    :param args: words after the command.
    :param env: environment variables of all replicas: text, a number, or, on clusters only, where the value comes from:
        a key of a Secret or a ConfigMap, or a field of the pod. ``$(NAME)`` refers to another variable.
    :param working_dir: the folder the processes start in.
    :param resources_per_node: compute resources of each node that trains. An MPI launcher is none: its own are those of
        ``replicas``.
    :param launcher: ``auto``, or ``none`` to run the command as it is, with the rendezvous environment only, as a shell
        script does that starts a launcher; or, under MPI, a mapping with settings of mpirun.
    :param elastic: let the number of nodes vary; PyTorch only.
    :param run_policy: how long and how often the job may run.
    :param runtime_ref: the TrainingRuntime, or ClusterTrainingRuntime, that the ``trainer`` backend starts from; a
        name, or ``kind/name``; or a mapping of the name and what the runtime's initializers fetch. It gives the
        numbers of nodes and of processes where the other fields do not.
    :param scheduling: where the pods may run, and which queue admits the job; clusters only.
    :param volumes: storage, configuration and data that are mounted into all replicas; clusters only.
    :param checkpoint: a folder for checkpoints, in each replica's ``$TRAINER_CHECKPOINT_DIR``, which is the same over
        restarts of the job and tries of the task.
    :param pod: settings of the pods: account, user and groups, image pulls, labels, sources of variables; clusters
        only.
    :param pod_template: a Kubernetes PodTemplateSpec that all pods start from, for what has no field of its own, such
        as sidecars; clusters only. Its container ``train`` is the training's own.
    :param tools: ports of rank 0 that people open while the job trains, such as TensorBoard's: name -> port, and who
        reaches it.
    :param metrics: reads the progress and metrics of an unchanged script from the lines of rank 0: name -> regular
        expression in RE2's syntax, whose only group, or the one called ``value``, is the number. ``step`` and
        ``total_steps`` are the progress; any other name is a metric. A script may print a JSON line instead.
    :param function: a Python function that each process calls, instead of ``command`` and ``args``; decorators such as
        ``@task.pytorch_job`` set it, and the operators have no such parameter.
    :param on_kill_action: what becomes of a cluster's job whose task is marked, cleared or timed out: ``delete``, or
        ``suspend``, which ends its pods and keeps it for the next try. One that cannot start is deleted.
    :param on_finish_action: what becomes of a cluster's job once its outcome has reached XCom: ``delete``,
        ``delete_succeeded`` or ``keep``.
    """

    framework: Text
    name: JobName | None = None
    num_nodes: Count | None = None
    num_workers: Count | None = None
    num_proc_per_node: Count | Literal["auto", "cpu", "gpu"] = 1
    replicas: Annotated[Mapping[str, ReplicaGroup], BeforeValidator(_few_groups)] = Field(default_factory=dict)
    image: Text | None = None
    command: Words | None = None
    args: Words = ()
    env: Env = Field(default_factory=dict)
    working_dir: Text | None = None
    resources_per_node: Resources | None = None
    launcher: LauncherSettings = "auto"
    elastic: ElasticPolicy | None = None
    run_policy: RunPolicy = RunPolicy()
    runtime_ref: Runtime | None = None
    scheduling: JobScheduling | None = None
    volumes: Volumes = ()
    checkpoint: Annotated[Checkpoint, mapping_like('{"claim": "models"}')] | None = None
    pod: PodSettings | None = None
    pod_template: PodTemplate | None = None
    tools: Tools = Field(default_factory=dict)
    metrics: Metrics = Field(default_factory=dict)
    function: FunctionCode | None = None
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

    @model_validator(mode="after")
    def _function_alone(self) -> TrainJobSpec:
        if self.function is None:
            return self
        for prefix, part in self.parts:
            for name in ("command", "args"):
                given = getattr(part, name)
                if given and (prefix, given) != ("", FUNCTION_COMMAND):
                    fix = f"Drop {name}; what a function needs is an argument of its call."
                    raise wrong("no value beside a function, which is what runs", fix, f"{prefix}{name}", "a value")
        return self

    @model_validator(mode="after")
    def _memory_can_grow(self) -> TrainJobSpec:
        on_oom = self.run_policy.on_oom
        if on_oom is None:
            return self
        limits = list(self._memory_limits)
        if not limits:
            fix = "Set resources_per_node.memory, or drop on_oom."
            raise wrong("no value where no memory limit is set", fix, "run_policy.on_oom", "a value")
        least = min(limits, key=parse_quantity)
        if parse_quantity(on_oom.max) <= parse_quantity(least):
            fix = "Raise max, lower the limit, or drop on_oom."
            raise wrong(f"more than the memory limit ({least})", fix, "run_policy.on_oom.max", on_oom.max)
        return self

    @property
    def _memory_limits(self) -> Iterator[str]:
        for _, part in self.parts:
            resources = part.resources_per_node if isinstance(part, TrainJobSpec) else part.resources
            if resources and resources.memory and resources.memory.limits:
                yield resources.memory.limits

    @property
    def queue_name(self) -> str | None:
        """The LocalQueue that admits the job; None for none."""
        return self.scheduling.queue_name if self.scheduling else None

    @property
    def gang(self) -> Gang | None:
        """How a gang scheduler places the pods; None for pod by pod."""
        return self.scheduling.gang if self.scheduling else None

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the Secrets that the job refers to by fields of its own."""
        of_initializers = {each.secret for each in self.initializers.values() if each.secret}
        return frozenset(name for _, part in self.parts if part.pod for name in part.pod.secrets) | of_initializers

    @property
    def mpi(self) -> Launcher:
        """The settings of the launcher; its own defaults where the user gave its name alone."""
        return self.launcher if isinstance(self.launcher, Launcher) else Launcher(name=self.launcher)

    @property
    def runtime_name(self) -> str | None:
        """The runtime that the job starts from: its name, or ``kind/name``; None for none."""
        return self.runtime_ref.name if isinstance(self.runtime_ref, RuntimeRef) else self.runtime_ref

    @property
    def initializers(self) -> Mapping[str, InitializerSource]:
        """What the runtime's initializers fetch: ``dataset`` and ``model``, where they are given."""
        given = self.runtime_ref.initializer if isinstance(self.runtime_ref, RuntimeRef) else None
        return given.sources if given else {}

    @property
    def parts(self) -> Iterator[tuple[str, TrainJobSpec | ReplicaSettings]]:
        """What has settings of replicas, with what their fields' paths begin with: the job, its groups, overrides."""
        yield "", self
        for name, group in self.replicas.items():
            yield f"replicas.{name}.", group
            for at, override in enumerate(group.overrides):
                yield f"replicas.{name}.overrides[{at}].", override
