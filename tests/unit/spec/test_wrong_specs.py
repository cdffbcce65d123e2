"""Each way to ask for the wrong thing is answered with the field, the value, what is allowed and the way out."""

from __future__ import annotations

import asyncio
import os
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from airflow_trainer_provider.errors import SpecError, UnsupportedField
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.local.processes import UID_VARIABLE
from airflow_trainer_provider.spec import parse_spec

SECRET = "hunter2"
PYTORCH = {"framework": "pytorch"}
JAX = {"framework": "jax", "command": ["sh", "-c", "true"]}
FRAMEWORKS = "pytorch, tensorflow, mpi, xgboost, paddle, jax"
QUANTITY = 'a positive quantity such as 2, "500m" or "4Gi" (suffixes m, k, M, G, T, Ki, Mi, Gi, Ti)'
NUMBER_OR_WORD = "or auto, cpu, gpu"
JOB_NAME = "1 to 32 lowercase letters, digits and '-', beginning with a letter, not ending with '-'"


class Wrong(NamedTuple):
    """What is asked for, and the problem that it is."""

    spec: dict[str, Any]
    field: str
    value: Any
    allowed: str
    fix: str


def _number(field: str, bound: str) -> tuple[str, str]:
    return f"a number of {bound}", f"Set {field} to a number of {bound}."


