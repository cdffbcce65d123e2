"""The Roles that we hand out name every kind, and hold no right that is not needed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from airflow_trainer_provider.kinds.registry import KINDS

RBAC = Path(__file__).parents[2] / "deploy" / "rbac.yaml"
DOCUMENTS = list(yaml.safe_load_all(RBAC.read_text()))
ROLES = {document["metadata"]["name"]: document["rules"] for document in DOCUMENTS if document["kind"] == "Role"}
#: What each part of Airflow does with a job's main object.
NEEDED = {
    "trainer-worker": {"get", "list", "watch", "create", "patch", "delete"},
    "trainer-triggerer": {"get", "list", "watch", "patch", "delete"},
    "trainer-listener": {"get", "list", "patch", "delete"},
}


def _verbs(role, resource, group=""):
    rules = [rule for rule in ROLES[role] if group in rule["apiGroups"] and resource in rule["resources"]]
    return {verb for rule in rules for verb in rule["verbs"]}


@pytest.mark.parametrize("role", NEEDED)
@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_role_lets_its_part_of_airflow_handle_every_kind(role, kind):
    group = kind.resource.api_version.rpartition("/")[0]

    assert _verbs(role, kind.resource.plural, group) == NEEDED[role]


@pytest.mark.parametrize("role", NEEDED)
@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_role_lets_its_part_of_airflow_see_what_a_kinds_objects_own(role, kind):
    needed = NEEDED[role] & {"list", "watch"} | ({"patch"} if kind.suspend_children else set())

    for child in kind.children:
        assert _verbs(role, child.plural, child.api_version.rpartition("/")[0]) >= needed


@pytest.mark.parametrize("role", NEEDED)
def test_a_role_lets_its_part_of_airflow_stop_a_job_in_a_queue(role):
    assert {"list", "patch"} <= _verbs(role, "workloads", "kueue.x-k8s.io")


def test_every_role_is_bound_to_an_account_of_the_file():
    accounts = {each["metadata"]["name"] for each in DOCUMENTS if each["kind"] == "ServiceAccount"}
    bound = {each["roleRef"]["name"]: each["subjects"] for each in DOCUMENTS if each["kind"] == "RoleBinding"}

    assert set(bound) == set(ROLES) == set(NEEDED)
    assert all(subject["name"] in accounts for subjects in bound.values() for subject in subjects)


def test_nothing_is_granted_by_wildcard_and_no_secret_can_be_read():
    rules = [rule for document in DOCUMENTS for rule in document.get("rules", ())]

    assert all("*" not in (*rule["apiGroups"], *rule["resources"], *rule["verbs"]) for rule in rules)
    for role in ROLES:
        assert _verbs(role, "secrets") <= {"create"}
