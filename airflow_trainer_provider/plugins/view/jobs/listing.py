"""The list of jobs: the data of the Training page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from airflow_trainer_provider.plugins.view.jobs.entry import JobEntry
from airflow_trainer_provider.plugins.view.jobs.index import ENDED_DAYS
from airflow_trainer_provider.plugins.view.jobs.selection import Page, choices_of, gpus_of
from airflow_trainer_provider.plugins.view.model.values import iso


def job_list(
    entries: Sequence[JobEntry], page: Page, size: int, rows: Sequence[dict[str, Any]], now: datetime
) -> dict[str, Any]:
    """One page of the list, as JSON values.

    :param entries: all jobs that the viewer may read.
    :param page: the jobs of this page.
    :param size: the number of jobs on a page.
    :param rows: the rows of this page's jobs.
    :param now: the current time.
    """
    return {
        "as_of": iso(now),
        "ended_days": ENDED_DAYS,
        "total": len(entries),
        "counts": page.counts,
        "gpus": gpus_of(entries),
        "choices": choices_of(entries),
        "page": page.number,
        "size": size,
        "jobs": rows,
    }
