"""Selects the jobs that a viewer asks for: views, search, filters, order and page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from airflow_trainer_provider.plugins.view.jobs.entry import JobEntry

#: How long a failure, and a restart, are listed as needing attention.
_FAILED_LATELY = timedelta(hours=24)
_RESTARTED_LATELY = timedelta(hours=1)
_NEEDS_A_PERSON = ("suspended", "restarting")
#: All phases, in the order in which a job passes through them.
_PHASES = ("queued", "starting", "running", "restarting", "suspended", "failed", "cancelled", "succeeded")


@dataclass(frozen=True)
class Filters:
    """The filters that a viewer has set; None, and empty text, match all jobs.

    :param q: part of the name of a DAG, task, run or job, or of the reason for the job's state.
    :param state: a phase.
    :param owner: one of the DAG's owners.
    """

    q: str = ""
    dag: str | None = None
    namespace: str | None = None
    framework: str | None = None
    backend: str | None = None
    state: str | None = None
    owner: str | None = None

    def match(self, entry: JobEntry) -> bool:
        """Whether a job matches the filters.

        :param entry: the job.
        """
        pairs = (
            (self.dag, entry.dag_id),
            (self.namespace, entry.namespace),
            (self.framework, entry.framework),
            (self.backend, entry.backend),
            (self.state, entry.phase),
        )
        return (
            all(not wanted or wanted == found for wanted, found in pairs)
            and (not self.owner or self.owner in owners_of(entry))
            and self.q.strip().lower() in entry.searched
        )


class Page(NamedTuple):
    """One page of the jobs that match.

    :param entries: the jobs of this page.
    :param number: the number of this page, from 1. A request for a later page than the last one gets the last one.
    :param counts: view -> number of jobs that match.
    """

    entries: Sequence[JobEntry]
    number: int
    counts: Mapping[str, int]


def owners_of(entry: JobEntry) -> list[str]:
    """The owners of a job's DAG, which Airflow stores as one text.

    :param entry: the job.
    """
    return _names(entry.owners)


def _names(owners: str) -> list[str]:
    return [name for each in owners.split(",") if (name := each.strip())]


def needs_attention(entry: JobEntry, now: datetime) -> bool:
    """Whether a user has to act on a job, or should know about it.

    :param entry: the job.
    :param now: the current time.
    """
    if entry.phase == "failed":
        return _is_within(entry.finished_at, _FAILED_LATELY, now)
    if not entry.is_active:
        return False
    restarted = _is_within(entry.restarted_at, _RESTARTED_LATELY, now)
    return entry.is_stuck or restarted or entry.phase in _NEEDS_A_PERSON


def _is_within(time: datetime | None, period: timedelta, now: datetime) -> bool:
    return time is not None and now - time <= period


#: View -> whether a job belongs to it.
VIEWS: Mapping[str, Callable[[JobEntry, datetime], bool]] = {
    "active": lambda entry, now: entry.is_active,
    "attention": needs_attention,
    "waiting": lambda entry, now: entry.is_active and entry.phase == "queued",
    "failed": lambda entry, now: entry.phase == "failed",
    "all": lambda entry, now: True,
}


def _state_order(entry: JobEntry, now: datetime) -> Any:
    return _PHASES.index(entry.phase) if entry.phase in _PHASES else len(_PHASES)


def _start(entry: JobEntry, now: datetime) -> Any:
    # A waiting job is sorted by the time since which it waits.
    found = entry.started_at or entry.queued_at
    return found.timestamp() if found else now.timestamp()


def _duration(entry: JobEntry, now: datetime) -> Any:
    end = now if entry.is_active or entry.finished_at is None else entry.finished_at
    return end.timestamp() - _start(entry, now)


#: Name of an order -> the sort key of a job.
ORDERS: Mapping[str, Callable[[JobEntry, datetime], Any]] = {
    "state": _state_order,
    "dag": lambda entry, now: (entry.dag_id, entry.task_id, entry.map_index),
    "framework": lambda entry, now: (entry.framework or "", entry.backend or ""),
    "size": lambda entry, now: (entry.gpus, entry.nodes),
    "started": _start,
    "duration": _duration,
    "owner": lambda entry, now: entry.owners,
}


def page_of(
    entries: Sequence[JobEntry], filters: Filters, view: str, sort: str, number: int, size: int, now: datetime
) -> Page:
    """The jobs of one page.

    :param entries: all jobs that the viewer may read.
    :param filters: the filters that the viewer has set.
    :param view: one of :data:`VIEWS`.
    :param sort: one of :data:`ORDERS`; with the prefix ``-`` in descending order.
    :param number: the number of the page, from 1.
    :param size: the number of jobs on a page.
    :param now: the current time.
    """
    found = [entry for entry in entries if filters.match(entry)] if filters != Filters() else entries
    members = {name: [entry for entry in found if is_member(entry, now)] for name, is_member in VIEWS.items()}
    chosen, order = members[view], ORDERS[sort.removeprefix("-")]
    # The ID makes the order of equal jobs stable.
    chosen.sort(key=lambda entry: (order(entry, now), entry.id), reverse=sort.startswith("-"))
    number = min(number, max(1, -(-len(chosen) // size)))
    shown = chosen[(number - 1) * size : number * size]
    return Page(shown, number, {name: len(each) for name, each in members.items()})


def gpus_of(entries: Sequence[JobEntry]) -> dict[str, int]:
    """The number of GPUs that active jobs use, and the number that queued jobs request.

    :param entries: all jobs that the viewer may read.
    """
    holding = ("starting", "running", "restarting")
    active = [entry for entry in entries if entry.is_active]
    return {
        "in_use": sum(entry.gpus for entry in active if entry.phase in holding),
        "requested": sum(entry.gpus for entry in active if entry.phase == "queued"),
    }


def choices_of(entries: Sequence[JobEntry]) -> dict[str, list[str]]:
    """The values that viewers can filter by.

    :param entries: all jobs that the viewer may read.
    """
    owners = {name for each in {entry.owners for entry in entries} for name in _names(each)}
    return {
        "framework": sorted({entry.framework for entry in entries if entry.framework}),
        "backend": sorted({entry.backend for entry in entries if entry.backend}),
        "namespace": sorted({entry.namespace for entry in entries if entry.namespace}),
        "owner": sorted(owners),
    }
