"""The outcome of a job. It is created where the wait for the job ends, because the job's objects may be deleted a
moment later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis


@dataclass(frozen=True)
class JobOutcome:
    """The outcome of a job: either ``summary`` or ``failure`` is None.

    :param summary: of a job that succeeded; see :func:`~airflow_trainer_provider.job.result.summarize`.
    :param failure: why the job did not succeed.
    :param failed_figures: restarts, durations and last metrics of a job that did not succeed, named as in a summary.
    """

    summary: Mapping[str, Any] | None = None
    failure: Diagnosis | None = None
    failed_figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def phase(self) -> str:
        """How the job ended."""
        return self.failure.phase if self.failure else str(self.figures.get("phase"))

    @property
    def figures(self) -> Mapping[str, Any]:
        """Restarts, durations and metrics of the job, as far as they are known."""
        return self.failed_figures if self.summary is None else self.summary

    def to_json(self) -> dict[str, Any]:
        """As JSON values, none of which is a secret that this provider was given."""
        return {
            "summary": None if self.summary is None else dict(self.summary),
            "failure": self.failure.to_xcom() if self.failure else None,
            "failed_figures": dict(self.failed_figures),
        }

    def masked(self, mask: Callable[[Any], Any]) -> JobOutcome:
        """A copy with the output of the job's programs masked.

        :param mask: returns a masked copy of a JSON value.
        """
        if self.failure:
            texts = ("message", "traceback", "last_log_lines")
            failure = replace(self.failure, **{name: mask(getattr(self.failure, name)) for name in texts})
            return replace(self, failure=failure)
        summary = self.summary or {}
        return JobOutcome(
            {name: mask(value) if name in ("result", "progress") else value for name, value in summary.items()}
        )

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> JobOutcome:
        """Read the values that :meth:`to_json` returned.

        :param value: the values.
        """
        failure = value["failure"]
        # A triggerer of an earlier version sends no figures.
        figures = value.get("failed_figures") or {}
        return cls(value["summary"], _diagnosis(failure) if failure else None, figures)


def _diagnosis(values: Mapping[str, Any]) -> Diagnosis:
    # A triggerer of another version may send fewer fields, or more.
    known = {each.name for each in fields(Diagnosis)}
    given = {name: each for name, each in values.items() if name in known}
    arguments: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in given.items()}
    return Diagnosis(**arguments)
