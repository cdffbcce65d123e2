"""Jobs of other people's manifests, brought by the operator, and jobs of other people, waited for by the sensor."""

from __future__ import annotations

from pathlib import Path

import yaml
from airflow.sdk import DAG

from airflow_trainer_provider import TrainJobOperator, TrainJobSensor

JOB_MANIFESTS = Path(__file__).parents[2] / "job_manifests"
#: With a variable that makes the script write its result. All replicas share one template.
PYTORCHJOB = yaml.safe_load((JOB_MANIFESTS / "pytorchjob.yaml").read_text())
PYTORCHJOB["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["env"].append(
    {"name": "TRAINER_RESULT_PATH", "value": "/dev/termination-log"}
)
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: by-hand, namespace: '{{ params.namespace }}'}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers:
        - name: main
          image: trainer.test/tiny:test
          resources:
            requests: {cpu: 10m}
          command:
            - sh
            - -c
            - |
              echo "{{ params.word }} of $JOB_COMPLETION_INDEX"
              test "{{ params.word }}" != fail || { echo 'no such shard' >&2; exit 3; }
              echo '{"metrics": {"loss": 0.5}}' > /dev/termination-log
"""
MANIFESTS = {"pytorchjob": PYTORCHJOB, "trainjob": "trainjob-torch.yaml", "xgboostjob": "xgboostjob.yaml", "job": JOB}

for how in ("waiting", "deferred"):
    for kind, manifest in MANIFESTS.items():
        with DAG(
            f"brought_{kind}_{how}",
            schedule=None,
            params={"namespace": "default", "backend": "", "word": "line"},
            template_searchpath=[str(JOB_MANIFESTS)],
        ):
            TrainJobOperator(
                task_id="train",
                manifest=manifest,
                deferrable=how == "deferred",
                # That of the Job stands in its manifest.
                namespace=None if kind == "job" else "{{ params.namespace }}",
            )

for how in ("poke", "reschedule", "deferred"):
    with DAG(
        f"found_{how}",
        schedule=None,
        params={
            "namespace": "default",
            "backend": "",
            "name": "",
            "selector": "",
            "kind": "",
            "phase": "succeeded",
        },
    ):
        TrainJobSensor(
            task_id="wait",
            name="{{ params.name }}",
            selector="{{ params.selector }}",
            kind="{{ params.kind }}",
            namespace="{{ params.namespace }}",
            allowed_phases=["{{ params.phase }}"],
            deferrable=how == "deferred",
            mode="poke" if how == "deferred" else how,
            poke_interval=2,
            timeout=450,
        )

for soft in (False, True):
    with DAG(
        f"found_every_{'soft' if soft else 'hard'}",
        schedule=None,
        params={"namespace": "default", "backend": "", "selector": ""},
    ):
        TrainJobSensor(
            task_id="wait",
            selector="{{ params.selector }}",
            namespace="{{ params.namespace }}",
            every_match=True,
            soft_fail=soft,
            deferrable=True,
            timeout=450,
        )
