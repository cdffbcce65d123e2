"""Settings of a cluster job that is kept after its end: which pods are deleted, and when the job is deleted."""

from __future__ import annotations

from airflow_trainer_provider.errors import Problem, UnsupportedField
from airflow_trainer_provider.job.plan.plan import JobPlan, Plan
from airflow_trainer_provider.kinds.base import JOBS, Manifest
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.objects.labels import MANAGED_BY, PREFIX


def check_kept(backend: str, kind: Kind, job: Plan) -> None:
    """Refuse settings for kept jobs where the job is deleted, and a time to live that its kind does not support.

    :param backend: the backend's name, for the error.
    :param kind: of the job.
    :param job: the job.
    :raises UnsupportedField: naming the field and the way out.
    """
    ttl = job.spec.run_policy.ttl_seconds_after_finished
    if ttl is not None and not (kind.retention.patch or kind.retention.by_owner):
        allowed = f"no value: nothing in the cluster can delete a {kind.resource.kind} after a while"
        fix = "Drop it, and let a CleanUpTrainJobsOperator delete the jobs of an age; or set on_finish_action='delete'."
        raise UnsupportedField(backend, Problem("run_policy.ttl_seconds_after_finished", ttl, allowed, fix))
    if job.spec.on_finish_action != "delete":
        return
    given: dict[str, object] = {"ttl_seconds_after_finished": ttl}
    if isinstance(job, JobPlan) and job.spec.run_policy.clean_pods != "Running":
        given["clean_pods"] = job.spec.run_policy.clean_pods
    for name, value in given.items():
        if value is not None:
            allowed = "no value, unless the job is kept"
            fix = "Set on_finish_action to 'keep' or 'delete_succeeded' as well."
            raise UnsupportedField(backend, Problem(f"run_policy.{name}", value, allowed, fix))


def check_clean_pods(backend: str, job: JobPlan) -> None:
    """Refuse to leave pods running where the Job's controller ends them all.

    :param backend: the backend's name, for the error.
    :param job: the job.
    :raises UnsupportedField: naming the field and the way out.
    """
    if job.spec.run_policy.clean_pods == "None":
        allowed = "Running or All: a Job that fails ends all its pods"
        fix = "Drop it: the pods that have ended stay, with their logs. Or use backend 'training-operator'."
        raise UnsupportedField(backend, Problem("run_policy.clean_pods", "None", allowed, fix))


def expiry(uid: str, seconds: int) -> Manifest:
    """A Job without pods, which completes at once and which Kubernetes deletes ``seconds`` later.

    It owns a job whose kind has no time to live: Kubernetes deletes an object with the last of its owners.

    :param uid: of the main object that the Job will own.
    :param seconds: how long the training job is kept.
    """
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": f"expiry-{uid}", "labels": {MANAGED_BY: PREFIX}},
        "spec": {
            "completions": 0,
            "parallelism": 0,
            "ttlSecondsAfterFinished": seconds,
            # A Job has to have a template. No pod is made from it.
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "none", "image": "none"}]}},
        },
    }
