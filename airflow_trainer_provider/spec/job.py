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
    """Settings that can differ between replicas. A replica inherits an unset field from its group, then from the job.

    :param image: container image.
    :param command: the command of each process, as a list of words; None runs the image's entry point.
    :param args: the command's arguments, as a list of words.
    :param env: environment variables: text, a number, or the source of the value. A group's variables are merged over
        the job's by name. An override's mapping replaces both, even if it is empty.
    :param working_dir: the folder in which the processes start.
    :param resources: compute resources of one replica.
    :param scheduling: where the pods may run. A group's settings are merged over the job's field by field, and its
        mappings key by key; an override's settings replace the group's.
    :param pod: settings of the pods, merged in the same way as ``scheduling``.
    :param volumes: the volumes to mount. A group's volumes are added to the job's, and replace those of the job that
        have the same ``mount_path``; an override's volumes replace all others.
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
    """Settings of one replica. A field that is set replaces the group's value; the two are not merged.

    :param index: the replica's index within its group, from 0.
    """

    index: Annotated[Whole, Field(ge=0, lt=MOST_REPLICAS)]


class ReplicaGroup(ReplicaSettings):
    """Replicas of one role: master, worker, chief, ps, evaluator or launcher.

    :param replicas: the number of replicas. None derives the number of workers from ``num_nodes`` or ``num_workers``,
        and means 1 for the other roles.
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
    """Lets the number of nodes change while the job runs, and lets lost nodes be replaced.

    :param min_nodes: the smallest number of nodes that the job trains with.
    :param max_nodes: the largest number of nodes, and the number that the job starts.
    :param max_restarts: how often the processes, or a lost node, may be restarted.
    :param rdzv_conf: options of the rendezvous, as in torchrun's ``--rdzv-conf``, e.g. ``join_timeout`` and
        ``last_call_timeout`` in seconds. The rendezvous backend is always c10d, and the first node hosts it.
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

    :param backoff_limit: how often the job may be restarted after failures (0 to 100). No backend restarts a replica
        more often than this. The backends differ in what they restart and count; the how-to on clusters has a table.
    :param exit_codes: which exit codes of a replica restart the job, and which end it for good, so that neither
        ``backoff_limit`` nor the task's ``retries`` start it again. None restarts the job after any exit code.
    :param infrastructure_retries: how often the task submits the job again within the same try (0 to 100) after a
        failure of the cluster or the machine, such as a lost node or an eviction. Such a submit uses up neither
        ``backoff_limit`` nor the task's ``retries``.
    :param on_oom: how to increase the memory of a job that ran out of memory; the task then submits the job again,
        within the same try. Clusters only. None lets the job fail.
    :param active_deadline_seconds: seconds from the job's start, restarts included, after which the job fails if it
        has not ended; None means no limit.
    :param grace_period_seconds: seconds between the request to end and the kill (0 to 300).
    :param startup_timeout_seconds: seconds from the submit after which the job is ended if not all its replicas have
        started; the time that a queue keeps the job suspended does not count. Clusters only. None means no limit,
        except for jobs that can never start.
    :param ttl_seconds_after_finished: seconds after which a kept job is deleted, counted from the moment its outcome
        has reached XCom (on ``training-operator``: from the job's end). On ``local`` the next submit or clean-up after
        that time deletes the job. None keeps it.
    :param clean_pods: which pods of a kept job are deleted when the job has ended: ``Running``, the pods that still
        run; ``All``, all pods, once the outcome has reached XCom; ``None``, no pods, and running pods keep running.
        Clusters only.
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
    :param name: readable part of the job's name; made from the DAG and the task if unset.
    :param num_nodes: the number of nodes that train, including the master or chief; 1 if no other field sets it. The
        Training Operator's SDK calls this number ``num_workers``.
    :param num_workers: the number of workers, not including the automatic master or chief; set it instead of
        ``num_nodes``. 100 workers are 101 nodes with PyTorch, TensorFlow and XGBoost. With the other frameworks, which
        have only workers, or workers and a launcher, they are 100 nodes.
    :param num_proc_per_node: the number of processes on each node; PyTorch also accepts ``auto``, ``cpu`` and ``gpu``.
    :param replicas: settings per role, for roles that differ. If these groups set the number of workers, and neither
        ``num_nodes`` nor ``num_workers`` is set, they are the whole layout: no master is added.
    :param image: container image of all replicas.
    :param command: the command of each process, as a list of words. The framework's launcher (torchrun, mpirun,
        paddle.distributed.launch) is put before it, unless the command itself begins with that launcher or with another
        one, such as ``accelerate``, ``deepspeed`` or ``tune``.
    :param args: the command's arguments, as a list of words.
    :param env: environment variables of all replicas: text, a number, or, on clusters only, the source of the value:
        a key of a Secret or a ConfigMap, or a field of the pod. ``$(NAME)`` refers to another variable.
    :param working_dir: the folder in which the processes start.
    :param resources_per_node: compute resources of each node that trains. An MPI launcher is not such a node: its
        resources are set in ``replicas``.
    :param launcher: ``auto`` runs the command under the framework's launcher. ``none`` runs the command as it is, with
        the rendezvous environment only, e.g. a shell script that starts a launcher. With MPI also a mapping with
        settings of mpirun.
    :param elastic: lets the number of nodes change while the job runs; PyTorch only.
    :param run_policy: how long and how often the job may run.
    :param runtime_ref: the TrainingRuntime, or ClusterTrainingRuntime, that the ``trainer`` backend starts from: a
        name, ``kind/name``, or a mapping of the name and what the runtime's initializers fetch. The runtime sets the
        numbers of nodes and of processes that the other fields leave unset.
    :param scheduling: where the pods may run, and which queue admits the job; clusters only.
    :param volumes: storage, configuration and data that are mounted into all replicas; clusters only.
    :param checkpoint: a folder for checkpoints, which each replica finds in ``$TRAINER_CHECKPOINT_DIR``. It stays the
        same across restarts of the job and tries of the task.
    :param pod: settings of the pods: account, user and groups, image pulls, labels, sources of variables; clusters
        only.
    :param pod_template: a Kubernetes PodTemplateSpec that all pods start from, for settings without a field in this
        spec, such as sidecars; clusters only. Its container ``train`` is the container of the training.
    :param tools: ports of rank 0 that people open while the job trains, such as TensorBoard's: name -> port and access.
    :param metrics: reads the progress and metrics of an unchanged script from the lines of rank 0: name -> regular
        expression in RE2's syntax, whose only group, or the group called ``value``, is the number. ``step`` and
        ``total_steps`` are the progress; any other name is a metric. A script may print a JSON line instead.
    :param function: a Python function that each process calls, instead of ``command`` and ``args``. Decorators such as
        ``@task.pytorch_job`` set it; it is not a parameter of the operators.
    :param on_kill_action: what happens to the job when its task is marked, cleared or timed out: ``delete``; or
        ``suspend``, which ends the pods and keeps the job for the next try. A job that cannot start is deleted in
        either case. Clusters only.
    :param on_finish_action: what happens to the job once its outcome has reached XCom: ``delete``,
        ``delete_succeeded`` or ``keep``. Clusters only.
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
        """The LocalQueue that admits the job; None if there is none."""
        return self.scheduling.queue_name if self.scheduling else None

    @property
    def gang(self) -> Gang | None:
        """How a gang scheduler places the pods; None if the pods are placed one by one."""
        return self.scheduling.gang if self.scheduling else None

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the Secrets that the settings ``pod`` and the runtime's initializers refer to."""
        of_initializers = {each.secret for each in self.initializers.values() if each.secret}
        return frozenset(name for _, part in self.parts if part.pod for name in part.pod.secrets) | of_initializers

    @property
    def mpi(self) -> Launcher:
        """The settings of the launcher; the defaults if the user set only its name."""
        return self.launcher if isinstance(self.launcher, Launcher) else Launcher(name=self.launcher)

    @property
    def runtime_name(self) -> str | None:
        """The runtime that the job starts from: its name, or ``kind/name``; None if there is none."""
        return self.runtime_ref.name if isinstance(self.runtime_ref, RuntimeRef) else self.runtime_ref

    @property
    def initializers(self) -> Mapping[str, InitializerSource]:
        """What the runtime's initializers fetch: the sources that are set, by the names ``dataset`` and ``model``."""
        given = self.runtime_ref.initializer if isinstance(self.runtime_ref, RuntimeRef) else None
        return given.sources if given else {}

    @property
    def parts(self) -> Iterator[tuple[str, TrainJobSpec | ReplicaSettings]]:
        """The job, its groups and their overrides, each with the prefix of the paths of its fields."""
        yield "", self
        for name, group in self.replicas.items():
            yield f"replicas.{name}.", group
            for at, override in enumerate(group.overrides):
                yield f"replicas.{name}.overrides[{at}].", override