SPEC_LEVEL = [
    # Missing.
    Wrong({}, "framework", None, "a value", "Set framework."),
    Wrong(PYTORCH | {"elastic": {"min_nodes": 1}}, "elastic.max_nodes", None, "a value", "Set elastic.max_nodes."),
    Wrong(
        PYTORCH | {"replicas": {"worker": {"overrides": [{"image": "i"}]}}},
        "replicas.worker.overrides[0].index",
        None,
        "a value",
        "Set replicas.worker.overrides[0].index.",
    ),
    Wrong(
        PYTORCH | {"resources_per_node": {"extended": {"kubernetes.io/gpu": 1}}},
        "resources_per_node.extended",
        "kubernetes.io/gpu",
        "a DNS domain other than kubernetes.io",
        "Write the name as the nodes have it",
    ),
    # Misspelt.
    Wrong(PYTORCH | {"rplicas": {}}, "rplicas", "rplicas", "replicas", "Did you mean 'replicas'?"),
    Wrong(PYTORCH | {"nproc": 2}, "nproc", "nproc", "num_proc_per_node", "Remove it; it is not a field here."),
    Wrong(
        PYTORCH | {"replicas": {"worker": {"comand": ["x"]}}},
        "replicas.worker.comand",
        "comand",
        "command",
        "Did you mean 'command'?",
    ),
    Wrong(
        PYTORCH | {"replicas": {"worker": {"overrides": [{"index": 0, "imge": "x"}]}}},
        "replicas.worker.overrides[0].imge",
        "imge",
        "image",
        "Did you mean 'image'?",
    ),
    Wrong(
        PYTORCH | {"resources_per_node": {"cpu": {"limit": 2}}},
        "resources_per_node.cpu.limit",
        "limit",
        "requests, limits",
        "Did you mean 'limits'?",
    ),
    Wrong(
        PYTORCH | {"run_policy": {"backofflimit": 2}},
        "run_policy.backofflimit",
        "backofflimit",
        "backoff_limit",
        "Did you mean 'backoff_limit'?",
    ),
    *(
        Wrong(PYTORCH | {"resources_per_node": {"gpu": given}}, f"resources_per_node.gpu{field}", value, allowed, fix)
        for given, field, value, allowed, fix in (
            (1.5, "", 1.5, "a whole number", "Change"),
            ({"fraction": 1}, ".fraction", 1, "a number of less than 1", "Set"),
            ({"fraction": 0}, ".fraction", 0, "a number of more than 0", "Set"),
            ({"memory": "8"}, ".memory", "8", "at least 1Mi", "A plain number is bytes"),
            ({"fraction": 0.5, "memory": "8Gi"}, "", "both", "either fraction or memory", "Write one"),
            ({"fraction": None}, "", "neither", "either fraction or memory", "Write one"),
        )
    ),
    Wrong(
        {"framework": "paddle", "replicas": {"master": {}}},
        "replicas",
        "master",
        "worker",
        "Drop it: worker-0 holds the rendezvous. A PaddleJob's Master is a parameter server",
    ),
    *(
        Wrong(
            PYTORCH | {"elastic": {"min_nodes": 1, "max_nodes": 2, "rdzv_conf": given}},
            f"elastic.rdzv_conf{field}",
            value,
            allowed,
            fix,
        )
        for given, field, value, allowed, fix in (
            (
                {"is_host": "true"},
                "",
                "is_host",
                "other than is_host, store_type",
                "Drop 'is_host': the rendezvous is c10d",
            ),
            ({"Timeout": 1}, "", "Timeout", "names of torchrun's --rdzv-conf", "Drop 'Timeout'"),
            ({"a": "1,b=2"}, ".a", "1,b=2", "text without spaces, ',' and '='", "Correct a."),
            ({"a": True}, ".a", True, "text or a number", "Write the text"),
            ("join_timeout=300", "", "str", "a mapping", "Write names and values."),
            ({f"a{at}": 1 for at in range(33)}, "", "dict", "at most 32 items", "Shorten elastic.rdzv_conf."),
        )
    ),
    *(
        Wrong(
            PYTORCH | {"elastic": {"min_nodes": 1, "max_nodes": 2, name: "c10d"}},
            f"elastic.{name}",
            name,
            "min_nodes",
            fix,
        )
        for name, fix in (
            ("rdzv_backend", "Drop it: the rendezvous is c10d"),
            ("rdzvHost", "Drop it: the rendezvous is c10d"),
            ("metrics", "Drop it: the number of nodes does not follow the load"),
        )
    ),
    Wrong(PYTORCH | {"launcher": "atuo"}, "launcher", "atuo", "auto, none", "Did you mean 'auto'?"),
    Wrong(PYTORCH | {"launcher": "mpirun"}, "launcher", "mpirun", "auto, none", "Use one of these."),
    Wrong(PYTORCH | {"num_proc_per_node": "gpus"}, "num_proc_per_node", "gpus", NUMBER_OR_WORD, "Did you mean 'gpu'?"),
    # Wrong type.
    Wrong({"framework": 0.5}, "framework", 0.5, "text", "Write it as text, in quotes."),
    Wrong(PYTORCH | {"num_nodes": True}, "num_nodes", True, "a whole number", "Write the number itself."),
    Wrong(PYTORCH | {"num_nodes": "two"}, "num_nodes", "two", "a whole number", "Change num_nodes."),
    Wrong(PYTORCH | {"num_nodes": 2.5}, "num_nodes", 2.5, "a whole number", "Change num_nodes."),
    Wrong(
        PYTORCH | {"num_proc_per_node": True},
        "num_proc_per_node",
        True,
        f"a whole number, {NUMBER_OR_WORD}",
        "Write the number itself.",
    ),
    Wrong(
        PYTORCH | {"command": "python train.py"},
        "command",
        "str",
        'a list of words, one per argument, e.g. ["python", "train.py"]',
        "Split it into words.",
    ),
    Wrong(PYTORCH | {"replicas": [1]}, "replicas", "list", "a mapping", "Change replicas."),
    Wrong(
        PYTORCH | {"replicas": {"worker": 3}},
        "replicas.worker",
        3,
        "a mapping of its fields",
        "Change replicas.worker.",
    ),
    Wrong(
        PYTORCH | {"run_policy": {"active_deadline_seconds": True}},
        "run_policy.active_deadline_seconds",
        True,
        "a number",
        "Write the number itself.",
    ),
    Wrong(PYTORCH | {"resources_per_node": {"cpu": "lots"}}, "resources_per_node.cpu", "lots", QUANTITY, "Write it"),
    Wrong(
        PYTORCH | {"resources_per_node": {"cpu": {"limits": "x"}}},
        "resources_per_node.cpu.limits",
        "x",
        QUANTITY,
        "Write it in one of these ways.",
    ),
    # Out of range.
    Wrong(PYTORCH | {"num_nodes": 0}, "num_nodes", 0, *_number("num_nodes", "at least 1")),
    Wrong(
        PYTORCH | {"num_proc_per_node": 0},
        "num_proc_per_node",
        0,
        f"a number of at least 1, {NUMBER_OR_WORD}",
        "Set num_proc_per_node to a number of at least 1.",
    ),
    Wrong(
        PYTORCH | {"replicas": {"worker": {"replicas": -1}}},
        "replicas.worker.replicas",
        -1,
        *_number("replicas.worker.replicas", "at least 1"),
    ),
    Wrong(
        PYTORCH | {"run_policy": {"backoff_limit": 101}},
        "run_policy.backoff_limit",
        101,
        *_number("run_policy.backoff_limit", "at most 100"),
    ),
    Wrong(
        PYTORCH | {"run_policy": {"active_deadline_seconds": 0}},
        "run_policy.active_deadline_seconds",
        0,
        *_number("run_policy.active_deadline_seconds", "more than 0"),
    ),
    Wrong(
        PYTORCH | {"run_policy": {"active_deadline_seconds": "inf"}},
        "run_policy.active_deadline_seconds",
        "inf",
        "a finite number",
        "Change run_policy.active_deadline_seconds.",
    ),
    Wrong(
        PYTORCH | {"run_policy": {"grace_period_seconds": 301}},
        "run_policy.grace_period_seconds",
        301,
        *_number("run_policy.grace_period_seconds", "at most 300"),
    ),
    Wrong(PYTORCH | {"resources_per_node": {"cpu": 0}}, "resources_per_node.cpu", 0, QUANTITY, "Write it"),
    Wrong(
        PYTORCH | {"resources_per_node": {"memory": "4"}},
        "resources_per_node.memory",
        "4",
        "at least 1Mi",
        'A plain number is bytes; add a unit, e.g. "4Mi".',
    ),
    Wrong(
        PYTORCH | {"resources_per_node": {"memory": "1023Ki"}},
        "resources_per_node.memory",
        "1023Ki",
        "at least 1Mi",
        "Ask for more.",
    ),
    Wrong(
        PYTORCH | {"resources_per_node": {"memory": {"requests": "1Gi", "limits": "512Mi"}}},
        "resources_per_node.memory.requests",
        "1Gi",
        "at most the limits (512Mi)",
        "Lower requests or raise limits.",
    ),
    Wrong(
        PYTORCH | {"resources_per_node": {"gpu": {"requests": 1, "limits": 2}}},
        "resources_per_node.gpu",
        "dict",
        "equal numbers for requests and limits",
        "Write the number itself",
    ),
    Wrong(
        PYTORCH | {"resources_per_node": {"gpu": {"amd.com/gpu": 1, "google.com/tpu": 1}}},
        "resources_per_node.gpu",
        "dict",
        "a whole number, or one resource with its number",
        "Write one; what else a node counts goes into extended.",
    ),
    Wrong(
        PYTORCH | {"resources_per_node": {"gpu": {"amd": 1}}},
        "resources_per_node.gpu",
        "amd",
        "names of resources: a DNS domain other than kubernetes.io",
        "Write the name as the nodes have it",
    ),
    Wrong(
        PYTORCH | {"resources_per_node": {"gpu": {"amd.com/gpu": 0}}},
        "resources_per_node.gpu.amd.com/gpu",
        0,
        *_number("resources_per_node.gpu.amd.com/gpu", "at least 1"),
    ),
    Wrong(
        PYTORCH | {"resources_per_node": {"extended": {"requests.rdma/hca": 1}}},
        "resources_per_node.extended",
        "requests.rdma/hca",
        "names of resources",
        "Write the name as the nodes have it",
    ),
    Wrong(
        PYTORCH | {"resources_per_node": {"extended": {"rdma/hca": 0.5}}},
        "resources_per_node.extended.rdma/hca",
        0.5,
        "a whole number",
        "Change resources_per_node.extended.rdma/hca.",
    ),
    Wrong(
        PYTORCH | {"resources_per_node": {"extended": {"nvidia.com/gpu": 1}}},
        "resources_per_node.extended",
        "nvidia.com/gpu",
        "resources that are not written as gpu",
        "Write nvidia.com/gpu as gpu alone.",
    ),
    Wrong(
        PYTORCH | {"resources_per_node": {"memory": "1Gi", "shared_memory": "2Gi"}},
        "resources_per_node.shared_memory",
        "2Gi",
        "at most the memory limit (1Gi), against which it counts",
        "Lower shared_memory, or raise memory.",
    ),
    Wrong(
        PYTORCH | {"resources_per_node": {"shared_memory": "much"}},
        "resources_per_node.shared_memory",
        "much",
        f"auto, or {QUANTITY}",
        "Write it in one of these ways.",
    ),
    Wrong(
        PYTORCH | {"resources_per_node": {"shared_memory": 64}},
        "resources_per_node.shared_memory",
        64,
        "auto, or at least 1Mi",
        'A plain number is bytes; add a unit, e.g. "64Mi".',
    ),
    Wrong(PYTORCH | {"name": "Nightly_Run"}, "name", "Nightly_Run", JOB_NAME, "Rename it."),
    Wrong(PYTORCH | {"name": "a" * 33}, "name", "a" * 33, JOB_NAME, "Rename it."),
    Wrong(PYTORCH | {"working_dir": ""}, "working_dir", "", "text that is not empty", "Change working_dir."),
    Wrong(PYTORCH | {"env": {"1ST": SECRET}}, "env", "1ST", "names of letters", "Rename '1ST'."),
    Wrong(
        PYTORCH | {"env": {"TRAINER_FILES": SECRET}},
        "env",
        "TRAINER_FILES",
        "names that do not begin with TRAINER_",
        "Rename 'TRAINER_FILES'.",
    ),
    # Contradictory.
    Wrong(
        PYTORCH | {"num_nodes": 2, "num_workers": 2},
        "num_workers",
        2,
        "num_nodes (master counted in) or num_workers (beside the master), not both",
        "Drop one of them.",
    ),
    Wrong(
        PYTORCH | {"num_nodes": 2, "elastic": {"min_nodes": 1, "max_nodes": 2}},
        "num_nodes",
        2,
        "nothing beside elastic, whose max_nodes is the number of nodes",
        "Drop num_nodes or elastic.",
    ),
    Wrong(
        PYTORCH | {"elastic": {"min_nodes": 3, "max_nodes": 2}},
        "elastic.min_nodes",
        3,
        "at most max_nodes (2)",
        "Lower min_nodes or raise max_nodes.",
    ),
    Wrong(
        PYTORCH | {"resources_per_node": {"cpu": {"requests": 4, "limits": 2}}},
        "resources_per_node.cpu.requests",
        "4",
        "at most the limits (2)",
        "Lower requests or raise limits.",
    ),
    Wrong(
        PYTORCH | {"replicas": {"worker": {"overrides": [{"index": 1}, {"index": 1}]}}},
        "replicas.worker.overrides",
        1,
        "each index once",
        "Merge the overrides of index 1.",
    ),
    # A value that may be a secret is named by its type.
    Wrong(PYTORCH | {"env": {"TOKEN": [SECRET]}}, "env.TOKEN", "list", "text or a number", "Write it as text;"),
    Wrong(PYTORCH | {"env": f"TOKEN={SECRET}"}, "env", "str", "a mapping", "Write names and values."),
    Wrong(PYTORCH | {"replicas": [{"env": {"TOKEN": SECRET}}]}, "replicas", "list", "a mapping", "Change replicas."),
    Wrong(
        PYTORCH | {"replicas": f"{{'worker': {{'env': {{'TOKEN': '{SECRET}'}}}}}}"},
        "replicas",
        "str",
        "a mapping",
        "Jinja renders a template to text",
    ),
    Wrong(
        PYTORCH | {"replicas": {"worker": {"overrides": {"index": 0, "env": {"TOKEN": SECRET}}}}},
        "replicas.worker.overrides",
        "dict",
        "a list",
        "Change replicas.worker.overrides.",
    ),
]

