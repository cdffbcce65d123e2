"""Checks who may read and who may act. A mounted app inherits no checks from Airflow, so each route has its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Set
from typing import Annotated, Any
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.batch_apis import IsAuthorizedDagRequest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import get_user
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, Request, status

#: The user of a request; 401 without a login.
User = Annotated[BaseUser, Depends(get_user)]
#: Whether Airflow accepts its session cookie as a login. Airflow 3.1.0 does not: its pages send a token with each
#: request, but a browser that loads a frame does not send it.
HAS_COOKIE_SESSIONS = "request" in inspect.signature(get_user).parameters
#: The views show data of task instances and of XCom.
_READ = (DagAccessEntity.TASK_INSTANCE, DagAccessEntity.XCOM)


def may_read(request: Request, user: User) -> None:
    """Refuse a user who may not read the task instances of the DAG, or their XCom.

    :param request: the request, whose path or query names the DAG.
    :param user: the user who sends the request.
    """
    dag_id = _dag_id(request)
    if not all(_is_authorized("GET", entity, dag_id, user) for entity in _READ):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "You may not read the training of this DAG.")


def may_edit(request: Request, user: User) -> None:
    """Refuse a user who may not edit the task instances of the DAG.

    :param request: the request, whose path names the DAG.
    :param user: the user who sends the request.
    """
    if not is_editor(_dag_id(request), user):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "You may not edit the task instances of this DAG.")


def is_editor(dag_id: str, user: BaseUser) -> bool:
    """Whether a user may edit the task instances of a DAG.

    :param dag_id: the DAG.
    :param user: the user.
    """
    return _is_authorized("PUT", DagAccessEntity.TASK_INSTANCE, dag_id, user)


def readable_dags(dag_ids: Set[str], user: BaseUser) -> frozenset[str]:
    """The DAGs whose task instances and XCom a user may read.

    :param dag_ids: the DAGs to check.
    :param user: the user.
    """
    teams = _teams(dag_ids)
    return _authorized("GET", _READ, _listed(dag_ids, teams, user), teams, user)


def editable_dags(dag_ids: Set[str], user: BaseUser) -> frozenset[str]:
    """The DAGs whose task instances a user may edit.

    :param dag_ids: the DAGs to check.
    :param user: the user.
    """
    return _authorized("PUT", (DagAccessEntity.TASK_INSTANCE,), dag_ids, _teams(dag_ids), user)


def _listed(dag_ids: Set[str], teams: Mapping[str, str | None], user: BaseUser) -> Set[str]:
    """The DAGs that Airflow lists for a user. An auth manager may answer this for many DAGs with one request."""
    found: set[str] = set()
    for team in {teams.get(dag_id) for dag_id in dag_ids}:
        of_team = {dag_id for dag_id in dag_ids if teams.get(dag_id) == team}
        # Airflow before 3.2 has neither teams nor this parameter.
        named: Any = {"team_name": team} if team else {}
        found |= get_auth_manager().filter_authorized_dag_ids(dag_ids=of_team, user=user, method="GET", **named)
    return found


def _authorized(
    method: Any,
    entities: Collection[DagAccessEntity],
    dag_ids: Set[str],
    teams: Mapping[str, str | None],
    user: BaseUser,
) -> frozenset[str]:
    manager = get_auth_manager()
    asked = {dag_id: [_asked(method, entity, dag_id, teams.get(dag_id)) for entity in entities] for dag_id in dag_ids}
    # An auth manager that asks a server can answer for all DAGs with one request. Most users have the same rights for
    # all DAGs that they see.
    if manager.batch_is_authorized_dag([each for one in asked.values() for each in one], user=user):
        return frozenset(asked)
    return frozenset(dag_id for dag_id, one in asked.items() if manager.batch_is_authorized_dag(one, user=user))


def _asked(method: Any, entity: DagAccessEntity, dag_id: str, team: str | None) -> IsAuthorizedDagRequest:
    return {"method": method, "access_entity": entity, "details": DagDetails(id=dag_id, team_name=team)}


def _teams(dag_ids: Set[str]) -> dict[str, str | None]:
    from airflow.configuration import conf

    if not conf.getboolean("core", "multi_team", fallback=False):
        return {}
    return {dag_id: DagModel.get_team_name(dag_id) for dag_id in dag_ids}


def from_own_page(request: Request) -> None:
    """Refuse a request that a browser may have sent for a page of another site.

    :param request: the request.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(status.HTTP_415_UNSUPPORTED_MEDIA_TYPE, "The body has to be application/json.")
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        is_own = site in ("same-origin", "none")
    elif origin is not None:
        is_own = urlsplit(origin).netloc in _own_hosts(request)
    else:
        # Not a browser, which would send one of the two headers. Still, a cookie alone is not accepted.
        is_own = "authorization" in request.headers or COOKIE_NAME_JWT_TOKEN not in request.cookies
    if not is_own:
        raise HTTPException(status.HTTP_403_FORBIDDEN, "The request does not come from a page of this Airflow.")


#: For pages and their files, which contain no data. If Airflow has no sessions, the request for a frame has no login;
#: the page then requests its data with Airflow's token.
PAGE_ACCESS: list[Any] = [Depends(may_read)] if HAS_COOKIE_SESSIONS else []
FILE_ACCESS: list[Any] = [Depends(get_user)] if HAS_COOKIE_SESSIONS else []
#: For lists, which contain only data of DAGs that the user may read.
LIST_ACCESS: list[Any] = [Depends(get_user)]
READ_ACCESS: list[Any] = [Depends(may_read)]
EDIT_ACCESS: list[Any] = [Depends(from_own_page), Depends(may_read), Depends(may_edit)]
#: The functions that count as a check, for the test that inspects all routes.
CHECKS: tuple[Callable[..., Any], ...] = (may_read, may_edit, get_user)


def _dag_id(request: Request) -> str:
    dag_id = request.path_params.get("dag_id") or request.query_params.get("dag_id")
    if not dag_id:
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_ENTITY, "dag_id is missing.")
    return str(dag_id)


def _is_authorized(method: Any, entity: DagAccessEntity, dag_id: str, user: BaseUser) -> bool:
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return get_auth_manager().is_authorized_dag(method=method, access_entity=entity, details=details, user=user)


def _own_hosts(request: Request) -> tuple[str, ...]:
    """The hosts of this Airflow: the configured host, and the host in the browser's request."""
    from airflow.configuration import conf

    configured = urlsplit(conf.get("api", "base_url", fallback="") or "").netloc
    return tuple(filter(None, (configured, request.headers.get("host"))))
