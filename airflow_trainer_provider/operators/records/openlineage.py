"""What OpenLineage's events of a task hold of its job. Airflow's provider for OpenLineage alone imports this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.openlineage.extractors import OperatorLineage
from attrs import define
from openlineage.client.facet_v2 import RunFacet

if TYPE_CHECKING:
    from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis
    from airflow_trainer_provider.job.handle import JobHandle
    from airflow_trainer_provider.job.outcome import JobOutcome

#: The facet's name, which no other producer's facet may have.
FACET = "trainer_job"


@define
class TrainJobRunFacet(RunFacet):
    """A training job.

    :param job: its name.
    :param framework: its framework.
    :param backend: the backend that it runs on.
    :param phase: how it ended; None where its outcome has not reached the task.
    :param replicas: how many replicas it had; None where that is not known.
    :param restarts: how often the whole job was started again; likewise.
    :param queueSeconds: from the submit until it started; likewise.
    :param runSeconds: from its start until its end; likewise.
    :param metrics: its last metrics, by name.
    :param verdict: why it did not succeed; None for a job that did.
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

    :param handle: of the job; None where the task has come to none.
    :param outcome: of the job; None where it has not reached the task.
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
    # Without the lines of the log, which belong to whoever may read the task's.
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
