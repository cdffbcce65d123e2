"""The jobs that one try of a task has, one after the other: what makes it submit another one."""

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
    """The jobs that a try has had.

    :param count: how many.
    :param more_memory: how the memory was raised of each that followed one which ran out of it: JSON values, see
        :meth:`~airflow_trainer_provider.job.plan.more_memory.MoreMemory.to_xcom`.
    """

    count: int = 1
    more_memory: Sequence[Mapping[str, Any]] = ()

    def following(self, outcome: JobOutcome, job: Plan, lay_out: Callable[[TrainJobSpec], JobPlan]) -> Another | None:
        """The job that the same try submits now; None where the failure of the last one is the task's.

        :param outcome: of the last job.
        :param job: what that ran.
        :param lay_out: lays a spec out, and refuses what policies do not allow.
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
        """The job that the try had last.

        :param job: that it had first.
        :param lay_out: as in :meth:`following`.
        """
        from airflow_trainer_provider.job.plan.more_memory import grown, more_memory

        for raised in self.more_memory:
            more = more_memory(job, raised["replica"])
            job = grown(job, more, lay_out) if more else job
        return job

    def to_kwargs(self) -> dict[str, Any]:
        """As arguments of the method with which a deferred task goes on."""
        # Left out where there is none: a worker of an earlier version knows no such argument.
        return {"starts": self.count, **({"more_memory": list(self.more_memory)} if self.more_memory else {})}

    def noted_in(self, outcome: JobOutcome) -> JobOutcome:
        """The outcome of the last job, whose summary says how its memory was raised.

        :param outcome: of the job.
        """
        if outcome.summary is None or not self.more_memory:
            return outcome
        return replace(outcome, summary={**outcome.summary, "more_memory": list(self.more_memory)})


@dataclass(frozen=True)
class Another:
    """A job that follows one that failed, within the same try.

    :param job: what it runs.
    :param starts: the jobs that the try has had then.
    :param why: one sentence for the log.
    """

    job: Plan
    starts: Starts
    why: str
