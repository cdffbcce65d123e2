"""What came of a job, in full: made where the wait for it ends, since its objects may be gone a moment later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_trainer_provider.job.diagnosis import Diagnosis


@dataclass(frozen=True)
class Conclusion:
    """One of the two is None.

    :param summary: of a job that succeeded; see :func:`~airflow_trainer_provider.job.result.summarize`.
    :param failure: why the job did not succeed.
    """

    summary: Mapping[str, Any] | None = None
    failure: Diagnosis | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values, of which none is a secret that we were given."""
        return {
            "summary": None if self.summary is None else dict(self.summary),
            "failure": self.failure.to_xcom() if self.failure else None,
        }

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> Conclusion:
        """Read what :meth:`to_json` has made.

        :param value: its values.
        """
        failure = value["failure"]
        return cls(value["summary"], _diagnosis(failure) if failure else None)


def _diagnosis(values: Mapping[str, Any]) -> Diagnosis:
    fields: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in values.items()}
    return Diagnosis(**fields)
