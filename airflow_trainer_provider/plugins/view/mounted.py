"""The app and views that Airflow mounts. This module is cheap to import, as every Airflow process loads the plugin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from fastapi import FastAPI

#: Where the app is mounted, below the path of Airflow's base URL.
PREFIX = "/trainer"
_Message = MutableMapping[str, Any]


class MountedApp:
    """The app of the views. It is created at the first request, as only the API server receives requests."""

    def __init__(self) -> None:
        self._app: FastAPI | None = None

    async def __call__(
        self,
        scope: _Message,
        receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        """Answer a request.

        :param scope: the ASGI scope of the request.
        :param receive: returns the body of the request.
        :param send: sends the response.
        """
        if self._app is None:
            from airflow_trainer_provider.plugins.view.app import make_app

            self._app = make_app()
        await self._app(scope, receive, send)


#: For ``AirflowPlugin.fastapi_apps``.
FASTAPI_APP = {"app": MountedApp(), "url_prefix": PREFIX, "name": "Training"}
#: For ``AirflowPlugin.external_views``. The address is relative to Airflow's base URL, which may have a path. For a
#: task that is not mapped, Airflow does not replace the last placeholder.
TASK_VIEW = {
    "name": "Training",
    "href": f"{PREFIX[1:]}/task?dag_id={{DAG_ID}}&run_id={{RUN_ID}}&task_id={{TASK_ID}}&map_index={{MAP_INDEX}}",
    "destination": "task_instance",
    "url_route": "training",
}
#: The route differs from the task view's, since Airflow finds a view only by its route.
DAG_VIEW = {
    "name": "Training",
    "href": f"{PREFIX[1:]}/dag?dag_id={{DAG_ID}}",
    "destination": "dag",
    "url_route": "training-runs",
}


def _icon(color: str) -> str:
    """The icon in the navigation. An image cannot use the text's colour: a pale edge shows it on a selected entry."""
    lines = "M6 6h12v12H6zM10 10h4v4h-4zM9 2v4M15 2v4M9 18v4M15 18v4M2 9h4M2 15h4M18 9h4M18 15h4"
    edge = f'<path d="{lines}" stroke="#dce7f5" stroke-width="4"/>' if color == _ON_LIGHT else ""
    body = f'{edge}<path d="{lines}" stroke="{color}" stroke-width="2"/>'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none">{body}</svg>'
    return f"data:image/svg+xml,{quote(svg)}"


_ON_LIGHT, _ON_DARK = "#3e5873", "#a3afbe"
#: The page of all jobs. A version of Airflow ignores keys that it does not know.
JOBS_VIEW = {
    "name": "Training",
    "href": f"{PREFIX[1:]}/jobs",
    "destination": "nav",
    "url_route": "training-jobs",
    "nav_top_level": True,
    "icon": _icon(_ON_LIGHT),
    "icon_dark_mode": _icon(_ON_DARK),
}
