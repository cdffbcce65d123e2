"""The jobs that one try of a task submits one after the other, and the reasons for another job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_trainer_provider.job.outcome import JobOutcome
    from airflow_trainer_provider.job.plan.plan import JobPlan, Plan
    from airflow_trainer_provider.spec import TrainJobSpec

log = logging.getLogger(__name__)

_REPEATED = "It starts again, as run_policy.infrastructure_retries allows: the infrastructure failed it."


@dataclass(frozen=True)
class Starts:
    """The jobs that a try has submitted so far.

    :param count: the number of jobs.
    :param more_memory: one entry for each job that was submitted with more memory: JSON values, see
        :meth:`~airflow_trainer_provider.job.plan.more_memory.MoreMemory.to_xcom`.
    """

    count: int = 1
    more_memory: Sequence[Mapping[str, Any]] = ()

    def following(self, outcome: JobOutcome, job: Plan, lay_out: Callable[[TrainJobSpec], JobPlan]) -> Another | None:
        """The job that the same try submits next; None if the outcome of the last job is the task's outcome.

        :param outcome: the last job's outcome.
        :param job: the last job.
        :param lay_out: lays a spec out, and refuses a job that policies do not allow.
        """
        failure = outcome.failure
        repeated = self.count - len(self.more_memory)
        if failure and failure.infrastructure and repeated <= job.spec.run_policy.infrastructure_retries:
            return Another(job, replace(self, count=self.count + 1), _REPEATED)
        return self._larger(outcome, job, lay_out)

    def _larger(self, outcome: JobOutcome, job: Plan, lay_out: Callable[[TrainJobSpec], JobPlan]) -> Another | None:
        from airflow_trainer_provider.errors import TrainJobError
        from airflow_trainer_provider.job.diagnosis.causes import OUT_OF_MEMORY
        from airflow_trainer_provider.job.plan.more_memory import grown, more_memory

        failure = outcome.failure
        is_short = failure is not None and failure.reason == OUT_OF_MEMORY
        more = more_memory(job, failure.replica) if is_short and failure and failure.replica else None
        if more is None:
            return None
        try:
            larger = grown(job, more, lay_out)
        except TrainJobError as error:
            log.warning("run_policy.on_oom cannot raise %s to %s: %s", more.field, more.after, error)
            return None
        why = f"It starts again with {more.field} {more.after} instead of {more.before}, as run_policy.on_oom says."
        return Another(larger, Starts(self.count + 1, [*self.more_memory, more.to_xcom()]), why)

    def last(self, job: Plan, lay_out: Callable[[TrainJobSpec], JobPlan]) -> Plan:
        """The last job of the try.

        :param job: the first job of the try.
        :param lay_out: as in :meth:`following`.
        """
        from airflow_trainer_provider.job.plan.more_memory import grown, more_memory

        for raised in self.more_memory:
            more = more_memory(job, raised["replica"])
            job = grown(job, more, lay_out) if more else job
        return job

    def to_kwargs(self) -> dict[str, Any]:
        """The jobs as keyword arguments of the method that resumes a deferred task."""
        # more_memory is omitted if empty: a worker with an earlier version does not have this parameter.
        return {"starts": self.count, **({"more_memory": list(self.more_memory)} if self.more_memory else {})}

    def noted_in(self, outcome: JobOutcome) -> JobOutcome:
        """The outcome of the last job, with the increases of its memory added to the summary.

        :param outcome: the job's outcome.
        """
        if outcome.summary is None or not self.more_memory:
            return outcome
        return replace(outcome, summary={**outcome.summary, "more_memory": list(self.more_memory)})


@dataclass(frozen=True)
class Another:
    """A job that follows a failed job within the same try.

    :param job: the job to submit.
    :param starts: the jobs of the try, including this one.
    :param why: one sentence for the log.
    """

    job: Plan
    starts: Starts
    why: str
