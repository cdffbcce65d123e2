"""The routes of the Training page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response, status

from airflow_trainer_provider.plugins.view.access import FILE_ACCESS, LIST_ACCESS, User, editable_dags, readable_dags
from airflow_trainer_provider.plugins.view.answers import json_answer
from airflow_trainer_provider.plugins.view.database import ALL_KEYS
from airflow_trainer_provider.plugins.view.jobs.database import read_tasks
from airflow_trainer_provider.plugins.view.jobs.entry import JobEntry
from airflow_trainer_provider.plugins.view.jobs.index import FIRST_SECONDS, JobIndex, Unread
from airflow_trainer_provider.plugins.view.jobs.listing import job_list
from airflow_trainer_provider.plugins.view.jobs.row import row_of
from airflow_trainer_provider.plugins.view.jobs.selection import Filters, page_of
from airflow_trainer_provider.plugins.view.pages import Pages

_LONGEST = 300
_View = Literal["active", "attention", "waiting", "failed", "all"]
_Order = Literal[
    "state",
    "-state",
    "dag",
    "-dag",
    "framework",
    "-framework",
    "size",
    "-size",
    "started",
    "-started",
    "duration",
    "-duration",
    "owner",
    "-owner",
]
_Text = Annotated[str | None, Query(max_length=_LONGEST)]


def filters(
    q: Annotated[str, Query(max_length=_LONGEST)] = "",
    dag: _Text = None,
    namespace: _Text = None,
    framework: _Text = None,
    backend: _Text = None,
    state: _Text = None,
    owner: _Text = None,
) -> Filters:
    """The filters in a request's query."""
    return Filters(q, dag, namespace, framework, backend, state, owner)


def router(pages: Pages) -> APIRouter:
    """The routes, with an index of the jobs that all requests share.

    :param pages: the files of all views.
    """
    index = JobIndex()
    routes = APIRouter()

    # The page names no DAG, and contains no data.
    @routes.get("/jobs", dependencies=FILE_ACCESS)
    def jobs_page(request: Request) -> Response:
        return pages.page("jobs.html", str(request.scope.get("root_path", "")))

    @routes.get("/api/jobs", dependencies=LIST_ACCESS)
    def jobs(
        request: Request,
        user: User,
        chosen: Annotated[Filters, Depends(filters)],
        view: _View = "active",
        sort: _Order = "-started",
        page: Annotated[int, Query(ge=1)] = 1,
        size: Annotated[int, Query(ge=1, le=100)] = 50,
    ) -> Response:
        now = datetime.now(timezone.utc)
        entries = _entries(index, now)
        readable = readable_dags({entry.dag_id for entry in entries}, user)
        entries = [entry for entry in entries if entry.dag_id in readable]
        found = page_of(entries, chosen, view, sort, page, size, now)
        answer = job_list(entries, found, size, _rows(found.entries, user, now), now)
        return json_answer(request, answer, untagged=("as_of",))

    return routes


def _entries(index: JobIndex, now: datetime) -> Sequence[JobEntry]:
    try:
        return index.entries(now)
    except Unread as error:
        why = "Airflow's database has not answered in time. Ask again later."
        again = {"Retry-After": f"{FIRST_SECONDS:.0f}"}
        raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, why, again) from error


def _rows(entries: Sequence[JobEntry], user: User, now: datetime) -> list[dict[str, Any]]:
    editable = editable_dags({entry.dag_id for entry in entries}, user)
    # The reports include histories, so they are read only for the jobs of one page.
    tasks = {each.id: each.records for each in read_tasks([entry.id for entry in entries], ALL_KEYS)}
    # A task instance may have been deleted since the index was read.
    return [row_of(entry, tasks[entry.id], entry.dag_id in editable, now) for entry in entries if entry.id in tasks]
