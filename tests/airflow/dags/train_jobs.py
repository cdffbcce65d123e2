"""The provider's operator and sensor, in each way that they wait."""

from __future__ import annotations

from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from airflow_trainer_provider import (
    DeleteTrainJobOperator,
    SuspendTrainJobOperator,
    TrainJobOperator,
    TrainJobSensor,
)

SCRIPT = Path(__file__).parents[1] / "scripts" / "job.py"

JOB = {
    "framework": "pytorch",
    "backend": "local",
    "launcher": "none",
    "num_workers": 1,
    "command": ["python", str(SCRIPT)],
    "args": ["{{ params.mode }}", "{{ params.folder }}"],
    "run_policy": {"grace_period_seconds": 3},
    "metrics": {"step": r"^line (\d+) of rank"},
}
#: Airflow takes a sensor for lost that it queues again before its scheduler has noted the last poke's end. On a
#: busy machine this takes seconds.
POKE = 15
PARAMS = {"mode": "train", "folder": "", "timeout": 0}

for how in ("waiting", "deferred"):
    with DAG(f"train_{how}", schedule=None, params=PARAMS):
        TrainJobOperator(
            task_id="train", deferrable=how == "deferred", retries=1, retry_delay=timedelta(seconds=1), **JOB
        )

# The worker of a try may fail for as long as Airflow's API server is away.
with DAG("train_patient", schedule=None, params=PARAMS):
    TrainJobOperator(task_id="train", deferrable=False, retries=9, retry_delay=timedelta(seconds=1), **JOB)

# Between its tries there is time to look at what the first has left.
with DAG("train_rarely_retried", schedule=None, params=PARAMS):
    TrainJobOperator(task_id="train", deferrable=False, retries=1, retry_delay=timedelta(hours=1), **JOB)

with DAG("train_wrong", schedule=None, params=PARAMS):
    TrainJobOperator(task_id="train", retries=3, **JOB | {"framework": "pytroch"})

HOLD = JOB | {"num_workers": None, "num_nodes": 1, "args": ["hold", "{{ params.folder }}"]}
RETRIED: dict[str, Any] = {"retries": 1, "retry_delay": timedelta(seconds=1)}
with DAG("train_out_of_memory", schedule=None, params=PARAMS):
    for how in ("waiting", "deferred"):
        memory = {"memory": "{{ 100 if ti.try_number == 1 else 400 }}Mi"}
        TrainJobOperator(task_id=how, deferrable=how == "deferred", resources_per_node=memory, **HOLD, **RETRIED)
    fixed = HOLD | {"resources_per_node": {"memory": "100Mi"}, "deferrable": False}
    TrainJobOperator(task_id="fixed", **fixed, **RETRIED)
    if find_spec("airflow.sdk.definitions.retry_policy"):
        from airflow.sdk import ExceptionRetryPolicy, RetryRule

        from airflow_trainer_provider.operators.failures.retry_policy import TrainJobRetryPolicy

        again = ExceptionRetryPolicy([RetryRule("airflow_trainer_provider.operators.failures.exceptions.OutOfMemory")])
        TrainJobOperator(task_id="ruled", retry_policy=again, **fixed, **RETRIED)
        policy = TrainJobRetryPolicy(infrastructure_delay=timedelta(seconds=1))
        TrainJobOperator(task_id="shipped", retry_policy=policy, **fixed, **RETRIED)
        patient = RETRIED | {"retry_delay": timedelta(hours=1)}
        TrainJobOperator(task_id="lost", retry_policy=policy, deferrable=False, **JOB, **patient)

with DAG("train_once", schedule=None, params=PARAMS) as train_once:
    TrainJobOperator(task_id="train", deferrable=False, **JOB)

# Whose second try is given another backend; a number is none, and fails the template.
with DAG("train_changed", schedule=None, params=PARAMS | {"then": "local"}):
    changed = JOB | {"backend": "{{ 'local' if ti.try_number == 1 else params.then.strip() }}"}
    TrainJobOperator(task_id="train", deferrable=False, retries=1, retry_delay=timedelta(seconds=1), **changed)

