"""Airflow mounts the app, and shows its page as a tab."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_trainer_provider.plugins.trainer import TrainerPlugin
from airflow_trainer_provider.plugins.view.mounted import MountedApp


def test_airflow_mounts_the_app_below_its_prefix(client, database):
    server = FastAPI(root_path="/prefix")
    for each in TrainerPlugin.fastapi_apps:
        server.mount(each["url_prefix"], each["app"])

    answer = TestClient(server).get("/prefix/trainer/api/tasks/mine/r/train/-1")

    assert answer.status_code == 401


def test_the_app_is_made_at_its_first_request(client):
    app = MountedApp()
    assert app._app is None

    assert TestClient(app).get("/nothing").status_code == 404
    made = app._app
    TestClient(app).get("/nothing")

    assert made is not None
    assert app._app is made


def test_the_tab_names_the_task_instance_relative_to_airflows_address():
    view = next(each for each in TrainerPlugin.external_views if each["destination"] == "task_instance")

    assert issubclass(TrainerPlugin, AirflowPlugin)
    assert not view["href"].startswith("/")
    assert all(each in view["href"] for each in ("{DAG_ID}", "{RUN_ID}", "{TASK_ID}", "{MAP_INDEX}"))


def test_the_tab_of_a_dag_names_it_and_has_a_route_of_its_own():
    view = next(each for each in TrainerPlugin.external_views if each["destination"] == "dag")

    assert view["href"] == "trainer/dag?dag_id={DAG_ID}"
    # Airflow finds a view by its route alone, wherever it is shown.
    routes = [each["url_route"] for each in TrainerPlugin.external_views]
    assert len(set(routes)) == len(routes)


def test_the_page_stands_in_the_navigation():
    page = next(each for each in TrainerPlugin.external_views if each["destination"] == "nav")

    assert page["href"] == "trainer/jobs"
    assert all(page[name].startswith("data:image/svg+xml,") for name in ("icon", "icon_dark_mode"))