LAYOUT_LEVEL = [
    Wrong({"framework": "pytroch"}, "framework", "pytroch", FRAMEWORKS, "Did you mean 'pytorch'?"),
    Wrong({"framework": "PyTorch"}, "framework", "PyTorch", FRAMEWORKS, "Did you mean 'pytorch'?"),
    Wrong({"framework": "caffe"}, "framework", "caffe", FRAMEWORKS, "Use one of these."),
    Wrong(PYTORCH | {"replicas": {"wroker": {}}}, "replicas", "wroker", "master, worker", "Did you mean 'worker'?"),
    Wrong(JAX | {"replicas": {"master": {}}}, "replicas", "master", "worker", "JAX has these roles only."),
    Wrong(
        {"framework": "xgboost", "num_proc_per_node": 2},
        "num_proc_per_node",
        2,
        "1",
        "XGBoost runs one process on a node; raise num_nodes instead.",
    ),
    Wrong(
        {"framework": "mpi", "num_proc_per_node": "auto"},
        "num_proc_per_node",
        "auto",
        "a whole number of at least 1",
        "MPI takes a number only.",
    ),
    Wrong(
        {"framework": "xgboost", "elastic": {"min_nodes": 1, "max_nodes": 2}},
        "elastic",
        {"min_nodes": 1, "max_nodes": 2},
        "no value",
        "XGBoost runs on a fixed number of nodes; use num_nodes.",
    ),
    Wrong(
        PYTORCH | {"elastic": {"min_nodes": 1, "max_nodes": 2}, "replicas": {"master": {}}},
        "replicas.master",
        "master",
        "worker, where elastic is set",
        "Nodes of an elastic job are alike, and all are workers.",
    ),
    Wrong(
        PYTORCH | {"elastic": {"min_nodes": 1, "max_nodes": 2}, "launcher": "none"},
        "launcher",
        "none",
        "auto, where elastic is set",
        "Elastic training needs the launcher, torchrun; drop one of the two.",
    ),
    Wrong(
        PYTORCH | {"launcher": "none", "num_proc_per_node": 2},
        "launcher",
        "none",
        "auto, where num_proc_per_node is not 1 and no launcher is given it",
        "Drop launcher or num_proc_per_node, or give $(PET_NPROC_PER_NODE) to a launcher in the command.",
    ),
    Wrong(
        PYTORCH | {"command": ["accelerate", "launch", "t.py"], "num_nodes": 2, "num_proc_per_node": 4},
        "num_proc_per_node",
        4,
        "1 where command begins with accelerate, which does not read it",
        "Give accelerate the number by its own option, as $(PET_NPROC_PER_NODE), or drop num_proc_per_node.",
    ),
    Wrong(
        PYTORCH
        | {"num_nodes": 2, "num_proc_per_node": "gpu", "replicas": {"worker": {"command": ["deepspeed", "t.py"]}}},
        "num_proc_per_node",
        "gpu",
        "1 where replicas.worker.command begins with deepspeed",
        "Give deepspeed the number",
    ),
    Wrong(
        PYTORCH | {"command": ["accelerate", "launch", "t.py"], "elastic": {"min_nodes": 1, "max_nodes": 2}},
        "command",
        "accelerate",
        "a command for torchrun, where elastic is set",
        "Elastic training needs torchrun: drop elastic, or the launcher accelerate.",
    ),
    Wrong(
        PYTORCH | {"replicas": {"master": {"replicas": 2}}},
        "replicas.master.replicas",
        2,
        "at most 1",
        "PyTorch has at most 1 of master; put the others into worker.",
    ),
    Wrong(
        PYTORCH | {"num_nodes": 2, "replicas": {"worker": {"replicas": 5}}},
        "replicas.worker.replicas",
        5,
        "1",
        "It contradicts num_nodes; drop one of the two.",
    ),
    Wrong(
        PYTORCH | {"num_nodes": 1, "replicas": {"worker": {"replicas": 2}}},
        "replicas.worker.replicas",
        2,
        "no value: a job of one node has a master only",
        "It contradicts num_nodes; drop one of the two.",
    ),
    Wrong(
        PYTORCH | {"num_workers": 2, "replicas": {"worker": {"overrides": [{"index": 2}]}}},
        "replicas.worker.overrides[0].index",
        2,
        "0 to 1",
        "Group worker has 2 in all, counted from 0.",
    ),
    *(
        Wrong(
            PYTORCH | {**size, "replicas": {"worker": {"resources": {"gpu": 1}}}},
            "replicas.worker",
            "settings",
            "no settings of worker: a job of one node has a master only",
            "Set num_nodes, num_workers or replicas.worker.replicas, or drop replicas.worker.",
        )
        for size in ({}, {"num_nodes": 1})
    ),
    Wrong(
        PYTORCH | {"replicas": {"master": {"replicas": 1}, "worker": {"overrides": [{"index": 0}]}}},
        "replicas.worker",
        "settings",
        "no settings of worker",
        "Set num_nodes, num_workers or replicas.worker.replicas",
    ),
    Wrong(
        {"framework": "xgboost", "replicas": {"worker": {"replicas": 3}}},
        "replicas",
        ["worker"],
        "a group master beside them: the tracker that all ranks connect to runs there",
        "Set num_workers=3, which adds it, or add {'master': {}}.",
    ),
    Wrong(
        {"framework": "mpi", "replicas": {"worker": {"replicas": 2}}},
        "replicas",
        ["worker"],
        "a group launcher beside them: mpirun runs there",
        "Set num_workers=2, which adds it, or add {'launcher': {}}.",
    ),
    Wrong(
        {"framework": "mpi", "replicas": {"worker": {"command": ["x"]}}},
        "replicas.worker.command",
        "a value",
        "no value",
        "The launcher starts the processes on each worker; set command of the job.",
    ),
]

