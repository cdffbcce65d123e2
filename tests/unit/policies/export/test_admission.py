"""Policies are exported as objects of the API server; rules that cannot be exported are listed."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.policies.export.admission import export
from tests.golden_files import assert_golden
from tests.unit.policies.jobs import policy

GPU = {"field": "resources_per_node.gpu", "max": 8, "reason": "The nodes\nhave 8."}
DAYS = {"field": "run_policy.active_deadline_seconds", "max": 86400}


def named(exported, kind="ValidatingAdmissionPolicy"):
    return {each["metadata"]["name"]: each for each in exported.objects if each["kind"] == kind}


def test_a_policy_and_its_bindings():
    exported = export([policy(DAYS, applies_to={"namespaces": ["team-a", "team-b"], "frameworks": ["jax", "mpi"]})])

    assert_golden("policies/export/admission.yaml", exported.text())


def test_each_kind_has_a_policy_of_its_own():
    exported = export([policy(GPU, name="compute/GPUs")])

    names = {f"trainer-compute-gpus-{each}" for each in ("trainjobs", "trainingruntimes", "pytorchjobs", "tfjobs")}
    names |= {f"trainer-compute-gpus-{each}" for each in ("xgboostjobs", "paddlejobs", "jaxjobs", "jobs")}
    names |= {f"trainer-compute-gpus-mpijobs-{version}" for version in ("v1", "v2beta1")}
    assert named(exported).keys() == named(exported, "ValidatingAdmissionPolicyBinding").keys() == names
    (validation,) = named(exported)["trainer-compute-gpus-jobs"]["spec"]["validations"]
    # The API server takes no line breaks there.
    assert validation["message"] == (
        "resources_per_node.gpu: at most 8. Reason: The nodes have 8. (policy compute/GPUs)"
    )
    assert exported.left == []


@pytest.mark.parametrize("all_jobs", [False, True])
def test_plain_jobs_of_others_are_left_alone_unless_all_are_meant(all_jobs):
    jobs = named(export([policy(GPU)], all_jobs=all_jobs))["trainer-one-jobs"]

    names = [condition["name"] for condition in jobs["spec"]["matchConditions"]]
    assert names == (["changed"] if all_jobs else ["changed", "training"])


def test_a_binding_may_be_for_one_namespace():
    here = policy(GPU, applies_to={"namespaces": ["team-*"]})
    elsewhere = policy(GPU, name="two", applies_to={"namespaces": ["other"]})

    exported = export([here, elsewhere], "team-a")

    assert {name.split("-")[1] for name in named(exported)} == {"one"}
    for binding in named(exported, "ValidatingAdmissionPolicyBinding").values():
        (chosen,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
        assert (chosen["operator"], chosen["values"]) == ("In", ["team-a"])


def test_a_pattern_of_namespaces_becomes_a_condition():
    exported = export([policy(GPU, applies_to={"namespaces": ["team-*", "a?c"]})])

    for each in named(exported).values():
        assert each["spec"]["matchConditions"][-1] == {
            "name": "namespace",
            "expression": '(string(dyn(request.namespace)).matches("^(?:team\\\\-.*)$") || '
            'string(dyn(request.namespace)).matches("^(?:a.c)$"))',
        }
    for binding in named(exported, "ValidatingAdmissionPolicyBinding").values():
        assert "matchResources" not in binding["spec"]


def test_rules_for_tools_are_those_of_their_services_and_ingresses():
    exported = export(
        [
            policy({"field": "tools.*.access", "allowed": ["cluster", "url"]}, name="access"),
            policy({"field": "tools.web.host", "pattern": r".*\.example\.com"}, name="host"),
        ]
    )

    names = {"trainer-access-services", "trainer-access-ingresses", "trainer-host-ingresses"}
    assert named(exported).keys() == named(exported, "ValidatingAdmissionPolicyBinding").keys() == names
    for each in named(exported).values():
        assert each["spec"]["matchConditions"][-1]["expression"] == (
            'has(object.metadata.labels) && "airflow-trainer-provider/tool" in object.metadata.labels'
        )
    assert exported.left == []


def test_what_is_not_exported_of_rules_for_tools_is_named():
    exported = export(
        [policy({"field": "tools.*.node_port", "min": 31000}, {"field": "tools.*.host", "required": True})]
    )

    assert exported.objects == []
    assert [str(each) for each in exported.left] == [
        "not exported: tools.*.node_port: at least 31000 (policy /policies/one.yaml): the cluster may have chosen the "
        "port",
        "not exported: tools.*.host: a value (policy /policies/one.yaml): not each tool has an object with the field",
    ]


def test_what_is_not_exported_is_named_with_the_reason():
    policies = [
        policy(GPU, name="tagged", applies_to={"tags": ["gpu"]}),
        policy(GPU, name="jax", applies_to={"frameworks": ["jax"]}),
        policy({"field": "name", "pattern": "[a-z]+"}, {"field": "num_nodes", "default": 2, "max": 4, "step": 2}),
    ]

    exported = export(policies)

    assert [str(each) for each in exported.left] == [
        "not exported: resources_per_node.gpu: at most 8 (policy /policies/tagged.yaml): the policy is chosen by DAGs "
        "or tags, which an object of the cluster cannot prove",
        "not exported for TrainJob, TrainingRuntime, Job: resources_per_node.gpu: at most 8 (policy "
        "/policies/jax.yaml): the policy is chosen by framework, and the object does not say which it is for",
        "not exported: name: text that matches [a-z]+ (policy /policies/one.yaml): no object has a field for it",
        "not exported: num_nodes: default 2 (policy /policies/one.yaml): a default is filled in by the provider alone",
        "not exported for Job: num_nodes: in steps of 2 (policy /policies/one.yaml): the nodes of a job may be those "
        "of several objects",
    ]
    assert {name.split("-")[1] for name in named(exported)} == {"jax", "one"}
    assert "trainer-jax-pytorchjobs" not in named(exported)
    comments = [line for line in exported.text().splitlines() if line.startswith("#")]
    assert comments == [f"# {each}" for each in exported.left]
