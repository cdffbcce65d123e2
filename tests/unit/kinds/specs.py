"""The jobs whose manifests are held by golden files: framework -> fields of the spec."""

from __future__ import annotations

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.base import Meta
from airflow_trainer_provider.kinds.objects.labels import meta_of
from airflow_trainer_provider.kinds.objects.ssh import KeyPair
from airflow_trainer_provider.spec import parse_spec

#: Of all jobs that need a key pair.
KEYS = KeyPair(private="-----BEGIN OPENSSH PRIVATE KEY-----\n(of the test)\n", public="ssh-ed25519 AAAA")
COMMON = {
    "image": "registry.example/train:1",
    "command": ["python", "train.py"],
    "args": ["--epochs", "4"],
    "env": {"STAGE": "nightly"},
    "resources_per_node": {"cpu": 2, "memory": {"requests": "2Gi", "limits": "4Gi"}},
    "run_policy": {"active_deadline_seconds": 3600, "grace_period_seconds": 10},
}
SPECS = {
    "pytorch": {"num_nodes": 2, "num_proc_per_node": 2, "resources_per_node": {"cpu": 2, "gpu": 2}},
    "tensorflow": {"num_nodes": 3, "replicas": {"ps": {"args": ["--serve"]}, "evaluator": {}}},
    "mpi": {"num_nodes": 2, "num_proc_per_node": 2},
    "xgboost": {"num_workers": 2, "working_dir": "/srv/train"},
    "paddle": {"num_nodes": 2},
    "jax": {"num_nodes": 2},
}
#: All fields that are only rendered, for all replicas.
FIELDS = {
    "env": {
        # Refers to variables that have their values from elsewhere, and stands before them.
        "HUB_URL": "https://user:$(HUB_TOKEN)@$(PROXY)",
        "HUB_TOKEN": {"secret": {"name": "hub-login", "key": "token"}},
        "PROXY": {"config_map": {"name": "proxy", "key": "http.proxy"}},
        "NODE": {"field": "spec.nodeName"},
        "TEAM": {"field": "metadata.labels['team']"},
        "STAGE": "nightly",
    },
    "resources_per_node": {
        "cpu": 2,
        "memory": {"requests": "2Gi", "limits": "5Gi"},
        "gpu": {"amd.com/gpu": 4},
        "extended": {"rdma/hca": 1},
        "shared_memory": "auto",
    },
    "scheduling": {
        "node_selector": {"disk": "nvme"},
        "node_pools": ["h100", "a100", "l40"],
        "node_pool_label": "example.com/pool",
        "node_affinity": [{"key": "topology.kubernetes.io/zone", "values": ["a", "b"]}],
        "tolerations": [
            {"key": "nvidia.com/gpu"},
            {"key": "maintenance", "value": "soon", "effect": "NoExecute", "seconds": 300},
        ],
        "topology": {"key": "topology.kubernetes.io/zone", "required": True},
        "priority_class": "research",
        "scheduler_name": "kai-scheduler",
    },
    "pod": {
        "service_account": "data-reader",
        "security": {"run_as_user": 5000, "run_as_group": 6000, "supplemental_groups": [7000, 7001], "fs_group": 8000},
        "image_pull": {"policy": "IfNotPresent", "secrets": ["registry-login"]},
        "labels": {"team": "vision", "example.com/cost-center": 42},
        "annotations": {"example.com/owner": "Ada & Grace <vision@example.com>"},
        "env_from": [{"secret": "hub-login", "prefix": "HUB_"}, {"config_map": "proxy"}],
    },
}
#: Of one role what differs.
OF_ROLE = {
    "resources": {"memory": "1Gi", "shared_memory": "256Mi"},
    "env": {"STAGE": {"config_map": {"name": "stages", "key": "first"}}, "PROXY": "none"},
    "scheduling": {
        "node_selector": {"example.com/role": "first"},
        "node_pools": ["cpu"],
        "tolerations": [],
        "topology": {"key": "kubernetes.io/hostname", "policy": "spread", "required": False},
    },
    "pod": {
        "security": {"run_as_group": 6001, "supplemental_groups": []},
        "image_pull": {"policy": "Always"},
        "labels": {"example.com/role": "first"},
    },
}
#: Framework -> the role whose settings differ.
_ROLES = {"pytorch": "master", "tensorflow": "ps", "mpi": "launcher", "xgboost": "master"}
#: Of every source, and with every field of one.
VOLUMES = [
    {"mount_path": "/data", "claim": "sets", "sub_path": "small", "read_only": True},
    {"mount_path": "/scratch", "new_claim": {"size": "10Gi"}},
    {
        "mount_path": "/checkpoints",
        "name": "nightly-checkpoints",
        "new_claim": {"size": "100Gi", "storage_class": "shared", "access_modes": ["ReadWriteMany"], "keep": True},
    },
    {"mount_path": "/dev/scratch", "name": "device", "new_claim": {"size": "1Gi", "volume_mode": "Block"}},
    {"mount_path": "/dev/shm", "empty_dir": {"medium": "memory", "size": "1Gi"}},
    {"mount_path": "/host", "host_path": "/srv/sets"},
    {"mount_path": "/nfs", "nfs": {"server": "nfs.example", "path": "/export/sets"}},
    {
        "mount_path": "/settings",
        "config_map": {"name": "settings", "items": [{"key": "a.yaml", "path": "conf/a.yaml"}]},
    },
    {"mount_path": "/hub", "secret": {"name": "hub"}, "read_only": True},
    {
        "mount_path": "/src",
        "sub_path": "src/train",
        "git": {
            "repository": "https://git.example/team/train.git",
            "revision": "v1",
            "secret_name": "git-robot",
            "image": "registry.example/git:1",
        },
    },
    {
        "mount_path": "/sets",
        "s3": {
            "uri": "s3://sets/small",
            "endpoint": "https://minio.example:9000",
            "region": "eu-west-1",
            "secret_name": "minio-reader",
            "image": "registry.example/rclone:1",
        },
    },
]
CHECKPOINT = {"claim": "models", "path": "runs/nightly", "scope": "run"}