LOCAL_LEVEL = [
    Wrong(
        PYTORCH | {"command": ["/bin/sh"], "env": {"PATH": "/nowhere"}},
        "command",
        "torchrun",
        "a program in the worker's PATH",
        "Install it",
    ),
    *(
        Wrong(
            {"framework": "mpi", "command": ["sh"], "num_nodes": 2, "replicas": {"worker": worker}},
            field,
            "a value",
            "no value: on this machine they are those of the launcher",
            f"Set {field.rpartition('.')[2]} of the job.",
        )
        for field, worker in {
            "replicas.worker.env": {"env": {"A": "b"}},
            "replicas.worker.overrides.working_dir": {"overrides": [{"index": 0, "working_dir": "/"}]},
        }.items()
    ),
    Wrong(
        JAX | {"image": "python:3.12"},
        "image",
        "python:3.12",
        "no image: the processes run on this machine as they are",
        "Drop image, or use a cluster.",
    ),
    Wrong(
        JAX | {"replicas": {"worker": {"image": "python:3.12"}}},
        "replicas.worker.image",
        "python:3.12",
        "no image",
        "Drop image, or use a cluster.",
    ),
    Wrong(
        JAX | {"command": ["pythn", "train.py"]},
        "command",
        "pythn",
        "a program in the worker's PATH",
        "Install it where Airflow's worker runs, or correct the name.",
    ),
    Wrong(
        JAX | {"replicas": {"worker": {"overrides": [{"index": 0, "command": ["pythn"]}]}}},
        "replicas.worker.overrides[0].command",
        "pythn",
        "a program in the worker's PATH",
        "Install it",
    ),
    # Of the path that the process itself would look in, and from where it would start.
    Wrong(JAX | {"env": {"PATH": "/nowhere"}}, "command", "sh", "a program in the worker's PATH", "Install it"),
    Wrong(JAX | {"command": ["./train.sh"]}, "command", "./train.sh", "a program in the worker's PATH", "Install it"),
    Wrong({"framework": "jax"}, "command", None, "a list of words", 'Set command, e.g. ["python", "train.py"]'),
    Wrong(JAX | {"command": []}, "command", None, "a list of words", 'Set command, e.g. ["python", "train.py"]'),
    Wrong(
        JAX | {"working_dir": "/no/such/folder"},
        "working_dir",
        "/no/such/folder",
        "the whole path of a folder on this machine",
        "Make the folder first, or drop working_dir to start in the job's own folder.",
    ),
    Wrong(JAX | {"working_dir": "src"}, "working_dir", "src", "the whole path of a folder", "Make the folder first"),
    Wrong(
        JAX | {"num_nodes": 300},
        "num_nodes",
        300,
        "at most 256 processes on one machine; these are 300",
        "Start fewer, or run on a cluster.",
    ),
    Wrong(
        {"framework": "mpi", "command": ["sh"], "num_nodes": 2, "num_proc_per_node": 200},
        "num_proc_per_node",
        200,
        "at most 256 processes on one machine; these are 400",
        "Start fewer, or run on a cluster.",
    ),
    Wrong(
        JAX | {"pod_template": {"spec": {"containers": [{"name": "x", "env": [{"name": "A", "value": SECRET}]}]}}},
        "pod_template",
        "a value",
        "no value: there is no cluster behind it",
        "Drop pod_template, or use a cluster.",
    ),
    Wrong(
        JAX | {"scheduling": {"queue_name": "team"}},
        "scheduling.queue_name",
        "team",
        "no value: there is no cluster behind it",
        "Drop queue_name, or use a cluster.",
    ),
    Wrong(
        JAX | {"resources_per_node": {"memory": "1Mi"}, "run_policy": {"on_oom": {"factor": 2, "max": "2Mi"}}},
        "run_policy.on_oom",
        "a value",
        "no value: there is no cluster behind it",
        "Drop on_oom, or use a cluster.",
    ),
    *(
        Wrong(
            JAX | fields,
            field,
            "a value",
            "no value: the processes run on this machine, and in no pod",
            f"Drop {field.rpartition('.')[2]}, or use a cluster.",
        )
        for field, fields in {
            "scheduling": {"scheduling": {"node_selector": {"a": "b"}}},
            "pod": {"pod": {"service_account": "data"}},
            "replicas.worker.scheduling": {"replicas": {"worker": {"scheduling": {}}}},
            "replicas.worker.overrides[0].scheduling": {
                "replicas": {"worker": {"overrides": [{"index": 0, "scheduling": {"node_pools": ["a"]}}]}}
            },
        }.items()
    ),
    *(
        Wrong(
            JAX | {"resources_per_node": {name: value}},
            f"resources_per_node.{name}",
            value,
            "no value: the processes have the devices and the /dev/shm of this machine",
            f"Drop {name}, or use a cluster.",
        )
        for name, value in {"extended": {"rdma/hca": 1}, "shared_memory": "auto"}.items()
    ),
    *(
        Wrong(
            JAX | fields,
            field,
            "dict",
            "text or a number: there is no cluster behind it",
            'Take it from Airflow in a template, e.g. "{{ conn.hub.password }}", or use a cluster.',
        )
        for field, fields in {
            "env.TOKEN": {"env": {"A": "b", "TOKEN": {"secret": {"name": "hub", "key": "token"}}}},
            "replicas.worker.env.NODE": {"replicas": {"worker": {"env": {"NODE": {"field": "spec.nodeName"}}}}},
        }.items()
    ),
    Wrong(
        JAX | {"num_nodes": 2, "resources_per_node": {"cpu": 5000}},
        "resources_per_node.cpu",
        10000.0,
        "CPUs for all 2 replicas together",
        "Ask for less, start fewer replicas, or run on a cluster.",
    ),
    Wrong(
        JAX | {"replicas": {"worker": {"resources": {"memory": "900Ti"}}}},
        "replicas.worker.resources.memory",
        float(900 << 40),
        "bytes for all 1 replicas together",
        "Ask for less",
    ),
]


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What has come to be since: folders of jobs, and processes that inherited this test's mark."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv("MARK", mark)

    def look() -> list[Any]:
        found: list[Any] = list((tmp_path / "root").rglob("*"))
        for process in psutil.process_iter():
            try:
                env = process.environ()
            except psutil.Error:
                continue
            if env.get("MARK") == mark and UID_VARIABLE in env:
                found.append(process)
        return found

    return look


