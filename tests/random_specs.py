"""Random specs of jobs over all fields: right ones, and ones with mistakes in them."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.operations.order import order_of
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.base import Facts, Rendered
from airflow_trainer_provider.kinds.registry import kind_for
from airflow_trainer_provider.spec import TrainJobSpec, parse_spec
from airflow_trainer_provider.spec.running.function import FUNCTION_COMMAND

Spec = dict[str, Any]

#: Of each backend.
EXAMPLES = 300
#: In CI the same specs each time. Elsewhere others, and one that fails is made smaller.
SETTINGS = settings(
    max_examples=EXAMPLES,
    derandomize=bool(os.environ.get("CI")),
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
#: Backend -> the frameworks whose jobs it carries.
FRAMEWORKS: Mapping[str, tuple[str, ...]] = {
    "trainer": ("pytorch", "mpi", "xgboost", "jax"),
    "training-operator": ("pytorch", "tensorflow", "mpi", "xgboost", "paddle", "jax"),
    "mpi-operator": ("mpi",),
    "native": ("pytorch", "tensorflow", "mpi", "xgboost", "paddle", "jax"),
    "local": ("pytorch", "tensorflow", "mpi", "xgboost", "paddle", "jax"),
}
_ROLES = {
    "pytorch": ("master", "worker"),
    "tensorflow": ("chief", "worker", "ps", "evaluator"),
    "mpi": ("launcher", "worker"),
    "xgboost": ("master", "worker"),
    "paddle": ("worker",),
    "jax": ("worker",),
}
#: Backends on which replicas of one role may differ.
_SINGLE_REPLICAS = ("native", "local")


def _one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


def _several(*values: Any) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(range(len(values))), max_size=3, unique=True).map(
        lambda chosen: [values[at] for at in chosen]
    )


def _some(fields: Mapping[str, st.SearchStrategy[Any]], most: int) -> st.SearchStrategy[Spec]:
    """Some of the fields, each with a right value."""
    chosen = st.lists(st.sampled_from(sorted(fields)), max_size=most, unique=True)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({name: fields[name] for name in names}))


_SOURCES = (
    {"secret": {"name": "hub", "key": "token"}},
    {"config_map": {"name": "proxy", "key": "http.proxy"}},
    {"field": "status.podIP"},
    {"field": "metadata.labels['team']"},
)
_VARIABLES = {"A": "b", "N": 4, "HALF": 0.5, "EMPTY": "", "URL": "https://$(TOKEN)@host", "BACK": "$(A)", "JSON": "{}"}
_TOKENS = {f"S{at}": source for at, source in enumerate(_SOURCES)}
VOLUMES = (
    {"mount_path": "/data", "claim": "sets", "sub_path": "small", "read_only": True},
    {"mount_path": "/scratch", "new_claim": {"size": "1Gi"}},
    {"mount_path": "/kept", "name": "kept", "new_claim": {"size": "1Gi", "access_modes": ["RWX"], "keep": True}},
    {
        "mount_path": "/kept",
        "name": "kept",
        "new_claim": {"size": "1Gi", "access_modes": ["ReadWriteMany"], "keep": True},
    },
    {"mount_path": "/disk", "new_claim": {"size": 2**30, "storage_class": "fast", "volume_mode": "Block"}},
    {"mount_path": "/pod", "new_claim": {"size": "1Gi", "access_modes": ["ReadWriteOncePod"]}},
    {"mount_path": "/dev/shm", "empty_dir": {"medium": "memory", "size": "1Gi"}},
    {"mount_path": "/tmp/My Files", "empty_dir": {}},
    {"mount_path": "/host", "host_path": "/srv/sets"},
    {"mount_path": "/nfs", "nfs": {"server": "nfs.example", "path": "/sets"}},
    {"mount_path": "/conf", "config_map": {"name": "settings", "items": [{"key": "a.yaml", "path": "b/a.yaml"}]}},
    {"mount_path": "/hub", "secret": {"name": "hub"}, "read_only": True},
    {"mount_path": "/data/more", "name": "hub", "secret": {"name": "hub"}},
    {"mount_path": "/src", "git": {"repository": "https://git.example/t.git", "secret_name": "g", "image": "git:1"}},
    {"mount_path": "/lib", "git": {"repository": "git@git.example:t.git", "revision": "v1"}},
    {"mount_path": "/s3", "s3": {"uri": "s3://sets/a", "endpoint": "http://minio:9000", "image": "rclone:1"}},
)
GANGS: tuple[Any, ...] = (
    "coscheduling",
    {"scheduler": "coscheduling", "min_available": 1, "timeout_seconds": 60, "min_resources": {"cpu": 1}},
    {"scheduler": "volcano", "queue": "team", "network_topology": {"mode": "soft"}},
    {"scheduler": "kai", "queue": "team"},
)
SCHEDULING = {
    "node_selector": _one_of({}, {"disk": "nvme"}, {"disk": "nvme", "slot": 1}),
    "node_pools": _one_of([], ["h100"], ["h100", "a100", "l40"]),
    "node_pool_label": _one_of("example.com/pool"),
    "node_affinity": _several(
        {"key": "zone", "values": ["a", "b"]},
        {"key": "zone", "operator": "NotIn", "values": ["c"]},
        {"key": "cores", "operator": "Gt", "values": [8]},
        {"key": "broken", "operator": "DoesNotExist"},
    ),
    "tolerations": _several(
        {"key": "nvidia.com/gpu"},
        {"operator": "Exists"},
        {"key": "spot", "value": "yes", "effect": "NoExecute", "seconds": 60},
        {"key": "soon", "operator": "Equal", "value": "", "effect": "Any"},
    ),
    "topology": st.fixed_dictionaries(
        {"key": _one_of("zone", "kubernetes.io/hostname")},
        optional={"policy": _one_of("pack", "spread"), "required": st.booleans()},
    ),
    "priority_class": _one_of("research", "system-node-critical"),
    "scheduler_name": _one_of("default-scheduler", "kai-scheduler"),
}
SECURITY = {
    "run_as_user": _one_of(0, 5000),
    "run_as_group": _one_of(0, 6000),
    "supplemental_groups": _one_of([], [7, 8]),
    "fs_group": _one_of(0, 8000),
}
POD = {
    "service_account": _one_of("default", "data-reader"),
    "image_pull": _one_of({}, {"policy": "Always"}, {"policy": "Never", "secrets": ["registry", "registry"]}),
    "labels": _one_of({}, {"team": "vision"}, {"team": "", "example.com/slot": 1}),
    "annotations": _one_of({}, {"example.com/owner": "Ada & Grace"}),
    "security": _some(SECURITY, 4),
    "env_from": _several({"secret": "hub", "prefix": "HUB_"}, {"config_map": "proxy"}, {"secret": "hub"}),
}
RESOURCES = {
    "cpu": _one_of(2, "500m", {"requests": "0.5"}, {"limits": 2}, {"requests": 1, "limits": 2}),
    "memory": _one_of("4Gi", {"requests": "1Gi", "limits": "2Gi"}, {"requests": "2G"}, {"limits": "2000000k"}),
    "gpu": _one_of(
        1, "2", {"amd.com/gpu": 2}, {"requests": 1, "limits": 1}, {"nvidia.com/mig-1g.5gb": 1}, 0.5, {"memory": "8Gi"}
    ),
    "extended": _one_of({}, {"rdma/hca": 1}, {"example.com/fpga": "2", "rdma/hca": 1}),
    "shared_memory": _one_of("auto", "256Mi", "1Gi"),
}
#: Pod templates that every API server takes.
TEMPLATES = (
    {"spec": {"nodeSelector": {"a": "b"}}},
    {"metadata": {"labels": {"team": "x"}, "annotations": {"n": 1}}},
    {"spec": {"tolerations": [{"operator": "Exists"}], "imagePullSecrets": [{"name": "more"}]}},
    {"spec": {"containers": [{"name": "train", "env": [{"name": "T", "value": "$(A)"}]}]}},
    {"spec": {"containers": [{"name": "train", "image": "other:1", "resources": {"limits": {"cpu": "1"}}}]}},
    {"spec": {"containers": [{"name": "train"}, {"name": "logs", "image": "logs:1", "args": ["-f"]}]}},
    {
        "spec": {
            "volumes": [{"name": "own", "emptyDir": {}}],
            "initContainers": [{"name": "prepare", "image": "prepare:1"}],
            "containers": [{"name": "train", "volumeMounts": [{"name": "own", "mountPath": "/own"}]}],
        }
    },
    {"spec": {"securityContext": {"runAsUser": 1000}, "priorityClassName": "low", "hostNetwork": False}},
)
#: Of this machine as well.
_ANY_TOOLS = (
    {},
    {"tensorboard": {"port": 6006}},
    {"lab": {"port": "8888", "path": "/{job}/lab"}, "gate": {"port": 80, "access": "url", "url": "https://t.example/"}},
)
TOOLS = (
    *_ANY_TOOLS,
    {"tensorboard": {"port": 6006, "access": "node_port"}, "lab": {"port": 8888}},
    {"a": {"port": 1, "access": "node_port", "host": "10.0.0.4"}},
    {"longest-name-15": {"port": 65535, "access": "ingress", "host": "{job}.tools.example", "path": "/{namespace}"}},
    {
        "tb": {
            "port": 6006,
            "access": "ingress",
            "host": "tools.example",
            "ingress_class": "nginx",
            "tls_secret": "tools",
            "annotations": {"example.com/only": "vision"},
        }
    },
    {"gate": {"port": 80, "access": "url", "url": "https://t.example/{namespace}/{job}"}},
)
RUN_POLICY = {
    "backoff_limit": _one_of(0, 1, 3, 100),
    "infrastructure_retries": _one_of(0, 2),
    "active_deadline_seconds": _one_of(3600, 0.5, "60"),
    "grace_period_seconds": _one_of(0, 30, 2.5, 300),
    "startup_timeout_seconds": _one_of(600),
    "ttl_seconds_after_finished": _one_of(0, 3600),
    "exit_codes": _one_of({"fail": [1, "64-113"]}, {"restart": ["128-255", 75]}, {"fail": ["1-255"]}),
    "clean_pods": _one_of("None", "Running", "All"),
    # Only beside a memory limit.
    "on_oom": _one_of({"factor": 1.5, "max": "64Gi"}),
}
_WITH_INITIALIZER = {
    "name": "torch",
    "initializer": {"dataset": {"storage_uri": "hf://a/b", "env": {"A": "b"}}, "model": {"secret": "hub"}},
}
#: What stands for a mistake. All of it is JSON: other values are for tests of single fields.
_WRONG = (
    *(None, True, False, 0, -1, 1, 2.5, 10**9, 2**31, 10**40, float("nan"), float("inf")),
    *("", " ", "x", "-", "a b", "A/B", "../..", "/", "/proc", "{{ x }}", "{'a': 1}", "$(X)", "1Gi", "16GB", "0.5"),
    *("\0", "a\nb", "\ud800", "ä", "x" * 64, "x" * 5000, "auto", "gpu", "1e3", "٣", "trainer-x", "nvidia.com/gpu"),
    *([], {}, [None], [[]], [{}], {"": ""}, {"a": None}, {"a": {"b": []}}, {"name": "x"}, ["x"] * 300, {"a b": "c"}),
)
_KEYS = (
    *("x", "num_node", "nodeSelector", "tolerations", "gpu", "env", "image", "name", "resources", "volumes", "limits"),
    *("labels", "index", "mount_path", "claim", "secret", "spec", "containers", "", "a b", "TRAINER_X", "x" * 300),
)


_POD_SETTINGS = _some(POD, 3)
_ENV = _some({name: st.just(value) for name, value in {**_VARIABLES, **_TOKENS}.items()}, 4)
#: What can differ between replicas.
OF_REPLICAS = {
    "image": _one_of("train:2", "registry.example/t@sha256:0123"),
    "command": _one_of(["python", "eval.py"], ["sh", "-c", "true"], ["torchrun", "x.py"], ["mpirun", "x"], []),
    "args": _one_of([], ["--lr", 0.1], ["--all"]),
    "env": _ENV,
    "working_dir": _one_of("/srv", "/"),
    "resources": _some(RESOURCES, 3),
    "scheduling": _some(SCHEDULING, 3),
    "pod": _POD_SETTINGS,
    "volumes": _several(*VOLUMES),
}
_CHECKPOINTS = (
    {"claim": "models"},
    {"claim": "models", "path": "runs/llm", "scope": "run"},
    {"host_path": "/srv/checkpoints", "scope": "dag"},
)
_LOCAL_REPLICAS = {name: OF_REPLICAS[name] for name in ("args", "env")}
#: Of the job: what any backend may take.
_ANYWHERE = {
    "name": _one_of("nightly", "a", "x" * 32),
    "num_proc_per_node": _one_of(1, 2, "auto", "cpu", "gpu"),
    "args": _one_of([], ["--epochs", 4]),
    "env": _ENV,
    "launcher": _one_of("auto", "none", {"is_node": True}, {"name": "none", "implementation": "MPICH"}),
    "run_policy": _some(RUN_POLICY, 3),
    "tools": _one_of(*_ANY_TOOLS),
    "checkpoint": _one_of(*_CHECKPOINTS[2:]),
    "metrics": _one_of({}, {"step": r"step (\d+)", "eval/loss": r"loss=(?P<value>\S+?)(,|$)"}),
}
ON_CLUSTERS = {
    **_ANYWHERE,
    "working_dir": _one_of("/srv", "/"),
    "resources_per_node": _some(RESOURCES, 3),
    "scheduling": _some({**SCHEDULING, "queue_name": _one_of("team", "a.b"), "gang": _one_of(*GANGS)}, 4),
    "pod": _POD_SETTINGS,
    "volumes": _several(*VOLUMES),
    "checkpoint": _one_of(*_CHECKPOINTS),
    "pod_template": _one_of(*TEMPLATES),
    "tools": _one_of(*TOOLS),
    "on_kill_action": _one_of("delete", "suspend"),
    "on_finish_action": _one_of("delete", "delete_succeeded", "keep"),
}
_SIZES: tuple[Spec, ...] = ({}, {"num_nodes": 1}, {"num_nodes": 2}, {"num_nodes": "7"}, {"num_workers": 3})
#: Fields that a spec has for reasons of its own: its framework, its size, and what some backends take only.
OTHERS = ("framework", "image", "command", "function", "num_nodes", "num_workers", "elastic", "replicas", "runtime_ref")
_FUNCTION = {"name": "train", "files": {"runner.py": "import json\n", "dag/my dag.py": "é", "include/a/b.py": ""}}
_ELASTIC = {"elastic": {"min_nodes": 1, "max_nodes": 3, "max_restarts": 2, "rdzv_conf": {"join_timeout": 300}}}


@st.composite
def right_specs(draw: st.DrawFn, backend: str) -> Spec:
    """Specs that are right field by field. A backend may refuse them all the same, for what fields mean together."""
    framework = draw(st.sampled_from(FRAMEWORKS[backend]))
    is_local = backend == "local"
    fields = dict(_ANYWHERE if is_local else ON_CLUSTERS)
    if backend == "trainer":
        fields["runtime_ref"] = _one_of("torch-distributed", "TrainingRuntime/mine", _WITH_INITIALIZER)
    # A program that each machine has, where the command is looked for.
    spec: Spec = {"framework": framework, "command": ["sh" if is_local else "python", "train"]}
    spec |= {} if is_local else {"image": "registry.example/train:1"}
    spec |= copy.deepcopy(draw(st.sampled_from((*_SIZES, *([_ELASTIC] if framework == "pytorch" else [])))))
    spec |= copy.deepcopy(draw(_some(fields, 5)))
    groups = {}
    for role in draw(st.lists(st.sampled_from(_ROLES[framework]), max_size=2, unique=True)):
        groups[role] = copy.deepcopy(draw(_some(_LOCAL_REPLICAS if is_local else OF_REPLICAS, 2)))
        if role == "worker" and draw(st.booleans()):
            groups[role]["replicas"] = 2
        if backend in _SINGLE_REPLICAS and draw(st.booleans()):
            own = draw(_some(_LOCAL_REPLICAS if is_local else OF_REPLICAS, 2))
            groups[role]["overrides"] = [{"index": 0, **copy.deepcopy(own)}]
    spec |= {"replicas": groups} if groups else {}
    return _of_function(spec) if draw(st.integers(0, 7)) == 0 else spec


def _of_function(spec: Spec) -> Spec:
    """The same job for a function, which takes the place of commands."""
    for part in (spec, *spec.get("replicas", {}).values()):
        for each in (part, *part.get("overrides", ())):
            for name in ("command", "args"):
                each.pop(name, None)
    return {**spec, "command": list(FUNCTION_COMMAND), "function": copy.deepcopy(_FUNCTION)}


@st.composite
def specs(draw: st.DrawFn, backend: str) -> Spec:
    """Specs of which every second one has mistakes."""
    spec = draw(right_specs(backend))
    for _ in range(draw(st.sampled_from((0, 0, 1, 2)))):
        places = list(_places(spec))
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        mistake = draw(st.sampled_from(("value", "value", "key", "more", "twice", "gone")))
        if mistake == "key" and isinstance(holder, dict):
            holder[draw(st.sampled_from(_KEYS))] = holder.pop(key)
        elif mistake == "more" and isinstance(holder, dict):
            name = draw(st.sampled_from((*_KEYS, *TrainJobSpec.model_fields)))
            holder[name] = copy.deepcopy(draw(st.sampled_from(_WRONG)))
        elif mistake == "twice" and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        elif mistake == "gone":
            del holder[key]
        else:
            holder[key] = copy.deepcopy(draw(st.sampled_from(_WRONG)))
    return spec


def _places(value: Any) -> Any:
    """All that a value is made of: the mapping or list that holds it, and the key or position in it."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield value, key
        yield from _places(part)


def identity(number: int = 0) -> Identity:
    """The task of a spec. Jobs of several numbers have several names."""
    return Identity(dag_id="random", run_id=f"spec-{number}", task_id="train")


def rendered(backend: str, spec: Spec, number: int = 0) -> Rendered:
    """The objects that a backend on clusters makes of a spec.

    :raises SpecError: the spec is wrong, or the backend cannot express it.
    """
    job = plan_job(parse_spec(spec))
    ClusterBackend(backend, None, "team").check(job)
    order = order_of(kind_for(backend, job), "team", job, identity(number))
    return order.render(order.name, Facts())
