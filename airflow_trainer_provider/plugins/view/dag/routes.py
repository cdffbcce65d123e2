"""The routes of the Training tab of a DAG: its page, the runs of a training task, and their curves."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request, Response, status

from airflow_trainer_provider.plugins.view.access import PAGE_ACCESS, READ_ACCESS
from airflow_trainer_provider.plugins.view.answers import json_answer
from airflow_trainer_provider.plugins.view.dag.curves import MOST_CURVES, curves_of
from airflow_trainer_provider.plugins.view.dag.dag_view import dag_view
from airflow_trainer_provider.plugins.view.dag.database import RunKey, read_dag, read_progress
from airflow_trainer_provider.plugins.view.database import LAST_MAP_INDEX
from airflow_trainer_provider.plugins.view.model.series import MOST_POINTS
from airflow_trainer_provider.plugins.view.pages import Pages

_DAG = "/api/dags/{dag_id}"
_MOST_RUNS = 100
_RUNS = f"run: name 1 to {MOST_CURVES} runs, each as the map index, a comma and the run id: -1,manual__2026-11-21"

Name = Annotated[str | None, Query(max_length=1000)]


def router(pages: Pages) -> APIRouter:
    """The routes.

    :param pages: the files of all views.
    """
    routes = APIRouter()

    @routes.get("/dag", dependencies=PAGE_ACCESS)
    def dag_page(request: Request) -> Response:
        return pages.page("dag.html", str(request.scope.get("root_path", "")))

    @routes.get(_DAG, dependencies=READ_ACCESS)
    def dag(
        request: Request,
        dag_id: str,
        task_id: Name = None,
        metric: Name = None,
        limit: Annotated[int, Query(ge=1, le=_MOST_RUNS)] = 20,
    ) -> Response:
        view = dag_view(read_dag(dag_id, task_id, limit), metric, limit, datetime.now(timezone.utc))
        return json_answer(request, view, untagged=("as_of",))

    @routes.get(f"{_DAG}/series", dependencies=READ_ACCESS)
    def series(
        request: Request,
        dag_id: str,
        task_id: Annotated[str, Query(max_length=1000)],
        run: Annotated[list[str], Query()],
        metric: Name = None,
        points: Annotated[int, Query(ge=2, le=MOST_POINTS)] = MOST_POINTS,
    ) -> Response:
        keys = _run_keys(run)
        reported = read_progress(dag_id, task_id, keys)
        if reported is None:
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"task_id: {task_id} is no training task of this DAG.")
        return json_answer(request, curves_of(metric, list(zip(keys, reported, strict=True)), points))

    return routes


def _run_keys(named: list[str]) -> list[RunKey]:
    found = [_run_key(each) for each in named]
    keys = [each for each in found if each is not None]
    if not 1 <= len(keys) <= MOST_CURVES or len(keys) != len(found):
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_ENTITY, _RUNS)
    return keys


def _run_key(text: str) -> RunKey | None:
    index, comma, run_id = text.partition(",")
    try:
        key = (run_id, int(index))
    except ValueError:
        return None
    return key if comma and run_id and -1 <= key[1] <= LAST_MAP_INDEX else None
