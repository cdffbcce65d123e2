"""The app that Airflow's API server mounts: pages, their files and data, and actions."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response, status
from fastapi import Path as PathParameter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from airflow_trainer_provider.plugins.view.access import (
    EDIT_ACCESS,
    FILE_ACCESS,
    HAS_COOKIE_SESSIONS,
    PAGE_ACCESS,
    READ_ACCESS,
    User,
    is_editor,
)
from airflow_trainer_provider.plugins.view.actions import act
from airflow_trainer_provider.plugins.view.answers import HEADERS, json_answer
from airflow_trainer_provider.plugins.view.dag.routes import router as dag_routes
from airflow_trainer_provider.plugins.view.database import LAST_MAP_INDEX, USUAL_RUNS, TaskKey, read_task
from airflow_trainer_provider.plugins.view.jobs.routes import router as jobs_routes
from airflow_trainer_provider.plugins.view.model.records import TaskRecords
from airflow_trainer_provider.plugins.view.model.replicas import replicas_of
from airflow_trainer_provider.plugins.view.model.series import MOST_POINTS, series_of
from airflow_trainer_provider.plugins.view.model.state import state_of
from airflow_trainer_provider.plugins.view.model.task_view import task_view
from airflow_trainer_provider.plugins.view.model.values import mapping
from airflow_trainer_provider.plugins.view.pages import Pages

_STATIC = Path(__file__).parent / "static"
_TASK = "/api/tasks/{dag_id}/{run_id}/{task_id}/{map_index}"


class ActionBody(BaseModel):
    """The body of a request for an action.

    :param uid: the uid of the job that the viewer has seen.
    """

    model_config = ConfigDict(extra="forbid")

    uid: Annotated[str, Field(min_length=1, max_length=253)]


MapIndex = Annotated[int, PathParameter(ge=-1, le=LAST_MAP_INDEX)]


def task_key(dag_id: str, run_id: str, task_id: str, map_index: MapIndex) -> TaskKey:
    """The task instance that a path names."""
    return TaskKey(dag_id, run_id, task_id, map_index)


Key = Annotated[TaskKey, Depends(task_key)]


def make_app(static: Path = _STATIC) -> FastAPI:
    """The app, with all its routes.

    :param static: the folder of pages and files.
    """
    # Without API documentation, whose routes would have no authentication.
    app = FastAPI(title="Training", openapi_url=None, docs_url=None, redoc_url=None)
    pages = Pages(static, needs_token=not HAS_COOKIE_SESSIONS)
    app.include_router(_pages(pages))
    app.include_router(_reads())
    app.include_router(_actions())
    app.include_router(dag_routes(pages))
    app.include_router(jobs_routes(pages))
    return app


def _pages(pages: Pages) -> APIRouter:
    router = APIRouter()

    @router.get("/task", dependencies=PAGE_ACCESS)
    def task_page(request: Request) -> Response:
        return pages.page("task.html", str(request.scope.get("root_path", "")))

    @router.get("/static/{name:path}", dependencies=FILE_ACCESS)
    def static_file(request: Request, name: str) -> Response:
        return pages.file(request, name)

    return router


def _reads() -> APIRouter:
    router = APIRouter(dependencies=READ_ACCESS)

    @router.get(_TASK)
    def task(
        request: Request, key: Key, user: User, shown_try: Annotated[int | None, Query(alias="try", ge=0)] = None
    ) -> Response:
        view = task_view(_records(key, USUAL_RUNS), shown_try, is_editor(key.dag_id, user), _now())
        return json_answer(request, view, untagged=("as_of",))

    @router.get(f"{_TASK}/series")
    def series(
        request: Request,
        key: Key,
        metric: Annotated[str, Query(max_length=1000)],
        points: Annotated[int, Query(ge=2, le=MOST_POINTS)] = MOST_POINTS,
    ) -> Response:
        records = _records(key, 1)
        state = state_of(records, None, _now())
        previous = records.earlier[0].xcoms if records.earlier else {}
        return json_answer(request, series_of(metric, state.progress, mapping(previous.get("progress")), points))

    @router.get(f"{_TASK}/replicas")
    def replicas(request: Request, key: Key) -> Response:
        return json_answer(request, replicas_of(state_of(_records(key), None, _now())))

    return router


def _actions() -> APIRouter:
    router = APIRouter(dependencies=EDIT_ACCESS)

    @router.post(f"{_TASK}/{{action}}")
    def action(key: Key, user: User, action: Literal["suspend", "resume", "stop"], body: ActionBody) -> Response:
        said = act(action, key, body.uid, user)
        return JSONResponse({"message": said}, status.HTTP_202_ACCEPTED, HEADERS)

    return router


def _records(key: TaskKey, earlier: int = 0) -> TaskRecords:
    records = read_task(key, earlier)
    if records is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such task instance.")
    return records


def _now() -> datetime:
    return datetime.now(timezone.utc)
