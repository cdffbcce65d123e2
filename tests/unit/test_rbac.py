"""The Roles that we hand out name every kind, and hold no right that is not needed."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from airflow_trainer_provider.kinds.objects.scheduling.gang import POD_GROUPS
from airflow_trainer_provider.kinds.registry import KINDS

ROOT = Path(__file__).parents[2]
RBAC = ROOT / "deploy" / "rbac.yaml"
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


def test_a_worker_may_read_the_runtimes_of_the_cluster():
    named = {each["kind"]: each for each in DOCUMENTS if each["metadata"]["name"].startswith("trainer-runtimes")}

    rule = {"apiGroups": ["trainer.kubeflow.org"], "resources": ["clustertrainingruntimes"], "verbs": ["get"]}
    assert named["ClusterRole"]["rules"] == [rule]
    assert [each["name"] for each in named["ClusterRoleBinding"]["subjects"]] == ["trainer-worker"]


@pytest.mark.parametrize("role", NEEDED)
@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_role_lets_its_part_of_airflow_handle_every_kind(role, kind):
    group = kind.resource.api_version.rpartition("/")[0]

    assert _verbs(role, kind.resource.plural, group) == NEEDED[role]


@pytest.mark.parametrize("role", NEEDED)
@pytest.mark.parametrize(
    ("kind", "child"),
    [pytest.param(kind, child, id=f"{name}-{child.plural}") for name, kind in KINDS.items() for child in kind.children],
)
def test_a_role_lets_its_part_of_airflow_see_what_a_kinds_objects_own(role, kind, child):
    needed = NEEDED[role] & {"list", "watch"} | ({"patch"} if kind.suspension.of_children else set())

    assert _verbs(role, child.plural, child.api_version.rpartition("/")[0]) >= needed


@pytest.mark.parametrize("resource", ["trainingruntimes.trainer.kubeflow.org", "services."])
def test_workers_may_delete_what_an_interrupted_submit_created_before_the_job(resource):
    plural, _, group = resource.partition(".")

    assert {"get", "list", "create", "patch", "delete"} <= _verbs("trainer-worker", plural, group)


@pytest.mark.parametrize("role", NEEDED)
def test_a_role_lets_its_part_of_airflow_stop_a_job_in_a_queue(role):
    assert {"list", "patch"} <= _verbs(role, "workloads", "kueue.x-k8s.io")


@pytest.mark.parametrize("role", NEEDED)
def test_who_waits_for_a_job_may_ask_for_its_place_in_a_queue(role):
    waits = role != "trainer-listener"
    cluster = [rule for each in DOCUMENTS if each["kind"] == "ClusterRole" for rule in each["rules"]]
    bound = next(
        each for each in DOCUMENTS if each["kind"] == "ClusterRoleBinding" and "queues" in each["metadata"]["name"]
    )

    needed = {"get"} if waits else set()
    assert _verbs(role, "localqueues/pendingworkloads", "visibility.kueue.x-k8s.io") == needed
    assert _verbs(role, "localqueues", "kueue.x-k8s.io") == needed
    assert {"apiGroups": ["kueue.x-k8s.io"], "resources": ["clusterqueues"], "verbs": ["get"]} in cluster
    assert any(subject["name"] == role for subject in bound["subjects"]) is waits


def test_every_role_is_bound_to_an_account_of_the_file():
    accounts = {each["metadata"]["name"] for each in DOCUMENTS if each["kind"] == "ServiceAccount"}
    bound = {each["roleRef"]["name"]: each["subjects"] for each in DOCUMENTS if each["kind"] == "RoleBinding"}

    assert set(bound) == set(ROLES) == set(NEEDED)
    assert all(subject["name"] in accounts for subjects in bound.values() for subject in subjects)


def _applied_to(namespace):
    """Kind, namespace and name of each object -> the object, for the command that the file gives to apply it."""
    (command,) = re.findall(r"#   (sed .*) rbac\.yaml \| kubectl", RBAC.read_text())
    assert f"{command} deploy/rbac.yaml" in (ROOT / "docs" / "how-to" / "kubernetes.md").read_text()
    program = shlex.split(command.replace("YOURS", namespace))
    applied = yaml.safe_load_all(subprocess.run([*program, RBAC], capture_output=True, check=True, text=True).stdout)
    return {(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]): each for each in applied}


def test_a_second_namespace_takes_no_right_from_the_first():
    first, second = _applied_to("vision"), _applied_to("speech")

    common = first.keys() & second.keys()
    assert {kind for kind, *_ in common} == {"ClusterRole"}
    assert all(first[each] == second[each] for each in common)
    assert "training" not in {namespace for _, namespace, _ in first}
    subjects = [subject for each in first.values() for subject in each.get("subjects", ())]
    assert {subject["namespace"] for subject in subjects} == {"vision"}


def test_workers_may_create_the_claims_of_volumes_and_may_not_delete_any():
    assert _verbs("trainer-worker", "persistentvolumeclaims") == {"get", "create"}
    assert not any(_verbs(role, "persistentvolumeclaims") for role in ROLES.keys() - {"trainer-worker"})


def test_workers_may_create_the_files_and_functions_of_jobs_which_go_with_them():
    assert _verbs("trainer-worker", "configmaps") == {"get", "create"}
    assert not any(_verbs(role, "configmaps") for role in ROLES.keys() - {"trainer-worker"})


def test_workers_may_create_what_tools_are_reached_by_and_may_not_delete_any_ingress():
    assert {"get", "create"} <= _verbs("trainer-worker", "services")
    assert _verbs("trainer-worker", "ingresses", "networking.k8s.io") == {"get", "create"}
    assert not any(_verbs(role, "ingresses", "networking.k8s.io") for role in ROLES.keys() - {"trainer-worker"})


def test_nothing_is_granted_by_wildcard_and_no_secrets_can_be_listed():
    rules = [rule for document in DOCUMENTS for rule in document.get("rules", ())]

    assert all("*" not in (*rule["apiGroups"], *rule["resources"], *rule["verbs"]) for rule in rules)
    assert _verbs("trainer-worker", "secrets") == {"get", "create", "delete"}
    assert not any(_verbs(role, "secrets") for role in ROLES.keys() - {"trainer-worker"})


def test_workers_may_create_the_pod_groups_of_gangs():
    for resource in POD_GROUPS.values():
        group = resource.api_version.rpartition("/")[0]

        assert _verbs("trainer-worker", resource.plural, group) == {"get", "create"}
        assert not any(_verbs(role, resource.plural, group) for role in ROLES.keys() - {"trainer-worker"})
