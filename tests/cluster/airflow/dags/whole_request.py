"""A job of two roles whose spec the run's params bring: placement, volumes, secrets, users, devices and a tool."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_trainer_provider import XGBoostJobOperator

#: Rank 0 serves the tool until it is let go, and reports what each role has found in its pod.
FIELDS = ("resources_per_node", "scheduling", "volumes", "pod", "env", "replicas", "tools")

with DAG(
    "whole_request",
    schedule=None,
    params={"backend": "native", "namespace": "default", **{field: {} for field in FIELDS}},
    render_template_as_native_obj=True,
):
    XGBoostJobOperator(
        task_id="train",
        deferrable=True,
        backend="{{ params.backend }}",
        namespace="{{ params.namespace }}",
        image="trainer.test/worker:test",
        command=["python3", "-u", "/scripts/whole_request.py"],
        run_policy={"grace_period_seconds": 1},
        **{field: f"{{{{ params.{field} }}}}" for field in FIELDS},
    )
