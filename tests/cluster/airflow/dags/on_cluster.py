"""Each framework's job on a cluster, on the backend that the run's params name, waited for in both ways."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_trainer_provider import TrainJobOperator

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
    "namespace": "default",
    "folder": "",
    "mode": "train",
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
    "namespace": "{{ params.namespace }}",
    "image": "{{ params.image }}",
    "resources_per_node": {"cpu": {"requests": "50m"}},
}

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
    with DAG(f"watched_{how}", schedule=None, params=PARAMS):
        TrainJobOperator(
            task_id="train",
            framework="xgboost",
            num_nodes=2,
            deferrable=how == "deferred",
            retries=1,
            retry_delay=timedelta(seconds=1),
            command=["python3", "-u", "/scripts/job.py"],
            args=["{{ params.mode }}", "/shared"],
            pod_template={"spec": SHARED},
            run_policy={"grace_period_seconds": 3},
            **COMMON,
        )
