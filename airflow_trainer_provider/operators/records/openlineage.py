"""The OpenLineage facet of a task's job. This module is imported only for Airflow's OpenLineage provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.openlineage.extractors import OperatorLineage
from attrs import define
from openlineage.client.facet_v2 import RunFacet

if TYPE_CHECKING:
    from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis
    from airflow_trainer_provider.job.handle import JobHandle
    from airflow_trainer_provider.job.outcome import JobOutcome

#: The facet's name, which has to differ from those of other producers.
FACET = "trainer_job"


@define
class TrainJobRunFacet(RunFacet):
    """A training job.

    :param job: the job's name.
    :param framework: the job's framework.
    :param backend: the job's backend.
    :param phase: the phase in which the job ended; None if the outcome has not reached the task.
    :param replicas: the number of replicas; None if unknown.
    :param restarts: how often the whole job was restarted; None if unknown.
    :param queueSeconds: seconds from the submit to the start; None if unknown.
    :param runSeconds: seconds from the start to the end; None if unknown.
    :param metrics: the last value of each metric, by name.
    :param verdict: why the job did not succeed; None if it succeeded, or if the outcome has not reached the task.
    """

    job: str
    framework: str
    backend: str
    phase: str | None
    replicas: int | None
    restarts: int | None
    queueSeconds: float | None
    runSeconds: float | None
    metrics: dict[str, float]
    verdict: dict[str, Any] | None

    _additional_skip_redact = ["job", "framework", "backend", "phase"]


def lineage_of(handle: JobHandle | None, outcome: JobOutcome | None) -> OperatorLineage[Any, Any]:
    """The facet of a job. Airflow's provider adds the inputs and outputs that the task declares.

    :param handle: the job; None if the task has not submitted one.
    :param outcome: the job's outcome; None if it has not reached the task.
    """
    if handle is None:
        return OperatorLineage()
    figures = outcome.figures if outcome else {}
    facet = TrainJobRunFacet(
        job=handle.name,
        framework=handle.framework,
        backend=handle.backend,
        phase=outcome.phase if outcome else None,
        replicas=_replicas(outcome),
        restarts=figures.get("restarts"),
        queueSeconds=figures.get("queue_seconds"),
        runSeconds=figures.get("run_seconds"),
        metrics=dict(figures.get("metrics") or {}),
        verdict=_verdict(outcome.failure) if outcome and outcome.failure else None,
    )
    return OperatorLineage(run_facets={FACET: facet})


def _replicas(outcome: JobOutcome | None) -> int | None:
    if outcome is None:
        return None
    failure = outcome.failure
    if failure:
        return len(failure.others) + (failure.replica is not None)
    return len(outcome.figures.get("replicas", ()))


def _verdict(failure: Diagnosis) -> dict[str, Any]:
    # Without log lines: only users with access to the task's log may read them.
    return {
        "reason": failure.reason,
        "message": failure.message,
        "replica": failure.replica,
        "rank": failure.rank,
        "exitCode": failure.exit_code,
        "signal": failure.signal,
        "infrastructure": failure.infrastructure,
        "retryCanHelp": failure.retry_can_help,
        "wayOut": failure.way_out,
    }