with DAG("train_run_limited", schedule=None, params=PARAMS, dagrun_timeout=timedelta(hours=1)):
    TrainJobOperator(task_id="train", deferrable=True, **JOB)

# Long enough for a busy machine to let the job begin, and its task wait, before.
LIMIT = timedelta(seconds=30)
with DAG("train_limited", schedule=None, params=PARAMS):
    TrainJobOperator(task_id="train", deferrable=True, execution_timeout=LIMIT, **JOB)

with DAG("train_too_long", schedule=None, params=PARAMS) as train_too_long:
    TrainJobOperator(task_id="train", deferrable=False, execution_timeout=LIMIT, **JOB)

with DAG("train_deferred_once", schedule=None, params=PARAMS) as train_deferred_once:
    TrainJobOperator(task_id="train", deferrable=True, **JOB)

with DAG("train_handed_over", schedule=None, params=PARAMS):
    train = TrainJobOperator(task_id="train", wait_for_completion=False, **JOB)
    TrainJobSensor(task_id="poking", job=train.output, poke_interval=1, deferrable=False)
    TrainJobSensor(task_id="limited", job=train.output, deferrable=True, execution_timeout=timedelta(seconds=1))
    TrainJobSensor(task_id="rescheduled", job=train.output, poke_interval=POKE, mode="reschedule", deferrable=False)
    TrainJobSensor(
        task_id="deferred", job='{{ ti.xcom_pull("train", key="job") | tojson }}', deferrable=True
    ).set_upstream(train)

with DAG("train_reported", schedule=None, params=PARAMS):
    wrong = TrainJobOperator(task_id="wrong", **JOB | {"framework": "pytroch"})
    train = TrainJobOperator(task_id="train", wait_for_completion=False, **JOB)
    for how in ("waiting", "deferred"):
        kind: dict[str, Any] = {"deferrable": how == "deferred", "poke_interval": 1}
        TrainJobSensor(task_id=f"unnamed_{how}", job=wrong.output, trigger_rule="all_done", **kind)
        TrainJobSensor(task_id=f"silent_{how}", job=train.output, silent_fail=True, **kind)

with DAG("train_forgotten", schedule=None, params=PARAMS):
    TrainJobOperator(task_id="train", wait_for_completion=False, **JOB)

with DAG("train_managed", schedule=None, params=PARAMS):
    train = TrainJobOperator(task_id="train", wait_for_completion=False, **JOB)
    TrainJobSensor(task_id="failing", job=train.output, deferrable=True)
    TrainJobSensor(task_id="soft", job=train.output, deferrable=True, soft_fail=True)
    suspend = SuspendTrainJobOperator(task_id="suspend", job=train.output, retries=3)
    suspend >> DeleteTrainJobOperator(task_id="delete", job=train.output, trigger_rule="all_done")


class Uploaded(TrainJobOperator):
    """Does more with a result, for which its first try finds no room."""

    def process_result(self, context, summary):
        if context["ti"].try_number == 1:
            raise RuntimeError("no room for the model")
        return {"uploaded": summary["result"]["trainings"]}


class Extended(TrainJobOperator):
    """The same in a method of its own."""

    def execute(self, context):
        summary = super().execute(context)
        return Uploaded.process_result(self, context, summary)


with DAG("train_subclassed", schedule=None, params=PARAMS):
    for how in ("waiting", "deferred"):
        Uploaded(task_id=how, deferrable=how == "deferred", **JOB, **RETRIED)
    Extended(task_id="extended", deferrable=False, **JOB, **RETRIED)

with DAG("train_mapped", schedule=None, params=PARAMS):
    TrainJobOperator.partial(task_id="train", **{key: value for key, value in JOB.items() if key != "args"}).expand(
        args=[["train", "{{ params.folder }}"], ["raise", "{{ params.folder }}"]]
    )
