"""Trainings whose pods are taken away in the middle, politely or not, and that the same try submits again."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_trainer_provider import TrainJobOperator

#: How each training behaves when it is taken away, and by what that is.
TRAININGS = [f"{manner}-{by}" for manner in ("polite", "blunt") for by in ("evict", "delete", "drain")]
#: Trains until its pod, or that of its peer, is taken away. Where this replica has begun before, its training is whole.
SCRIPT = """
import json, os, pathlib, signal, sys, time

me, job = os.environ["TRAINER_REPLICA"], os.environ["TRAINER_JOB_NAME"]
folder = pathlib.Path("/shared", sys.argv[1])
folder.mkdir(exist_ok=True)

def note(name, text):
    with (folder / name).open("a") as file:
        file.write(text + "\\n")

def leave(*_):
    note("saved", me)
    sys.exit(0)

again = (folder / f"{me}-began").exists()
if sys.argv[1].startswith("polite"):
    signal.signal(signal.SIGTERM, leave)
note(f"{me}-began", job)
if me.endswith("-0") and again:
    time.sleep(2)
    note("whole", job)
    result = {"whole": (folder / "whole").read_text().split()}
    pathlib.Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps(result))
while not (folder / "whole").exists():
    time.sleep(0.1)
"""
#: The framework of a job -> its layout: two replicas, or the launcher alone.
LAYOUTS = {
    "jax": {"num_nodes": 2, "resources_per_node": {"cpu": {"requests": "10m"}}},
    "mpi": {
        "num_nodes": 1,
        "launcher": "none",
        "replicas": {"launcher": {"resources": {"cpu": {"requests": "10m"}}}},
    },
}

for how in ("waiting", "deferred"):
    for framework, layout in LAYOUTS.items():
        with DAG(
            f"taken_away_{framework}_{how}",
            schedule=None,
            params={"backend": "native", "namespace": "default", "folder": ""},
        ):
            TrainJobOperator.partial(
                task_id="train",
                framework=framework,
                deferrable=how == "deferred",
                backend="{{ params.backend }}",
                namespace="{{ params.namespace }}",
                image="trainer.test/worker:test",
                command=["python3", "-u", "-c", SCRIPT],
                pod_template={
                    "spec": {
                        # Not the first process of its container, which signals reach only where it handles them.
                        "shareProcessNamespace": True,
                        "volumes": [{"name": "shared", "hostPath": {"path": "{{ params.folder }}"}}],
                        "containers": [{"name": "train", "volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}],
                    }
                },
                run_policy={"grace_period_seconds": 10, "infrastructure_retries": 1},
                **layout,
            ).expand(args=[[name] for name in TRAININGS])
