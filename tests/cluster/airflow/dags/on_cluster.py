"""Each framework's job on a cluster, on the backend that the run's params name, waited for in both ways."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_trainer_provider import (
    ResumeTrainJobOperator,
    SuspendTrainJobOperator,
    TrainJobOperator,
    TrainJobSensor,
)

#: Framework -> its script, and the fields of its job's layout; three processes meet.
LAYOUTS = {
    "pytorch": ("torch_training.py", {"num_nodes": 3}),
    "tensorflow": ("tensorflow_training.py", {"num_nodes": 3}),
    "mpi": ("mpi_training.py", {"num_nodes": 3}),
    "xgboost": ("xgboost_training.py", {"num_nodes": 3}),
    "paddle": ("paddle_training.py", {"num_nodes": 3}),
    "jax": ("jax_training.py", {"num_nodes": 3}),
}
PARAMS = {
    "backend": "native",
    "conn_id": "kubernetes_default",
    "namespace": "default",
    "folder": "",
    "mode": "train",
    "timeout": "360",
    "nodes": 2,
    "image": "trainer.test/worker:test",
}
SCRIPTS = {
    "volumes": [{"name": "scripts", "configMap": {"name": "scripts"}}],
    "containers": [{"name": "train", "volumeMounts": [{"name": "scripts", "mountPath": "/scripts"}]}],
}
#: The test's folder, which the node and the test share.
SHARED = {
    "shareProcessNamespace": True,
    "volumes": [*SCRIPTS["volumes"], {"name": "shared", "hostPath": {"path": "{{ params.folder }}"}}],
    "containers": [
        {
            "name": "train",
            "volumeMounts": [
                {"name": "scripts", "mountPath": "/scripts"},
                {"name": "shared", "mountPath": "/shared"},
            ],
        }
    ],
}
COMMON = {
    "backend": "{{ params.backend }}",
    "kubernetes_conn_id": "{{ params.conn_id }}",
    "namespace": "{{ params.namespace }}",
    "image": "{{ params.image }}",
    "resources_per_node": {"cpu": {"requests": "50m"}},
}

#: A job that trains until it is let go.
WATCHED = {
    "framework": "xgboost",
    "num_nodes": "{{ params.nodes }}",
    "command": ["python3", "-u", "/scripts/job.py"],
    "args": ["{{ params.mode }}", "/shared"],
    "env": {"TIMEOUT_SECONDS": "{{ params.timeout }}"},
    "pod_template": {"spec": SHARED},
    **COMMON,
}
#: Long enough for six jobs to start, whatever else the machine does.
LIMIT = timedelta(seconds=90)

for how in ("waiting", "deferred"):
    for framework, (script, layout) in LAYOUTS.items():
        with DAG(f"{framework}_{how}", schedule=None, params=PARAMS):
            TrainJobOperator(
                task_id="train",
                framework=framework,
                deferrable=how == "deferred",
                command=["python3", f"/scripts/{script}"],
                env={"EXPECTED_WORLD_SIZE": "3"},
                pod_template={"spec": SCRIPTS},
                run_policy={"grace_period_seconds": 1},
                **layout,
                **COMMON,
            )
    for name, options, policy, run_options in (
        ("watched", {"retries": 1}, {}, {}),
        ("patient", {"retries": 9}, {}, {}),
        ("delayed", {"retries": 1, "retry_delay": timedelta(hours=1)}, {}, {}),
        ("once", {}, {}, {}),
        ("limited", {"execution_timeout": LIMIT}, {}, {}),
        ("run_limited", {}, {}, {"dagrun_timeout": LIMIT}),
    ):
        with DAG(f"{name}_{how}", schedule=None, params=PARAMS, **run_options):
            TrainJobOperator(
                task_id="train",
                deferrable=how == "deferred",
                run_policy={"grace_period_seconds": 3, **policy},
                **WATCHED,
                **{"retry_delay": timedelta(seconds=1), **options},
            )

# Whose second try is given another namespace.
with DAG("moved", schedule=None, params=PARAMS | {"then": ""}):
    TrainJobOperator(
        task_id="train",
        deferrable=False,
        retries=1,
        retry_delay=timedelta(seconds=1),
        run_policy={"grace_period_seconds": 3},
        **WATCHED | {"namespace": "{{ params.then if ti.try_number == 1 else params.namespace }}"},
    )

HOLD = "import time; block = bytearray(120 << 20); time.sleep(3); print(len(block) >> 20, 'MiB held')"
for how in ("waiting", "deferred"):
    with DAG(f"grown_{how}", schedule=None, params=PARAMS):
        TrainJobOperator(
            task_id="train",
            framework="jax",
            deferrable=how == "deferred",
            retries=1,
            retry_delay=timedelta(seconds=1),
            command=["python3", "-c", HOLD],
            run_policy={"grace_period_seconds": 1, "on_oom": {"factor": 1.5, "max": "1Gi"}},
            **COMMON | {"resources_per_node": {"memory": "100Mi"}},
        )

with DAG("managed", schedule=None, params=PARAMS):
    train = TrainJobOperator(
        task_id="train", wait_for_completion=False, run_policy={"grace_period_seconds": 3}, **WATCHED
    )
    suspend = SuspendTrainJobOperator(task_id="suspend", job=train.output)
    resume = ResumeTrainJobOperator(task_id="resume", job=train.output, wait_until_running=True)
    wait = TrainJobSensor(task_id="wait", job=train.output, deferrable=True)
    suspend >> resume