def _run(spec: dict[str, Any], tmp_path: Path) -> None:
    """The way that every operator takes: nothing may have happened when one of the first three steps refuses."""
    backend = LocalBackend(tmp_path / "root", 0.05, None)
    job = plan_job(parse_spec(spec))
    backend.check(job)
    asyncio.run(backend.submit(job, Identity(dag_id="d", run_id="r", task_id="t")))


@pytest.mark.parametrize(
    "wrong", [*SPEC_LEVEL, *LAYOUT_LEVEL, *LOCAL_LEVEL], ids=lambda wrong: f"{wrong.field}={str(wrong.value)[:20]}"
)
def test_a_wrong_spec(wrong: Wrong, tmp_path: Path, started: Any) -> None:
    with pytest.raises(SpecError) as caught:
        _run(wrong.spec, tmp_path)

    problem = next(problem for problem in caught.value.problems if problem.field == wrong.field)
    assert problem.value == wrong.value
    assert type(problem.value) is type(wrong.value)
    assert wrong.allowed in problem.allowed
    assert problem.fix.startswith(wrong.fix)
    text = str(caught.value)
    assert f"{wrong.field}: got {wrong.value!r}; allowed: {problem.allowed}. {problem.fix}" in text
    assert "nothing was started" in text
    assert SECRET not in text
    assert not caught.value.retryable
    assert started() == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"args": ["x" * 100_000] * 25}, "args"),
        ({"replicas": {"worker": {"env": {f"V{at}": "x" * 100_000 for at in range(25)}}}}, "replicas.worker.env"),
    ],
)
def test_more_arguments_and_variables_than_linux_takes(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecError) as caught:
        LocalBackend(Path("/nowhere"), 0.05, None).check(plan_job(parse_spec(JAX | fields)))

    (problem,) = caught.value.problems
    assert problem.field == field
    assert "all arguments and variables of a process" in problem.allowed