#: Of every kind of access, and with every field of one.
TOOLS = {
    "tensorboard": {"port": 6006},
    "lab": {"port": 8888, "access": "node_port", "node_port": 30888, "host": "node-1.example", "path": "/lab"},
    "profiler": {
        "port": 9000,
        "access": "ingress",
        "host": "{job}.tools.example",
        "path": "/{namespace}",
        "ingress_class": "nginx",
        "tls_secret": "tools-example",
        "annotations": {"nginx.ingress.kubernetes.io/auth-url": "https://sso.example/auth"},
    },
    "gate": {"port": 7000, "access": "url", "url": "https://gate.example/{namespace}/{job}"},
}


def job_of(framework: str, **fields: object) -> JobPlan:
    """The framework's job, with some fields changed."""
    return plan_job(parse_spec({"framework": framework, **COMMON, **SPECS[framework], **fields}))


def job_with_fields(framework: str, *, alike: bool = False, fields_of_pods: bool = True, **pod: object) -> JobPlan:
    """The framework's job with all fields that are only rendered; one role has others than the job.

    :param alike: all replicas have the job's.
    :param fields_of_pods: with variables that have their values from fields of the pods.
    :param pod: other values of fields of ``pod``.
    """
    env = {name: value for name, value in FIELDS["env"].items() if fields_of_pods or "field" not in value}
    fields = {**FIELDS, "env": env, "pod": {**FIELDS["pod"], **pod}}
    role = {} if alike else {_ROLES.get(framework, "worker"): OF_ROLE}
    return job_of(framework, **fields, replicas=role)


def meta(job: JobPlan, name: str = "nightly-train-0123456789-1") -> Meta:
    """What is written on the objects of that job."""
    return meta_of(job, Identity(dag_id="nightly", run_id="monday", task_id="train"), name)
