"""Where pods may run, as Kubernetes writes it, beside what a pod template says of it."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.kinds.base import Manifest
from tests.unit.kinds.objects.test_pod import pods_of
from tests.unit.kinds.specs import job_of

JOB = {"matchLabels": {"airflow-trainer-provider/job": "train"}}
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))


def pod_of(backend: str = "training-operator", **fields: object) -> Manifest:
    return pods_of(backend, job_of("jax", **fields))[0]


def spec_of(**fields: object) -> Manifest:
    return pod_of(**fields)["spec"]


def test_without_a_field_nothing_is_said():
    spec = spec_of()

    assert spec.keys().isdisjoint({"nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"})


def test_pools_are_required_and_preferred_in_their_order():
    spec = spec_of(scheduling={"node_pools": ["a", "b", "c"], "node_pool_label": "pool"})

    affinity = spec["affinity"]["nodeAffinity"]
    weights = [each["weight"] for each in affinity[PREFERRED]]
    pools = [each["preference"]["matchExpressions"][0]["values"] for each in affinity[PREFERRED]]
    assert (weights, pools) == ([100, 67, 34], [["a"], ["b"], ["c"]])
    assert affinity[REQUIRED]["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a", "b", "c"]}]}
    ]


@pytest.mark.parametrize("count", [1, 3, 99, 100])
def test_each_pool_has_a_weight_of_its_own(count):
    spec = spec_of(scheduling={"node_pools": [f"p{at}" for at in range(count)], "node_pool_label": "pool"})

    weights = [each["weight"] for each in spec["affinity"]["nodeAffinity"][PREFERRED]]
    assert len(set(weights)) == count
    assert weights == sorted(weights, reverse=True)
    assert 1 <= weights[-1] <= weights[0] == 100


@pytest.mark.parametrize("backend", ["trainer", "training-operator", "native"])
def test_pools_without_a_label_are_refused(backend):
    job = job_of("jax", scheduling={"node_pools": ["a"]})

    with pytest.raises(SpecError) as refused:
        ClusterBackend(backend, None, "default").check(job)

    (problem,) = refused.value.problems
    assert (problem.field, problem.value) == ("scheduling.node_pools", ["a"])
    assert "[trainer] node_pool_label" in problem.fix


def test_pools_of_a_group_are_named_where_they_stand():
    job = job_of("jax", replicas={"worker": {"scheduling": {"node_pools": ["a"]}}})

    with pytest.raises(SpecError, match=r"replicas\.worker\.scheduling\.node_pools"):
        ClusterBackend("native", None, "default").check(job)


@pytest.mark.parametrize(
    ("given", "rendered"),
    [
        ({"key": "gpu"}, {"key": "gpu", "operator": "Exists"}),
        ({"operator": "Exists"}, {"operator": "Exists"}),
        ({"key": "gpu", "value": ""}, {"key": "gpu", "operator": "Equal", "value": ""}),
        ({"key": "gpu", "effect": "Any"}, {"key": "gpu", "operator": "Exists"}),
        (
            {"key": "a", "value": "b", "effect": "NoExecute", "seconds": 0},
            {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 0},
        ),
    ],
)
def test_a_toleration(given, rendered):
    assert spec_of(scheduling={"tolerations": [given]})["tolerations"] == [rendered]


@pytest.mark.parametrize(
    ("policy", "required", "field", "rendered"),
    [
        ("pack", True, "affinity", {REQUIRED: [{"labelSelector": JOB, "topologyKey": "zone"}]}),
        (
            "pack",
            False,
            "affinity",
            {PREFERRED: [{"weight": 100, "podAffinityTerm": {"labelSelector": JOB, "topologyKey": "zone"}}]},
        ),
        ("spread", True, "topologySpreadConstraints", "DoNotSchedule"),
        ("spread", False, "topologySpreadConstraints", "ScheduleAnyway"),
    ],
)
def test_a_topology(policy, required, field, rendered):
    spec = spec_of(scheduling={"topology": {"key": "zone", "policy": policy, "required": required}})

    if policy == "pack":
        assert spec[field] == {"podAffinity": rendered}
    else:
        constraint = {"maxSkew": 1, "whenUnsatisfiable": rendered, "labelSelector": JOB, "topologyKey": "zone"}
        assert spec[field] == [constraint]


@pytest.mark.parametrize("backend", ["trainer", "training-operator", "native"])
@pytest.mark.parametrize(("required", "name"), [(True, "required"), (False, "preferred")])
def test_in_a_queue_kueue_packs_the_pods(backend, required, name):
    template = {"metadata": {"annotations": {"note": "x"}}}
    topology = {"key": "rack", "required": required}
    pod = pod_of(backend, scheduling={"queue_name": "team", "topology": topology}, pod_template=template)

    assert pod["metadata"]["annotations"] == {"note": "x", f"kueue.x-k8s.io/podset-{name}-topology": "rack"}
    assert "affinity" not in pod["spec"]


def test_in_a_queue_the_scheduler_spreads_them():
    pod = pod_of(scheduling={"queue_name": "team", "topology": {"key": "rack", "policy": "spread"}})

    assert "annotations" not in pod["metadata"]
    assert pod["spec"]["topologySpreadConstraints"]


def test_what_a_pod_template_says_holds_as_well():
    term = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    preferred = {"weight": 5, "preference": term}
    pods = {"labelSelector": {}, "topologyKey": "host"}
    template = {
        "spec": {
            "nodeSelector": {"disk": "ssd", "team": "vision"},
            "tolerations": [{"key": "mine", "operator": "Exists"}],
            "schedulerName": "other",
            "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"}],
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {"nodeSelectorTerms": [term, {"matchFields": [{"key": "metadata.name"}]}]},
                    PREFERRED: [preferred],
                },
                "podAffinity": {REQUIRED: [pods]},
            },
        }
    }
    scheduling = {
        "node_selector": {"disk": "nvme"},
        "node_affinity": [{"key": "zone", "values": ["a"]}],
        "node_pools": ["p"],
        "node_pool_label": "pool",
        "tolerations": [{"key": "gpu"}],
        "topology": {"key": "zone", "required": True},
        "scheduler_name": "kai",
    }

    spec = spec_of(scheduling=scheduling, pod_template=template)

    assert spec["nodeSelector"] == {"disk": "nvme", "team": "vision"}
    assert [each["key"] for each in spec["tolerations"]] == ["mine", "gpu"]
    assert spec["schedulerName"] == "kai"
    assert len(spec["topologySpreadConstraints"]) == 1
    nodes = spec["affinity"]["nodeAffinity"]
    keys = [[each["key"] for each in term["matchExpressions"]] for term in nodes[REQUIRED]["nodeSelectorTerms"]]
    # A node meets one of the template's terms, and all that the fields say.
    assert keys == [["a", "pool", "zone"], ["pool", "zone"]]
    assert [each["weight"] for each in nodes[PREFERRED]] == [5, 100]
    assert [each["topologyKey"] for each in spec["affinity"]["podAffinity"][REQUIRED]] == ["host", "zone"]


@pytest.mark.parametrize(
    ("given", "rendered"),
    [
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, {"key": "zone", "operator": "NotIn", "values": ["a"]}),
        ({"key": "spot", "operator": "DoesNotExist"}, {"key": "spot", "operator": "DoesNotExist"}),
        ({"key": "cores", "operator": "Gt", "values": [8]}, {"key": "cores", "operator": "Gt", "values": ["8"]}),
    ],
)
def test_the_requirements_on_the_labels_of_nodes(given, rendered):
    nodes = spec_of(scheduling={"node_affinity": [given]})["affinity"]["nodeAffinity"]

    assert nodes == {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [rendered]}]}}