def test_a_program_is_looked_for_where_the_process_starts(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.touch(mode=0o755)
    job = plan_job(parse_spec(JAX | {"command": ["./train.sh"], "working_dir": str(tmp_path)}))

    LocalBackend(tmp_path / "root", 0.05, None).check(job)


def test_a_script_that_its_launcher_takes_without_the_interpreter_is_no_program(tmp_path: Path) -> None:
    job = plan_job(parse_spec({"framework": "paddle", "command": ["python", "train.py"]}))
    assert job.replicas[0].argv == ("python", "-m", "paddle.distributed.launch", "train.py")

    LocalBackend(tmp_path / "root", 0.05, None).check(job)


def test_what_this_machine_cannot_do_is_reported_with_the_backend() -> None:
    with pytest.raises(UnsupportedField, match="Backend 'local' cannot express") as caught:
        LocalBackend(Path("/nowhere"), 0.05, None).check(plan_job(parse_spec(JAX | {"image": "i"})))

    assert caught.value.backend == "local"


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec({"num_nodes": 0, "rplicas": {}, "run_policy": {"backoff_limit": -1}})

    fields = [problem.field for problem in caught.value.problems]
    assert sorted(fields) == ["framework", "num_nodes", "rplicas", "run_policy.backoff_limit"]
    assert "(4 problems)" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        # As Jinja renders numbers.
        ({"num_nodes": "4"}, "num_nodes", 4),
        ({"num_proc_per_node": "2"}, "num_proc_per_node", 2),
        ({"num_proc_per_node": "auto"}, "num_proc_per_node", "auto"),
        ({"num_nodes": 4.0}, "num_nodes", 4),
        ({"run_policy": {"backoff_limit": "3"}}, "run_policy.backoff_limit", 3),
        ({"run_policy": {"active_deadline_seconds": "0.5"}}, "run_policy.active_deadline_seconds", 0.5),
        ({"replicas": {"worker": {"replicas": "2"}}}, "replicas.worker.replicas", 2),
        ({"resources_per_node": {"cpu": 2}}, "resources_per_node.cpu.limits", "2"),
        ({"resources_per_node": {"cpu": 2}}, "resources_per_node.cpu.requests", "2"),
        ({"resources_per_node": {"memory": {"limits": "4Gi"}}}, "resources_per_node.memory.requests", None),
        # The least, and what is less only by its unit.
        ({"resources_per_node": {"memory": "1Mi"}}, "resources_per_node.memory.limits", "1Mi"),
        ({"resources_per_node": {"cpu": {"requests": "500m", "limits": 2}}}, "resources_per_node.cpu.requests", "500m"),
        # One accelerator of NVIDIA's is a number, however it is written.
        ({"resources_per_node": {"gpu": {"requests": 2, "limits": "2"}}}, "resources_per_node.gpu", 2),
        ({"resources_per_node": {"gpu": {"limits": 2}}}, "resources_per_node.gpu", 2),
        ({"resources_per_node": {"gpu": {"nvidia.com/gpu": "2"}}}, "resources_per_node.gpu", 2),
        ({"resources_per_node": {"gpu": {"google.com/tpu": "4"}}}, "resources_per_node.gpu", {"google.com/tpu": 4}),
        (
            {"resources_per_node": {"gpu": {"nvidia.com/mig-1g.5gb": 1}}},
            "resources_per_node.gpu",
            {"nvidia.com/mig-1g.5gb": 1},
        ),
        ({"resources_per_node": {"extended": {"rdma/hca": "1"}}}, "resources_per_node.extended", {"rdma/hca": 1}),
        ({"resources_per_node": {"memory": "1Gi", "shared_memory": "1Gi"}}, "resources_per_node.shared_memory", "1Gi"),
        ({"elastic": {"min_nodes": 2, "max_nodes": 2}}, "elastic.min_nodes", 2),
        ({"num_nodes": None, "num_workers": 2}, "num_workers", 2),
        ({"command": ("python", "x")}, "command", ("python", "x")),
        ({"env": {"TOKEN": ""}}, "env", {"TOKEN": ""}),
    ],
)
def test_a_right_spec(given: dict[str, Any], field: str, value: Any) -> None:
    found: Any = parse_spec(PYTORCH | given)
    for part in field.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    assert found == value


def test_the_table_is_as_long_as_was_promised() -> None:
    assert len(SPEC_LEVEL) + len(LAYOUT_LEVEL) + len(LOCAL_LEVEL) >= 30
    assert os.environ.get(UID_VARIABLE) is None


def test_a_relative_folder_is_refused_also_where_it_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()

    with pytest.raises(SpecError, match="working_dir: got 'src'; allowed: the whole path"):
        LocalBackend(tmp_path / "root", 0.05, None).check(plan_job(parse_spec(JAX | {"working_dir": "src"})))
