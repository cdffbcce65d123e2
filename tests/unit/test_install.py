"""The page on the installation names the image, the accounts and the rights as the package and deploy/rbac.yaml do."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from airflow.models.connection import Connection
from packaging.requirements import Requirement

import airflow_trainer_provider as provider
from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from tests.unit.named_tests import ROOT

PAGE = (ROOT / "docs" / "how-to" / "install.md").read_text()
VALUES = yaml.safe_load(re.search(r"^```yaml\n(# values\.yaml\n.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[1])
#: The chart's name of a component -> the page's.
COMPONENTS = {"workers": "worker", "triggerer": "triggerer", "scheduler": "scheduler", "apiServer": "API server"}


def _accounts():
    """Component -> the account that the values give it."""
    places = {name: VALUES[name].get("celery", VALUES[name])["serviceAccount"] for name in COMPONENTS}
    assert all(place["create"] for place in places.values())
    return {COMPONENTS[name]: place["name"] for name, place in places.items()}


def _bound(kind):
    """The roles of a kind that the page's commands bind, and the accounts in Airflow's namespace that they are for."""
    commands = PAGE.replace("\\\n", " ").splitlines()
    for words in (shlex.split(each) for each in commands if each.startswith(f"kubectl create {kind.lower()}binding ")):
        given = list(pairwise(words))
        accounts = [value.removeprefix("airflow:") for option, value in given if option == "--serviceaccount"]
        yield dict(given)[f"--{kind.lower()}"], accounts


def test_each_account_of_the_chart_is_bound_to_the_role_of_its_component():
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| yes \| `([\w-]+)` \|$", PAGE, re.MULTILINE)
    bound = {account: role for role, accounts in _bound("Role") for account in accounts}

    assert {component: bound[account] for component, account in _accounts().items()} == dict(rows)


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_the_roles_are_those_of_the_file(kind):
    documents = yaml.safe_load_all((ROOT / "deploy" / "rbac.yaml").read_text())
    bound = dict(_bound(kind))

    assert set(bound) == {each["metadata"]["name"] for each in documents if each["kind"] == kind}
    assert {account for accounts in bound.values() for account in accounts} <= set(_accounts().values())


def test_the_connection_takes_the_account_of_the_pod():
    (variable,) = (each for each in VALUES["env"] if each["name"] == "AIRFLOW_CONN_KUBERNETES_DEFAULT")
    connection = Connection.from_json(variable["value"])
    found = ClusterConnection.from_extra("kubernetes_default", connection.extra_dejson)

    assert connection.conn_type == "kubernetes"
    assert (found.in_cluster, found.namespace) == (True, "training")


def test_the_versions_are_those_of_the_package():
    wheel, images = f"airflow_trainer_provider-{provider.__version__}-py3-none-any.whl", VALUES["images"]["airflow"]
    (airflow,) = set(re.findall(r"(?:^AIRFLOW_VERSION=|^FROM apache/airflow:)(\S+)", PAGE, re.MULTILINE))
    text = (ROOT / "pyproject.toml").read_text()

    assert wheel in PAGE
    assert images["tag"] == f"{airflow}-{provider.__version__}"
    assert VALUES["airflowVersion"] == airflow
    assert Requirement(re.search(r'"(apache-airflow>=[^"]+)"', text)[1]).specifier.contains(airflow)


def test_the_package_ships_its_types():
    folder = Path(provider.__file__).parent

    assert (folder / "py.typed").read_bytes() == b""
    assert f'[tool.hatch.build.targets.wheel]\npackages = ["{folder.name}"]\n' in (ROOT / "pyproject.toml").read_text()
