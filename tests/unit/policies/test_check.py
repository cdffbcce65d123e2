"""A rule counts for what the replicas get, wherever the spec says it, and all violations are named at once."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.errors import PolicyViolation
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.policies.check import check_policies
from airflow_trainer_provider.policies.policy import Subject
from airflow_trainer_provider.spec import parse_spec
from tests.unit.policies.jobs import REASON, policy

JOB = {"framework": "pytorch", "image": "good/i:1", "command": ["python", "t.py"], "num_nodes": 2}


def violations(rule, **fields):
    job = plan_job(parse_spec({**JOB, **fields}))
    try:
        check_policies([policy(rule)], job)
    except PolicyViolation as error:
        return [(each.field, each.value, each.rule) for each in error.violations]
    return []


#: Scheduling that says nothing of pods, as a violation shows it.
OF_PODS = {"node_selector": {}, "node_pools": [], "node_affinity": [], "tolerations": []}
GOOD = {"field": "image", "pattern": "good/.*"}
PATTERN = "text that matches good/.*"


def container(name, **fields):
    return {"spec": {"containers": [{"name": name, **fields}]}}


@pytest.mark.parametrize(
    ("rule", "fields", "expected"),
    [
        pytest.param(GOOD, {}, [], id="right"),
        pytest.param(
            {"field": "tools.*.access", "allowed": ["cluster"]},
            {"tools": {"tb": {"port": 6006}, "lab": {"port": 8888, "access": "node_port"}}},
            [("tools.lab.access", "node_port", "one of cluster")],
            id="of a tool",
        ),
        pytest.param(GOOD, {"image": "bad/i"}, [("image", "bad/i", PATTERN)], id="of the job"),
        pytest.param(
            GOOD,
            {"replicas": {"worker": {"image": "bad/i"}}},
            [("replicas.worker.image", "bad/i", PATTERN)],
            id="of a role",
        ),
        pytest.param(
            GOOD,
            {"num_nodes": 3, "replicas": {"worker": {"overrides": [{"index": 1, "image": "bad/i"}]}}},
            [("replicas.worker.overrides[0].image", "bad/i", PATTERN)],
            id="of one replica",
        ),
        pytest.param(
            GOOD,
            {"image": None, "pod_template": container("train", image="bad/i")},
            [("pod_template.spec.containers[name=train].image", "bad/i", PATTERN)],
            id="of the pod template",
        ),
        pytest.param(GOOD, {"pod_template": container("train", image="bad/i")}, [], id="the job's wins"),
        pytest.param(
            GOOD,
            {"pod_template": {"spec": {"containers": [{"name": "train"}, {"name": "logs", "image": "bad/l"}]}}},
            [("pod_template.spec.containers[name=logs].image", "bad/l", PATTERN)],
            id="of a sidecar",
        ),
        pytest.param(
            GOOD,
            {"pod_template": {"spec": {"initContainers": [{"name": "get", "image": "bad/l"}]}}},
            [("pod_template.spec.initContainers[name=get].image", "bad/l", PATTERN)],
            id="of an init container",
        ),
        pytest.param(
            {"field": "replicas.worker.image", "pattern": "other/.*"},
            {"replicas": {"master": {"image": "bad/i"}}},
            [("image", "good/i:1", "text that matches other/.*")],
            id="a rule for a role counts for what it gets of the job",
        ),
        pytest.param(
            {"field": "replicas.*.image", "pattern": "other/.*"},
            {"replicas": {"master": {"image": "other/i"}, "worker": {"image": "x"}}},
            [("replicas.worker.image", "x", "text that matches other/.*")],
            id="a rule for all roles",
        ),
        pytest.param(
            {"field": "resources_per_node.memory", "min": "8Gi", "max": "64Gi"},
            {
                "resources_per_node": {"memory": "16Gi"},
                "pod_template": container("logs", resources={"limits": {"memory": "1Gi"}}),
            },
            [],
            id="a sidecar may have less than a node",
        ),
        pytest.param(
            {"field": "env.MODE", "locked": "offline"},
            {
                "env": {"MODE": "offline"},
                "pod_template": container("logs", env=[{"name": "MODE", "value": "online"}]),
            },
            [("pod_template.spec.containers[name=logs].env.MODE", "online", "locked to 'offline'")],
            id="locked in a sidecar",
        ),
        pytest.param(
            {"field": "image", "required": True},
            {"image": None},
            [("image", None, "a value")],
            id="required",
        ),
        pytest.param({"field": "image", "required": True}, {}, [], id="required and given"),
        pytest.param(
            {"field": "working_dir", "forbidden": True},
            {"replicas": {"worker": {"working_dir": "/srv"}}},
            [("replicas.worker.working_dir", "/srv", "no value")],
            id="forbidden",
        ),
        pytest.param(
            {"field": "resources_per_node.gpu", "max": 8},
            {"resources_per_node": {"gpu": 16}},
            [("resources_per_node.gpu", 16, "at most 8")],
            id="a number",
        ),
        pytest.param(
            {"field": "resources_per_node.memory", "min": "1Gi", "max": "64Gi"},
            {"resources_per_node": {"memory": {"requests": "512Mi", "limits": "65Gi"}}},
            [
                ("resources_per_node.memory", {"requests": "512Mi", "limits": "65Gi"}, "at least 1Gi"),
                ("resources_per_node.memory", {"requests": "512Mi", "limits": "65Gi"}, "at most 64Gi"),
            ],
            id="quantities of both sides",
        ),
        pytest.param(
            {"field": "resources_per_node.memory.limits", "required": True},
            {"resources_per_node": {"memory": {"requests": "1Gi"}}},
            [("resources_per_node.memory.limits", None, "a value")],
            id="a limit that is required",
        ),
        pytest.param(
            {"field": "resources_per_node.gpu", "max": 8},
            {"replicas": {"worker": {"resources": {"gpu": 9}}}},
            [("replicas.worker.resources.gpu", 9, "at most 8")],
            id="the resources of a role",
        ),
        pytest.param(
            {"field": "resources_per_node.gpu", "max": 8},
            {
                "resources_per_node": {"cpu": 1},
                "pod_template": container("train", resources={"limits": {"nvidia.com/gpu": "9"}}),
            },
            [("pod_template.spec.containers[name=train].resources.nvidia.com/gpu", "9", "at most 8")],
            id="resources of the pod template",
        ),
        pytest.param(
            {"field": "resources_per_node.gpu['amd.com/gpu']", "max": 8},
            {"resources_per_node": {"gpu": {"amd.com/gpu": 9}}, "replicas": {"worker": {"resources": {"gpu": 9}}}},
            [("resources_per_node.gpu.amd.com/gpu", 9, "at most 8")],
            id="accelerators of another vendor",
        ),
        pytest.param(
            {"field": "resources_per_node.gpu['amd.com/gpu']", "max": 8},
            {"resources_per_node": {"extended": {"amd.com/gpu": 9}}},
            [("resources_per_node.extended.amd.com/gpu", 9, "at most 8")],
            id="the same as an extended resource",
        ),
        pytest.param(
            {"field": "resources_per_node.extended['rdma/hca']", "forbidden": True},
            {"pod_template": container("train", resources={"limits": {"rdma/hca": 1}})},
            [("pod_template.spec.containers[name=train].resources.rdma/hca", 1, "no value")],
            id="an extended resource of the pod template",
        ),
        pytest.param(
            {"field": "resources_per_node.extended", "forbidden": True},
            {"resources_per_node": {"extended": {"rdma/hca": 1}}},
            [("resources_per_node.extended", {"rdma/hca": 1}, "no value")],
            id="all extended resources",
        ),
        pytest.param(
            {"field": "resources_per_node.shared_memory", "max": "1Gi"},
            {"resources_per_node": {"shared_memory": "2Gi", "memory": "4Gi"}},
            [("resources_per_node.shared_memory", "2Gi", "at most 1Gi")],
            id="shared memory",
        ),
        pytest.param(
            {"field": "resources_per_node.gpu", "forbidden": True},
            {"resources_per_node": {"gpu": 0.5}},
            [("resources_per_node.gpu", 0.5, "no value")],
            id="a fraction is a GPU",
        ),
        pytest.param(
            {"field": "resources_per_node.gpu", "forbidden": True},
            {"resources_per_node": {"gpu": {"memory": "8Gi"}}},
            [("resources_per_node.gpu", 1, "no value")],
            id="GPU memory is a GPU",
        ),
        pytest.param(
            {"field": "resources_per_node.gpu.fraction", "max": 0.25},
            {"resources_per_node": {"gpu": 0.5}},
            [("resources_per_node.gpu.fraction", 0.5, "at most 0.25")],
            id="a fraction",
        ),
        pytest.param(
            {"field": "resources_per_node.gpu.memory", "max": "4Gi"},
            {"resources_per_node": {"gpu": {"memory": "8Gi"}, "memory": "64Gi"}},
            [("resources_per_node.gpu.memory", "8Gi", "at most 4Gi")],
            id="GPU memory is no memory",
        ),
        *(
            pytest.param(
                {"field": field, "allowed": ["ours"]},
                {"runtime_ref": given},
                [("runtime_ref", "theirs", "one of ours")],
                id=f"{field} of a {type(given).__name__}",
            )
            for field in ("runtime_ref", "runtime_ref.name")
            for given in ("theirs", {"name": "theirs", "initializer": {"model": {"secret": "hub"}}})
        ),
        pytest.param(
            {"field": "runtime_ref.initializer", "forbidden": True},
            {"runtime_ref": {"name": "ours", "initializer": {"model": {"secret": "hub"}}}},
            [
                (
                    "runtime_ref.initializer",
                    {"dataset": None, "model": {"storage_uri": None, "env": {}, "secret": "hub"}},
                    "no value",
                )
            ],
            id="initializers",
        ),
        pytest.param(
            {"field": "runtime_ref.initializer.model.storage_uri", "pattern": "s3://.*"},
            {"runtime_ref": {"name": "ours", "initializer": {"model": {"storage_uri": "hf://a/b"}}}},
            [("runtime_ref.initializer.model.storage_uri", "hf://a/b", "text that matches s3://.*")],
            id="where an initializer fetches from",
        ),
        pytest.param(
            {"field": "env.MODE", "locked": "offline"},
            {"env": {"MODE": "online"}},
            [("env.MODE", "online", "locked to 'offline'")],
            id="a locked variable",
        ),
        pytest.param({"field": "env.MODE", "locked": "offline"}, {"env": {"MODE": "offline"}}, [], id="as locked"),
        pytest.param(
            {"field": "env.MODE", "locked": "offline"},
            {
                "env": {"MODE": "offline"},
                "replicas": {"worker": {"overrides": [{"index": 0, "env": {}}]}},
            },
            [("replicas.worker.overrides[0].env.MODE", None, "locked to 'offline'")],
            id="an override that leaves a locked variable out",
        ),
        pytest.param(
            {"field": "env.MODE", "allowed": ["a", "b"]},
            {"pod_template": container("pytorch", env=[{"name": "MODE", "value": "c"}])},
            [("pod_template.spec.containers[name=pytorch].env.MODE", "c", "one of a, b")],
            id="a variable of the pod template",
        ),
        pytest.param({"field": "num_nodes", "max": 4}, {"num_nodes": 8}, [("num_nodes", 8, "at most 4")], id="nodes"),
        pytest.param(
            {"field": "num_nodes", "max": 4},
            {"num_nodes": None, "num_workers": 4},
            [("num_workers", 5, "at most 4")],
            id="workers count as nodes",
        ),
        pytest.param(
            {"field": "num_nodes", "max": 4},
            {"num_nodes": None, "elastic": {"min_nodes": 1, "max_nodes": 6}},
            [("elastic", 6, "at most 4")],
            id="nodes of an elastic job",
        ),
        pytest.param(
            {"field": "num_nodes", "max": 4},
            {"num_nodes": None, "replicas": {"worker": {"replicas": 5}}},
            [("replicas.worker.replicas", 5, "at most 4")],
            id="nodes by role",
        ),
        pytest.param(
            {"field": "num_nodes", "min": 2, "required": True},
            {"num_nodes": None},
            [("num_nodes", 1, "a value"), ("num_nodes", 1, "at least 2")],
            id="nodes that are not given",
        ),
        pytest.param(
            {"field": "num_proc_per_node", "max": 4},
            {"num_proc_per_node": "gpu"},
            [("num_proc_per_node", "gpu", "at most 4")],
            id="what cannot be compared",
        ),
        pytest.param(
            {"field": "run_policy.backoff_limit", "min": 1},
            {},
            [("run_policy.backoff_limit", 0, "at least 1")],
            id="the spec's own default",
        ),
        pytest.param(
            {"field": "run_policy.active_deadline_seconds", "required": True, "max": 3600},
            {},
            [("run_policy.active_deadline_seconds", None, "a value")],
            id="no value is not compared",
        ),
        pytest.param(
            {"field": "on_finish_action", "required": True},
            {},
            [("on_finish_action", "delete", "a value")],
            id="a default is not given",
        ),
        pytest.param(
            {"field": "framework", "allowed": ["jax"]}, {}, [("framework", "pytorch", "one of jax")], id="framework"
        ),
        pytest.param(
            {"field": "pod_template.spec.hostNetwork", "forbidden": True},
            {"pod_template": {"spec": {"hostNetwork": True}}},
            [("pod_template.spec.hostNetwork", True, "no value")],
            id="a field of the pod",
        ),
        pytest.param(
            {"field": "volumes.*.host_path", "forbidden": True},
            {"checkpoint": {"host_path": "/etc"}},
            [("checkpoint.host_path", "/etc", "no value")],
            id="of a volume, and so of the folder for checkpoints",
        ),
        pytest.param(
            {"field": "volumes.*.claim", "allowed": ["models"]},
            {"checkpoint": {"claim": "others"}},
            [("checkpoint.claim", "others", "one of models")],
            id="of a volume's claim, and so of the one for checkpoints",
        ),
        pytest.param(
            {"field": "replicas.*.volumes", "forbidden": True},
            {"checkpoint": {"claim": "models"}},
            [("checkpoint", {"claim": "models", "host_path": None, "path": None, "scope": "task"}, "no value")],
            id="of all volumes, and so of the folder for checkpoints",
        ),
        pytest.param(
            {"field": "volumes.*.nfs", "forbidden": True},
            {"checkpoint": {"claim": "models"}},
            [],
            id="of other volumes",
        ),
        pytest.param(
            {"field": "checkpoint", "required": True}, {}, [("checkpoint", None, "a value")], id="of checkpoints"
        ),
        pytest.param(
            {"field": "volumes.*.host_path", "forbidden": True},
            {
                "pod_template": {"spec": {"volumes": [{"name": "a"}, {"name": "b", "hostPath": {"path": "/"}}]}},
                "replicas": {"worker": {"volumes": [{"mount_path": "/x", "host_path": "/etc"}]}},
            },
            [
                ("replicas.worker.volumes[0].host_path", "/etc", "no value"),
                ("pod_template.spec.volumes[1].hostPath.path", "/", "no value"),
            ],
            id="a field of each item",
        ),
        pytest.param(
            {"field": "volumes.*.claim", "allowed": ["models"]},
            {
                "volumes": [{"mount_path": "/x", "claim": "models"}],
                "pod_template": {"spec": {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "b"}}]}},
            },
            [("pod_template.spec.volumes[0].persistentVolumeClaim.claimName", "b", "one of models")],
            id="a claim that only the pods' template has",
        ),
        pytest.param(
            {"field": "replicas.*.volumes", "forbidden": True},
            {"pod_template": {"spec": {"volumes": [{"name": "a", "emptyDir": {}}]}}},
            [("pod_template.spec.volumes", [{"name": "a", "emptyDir": {}}], "no value")],
            id="volumes that only the pods' template has",
        ),
        pytest.param(
            {"field": "scheduling.tolerations.*.seconds", "max": 60},
            {"pod_template": {"spec": {"tolerations": [{"operator": "Exists", "tolerationSeconds": 61}]}}},
            [("pod_template.spec.tolerations[0].tolerationSeconds", 61, "at most 60")],
            id="a toleration that only the pods' template has",
        ),
        pytest.param(
            {"field": "replicas.worker.scheduling.tolerations", "forbidden": True},
            {"pod_template": {"spec": {"tolerations": [{"operator": "Exists"}]}}},
            [("pod_template.spec.tolerations", [{"operator": "Exists"}], "no value")],
            id="of one role, and so of the template of all pods",
        ),
        pytest.param(
            {"field": "scheduling.priority_class", "pattern": "batch-.*"},
            {"scheduling": {"priority_class": "serving"}, "replicas": {"worker": {"scheduling": {}}}},
            [("scheduling.priority_class", "serving", "text that matches batch-.*")],
            id="where the pods run",
        ),
        pytest.param(
            {"field": "scheduling.priority_class", "pattern": "batch-.*"},
            {"pod_template": {"spec": {"priorityClassName": "serving"}}},
            [("pod_template.spec.priorityClassName", "serving", "text that matches batch-.*")],
            id="where the pods run, in the pod template",
        ),
        pytest.param(
            {"field": "scheduling.queue_name", "allowed": ["team"]},
            {
                "scheduling": {"queue_name": "other"},
                "replicas": {"worker": {"scheduling": {"priority_class": "batch"}}},
            },
            [("scheduling.queue_name", "other", "one of team")],
            id="what admits the job",
        ),
        pytest.param(
            {"field": "scheduling", "forbidden": True},
            {
                "scheduling": {"queue_name": "q", "gang": "kai"},
                "replicas": {"worker": {"scheduling": {"priority_class": "batch"}}},
            },
            [
                ("scheduling", {"queue_name": "q", "gang": {"scheduler": "kai"}}, "no value"),
                ("replicas.worker.scheduling", {**OF_PODS, "priority_class": "batch"}, "no value"),
            ],
            id="all scheduling, of the job and of a role",
        ),
        pytest.param({"field": "scheduling", "forbidden": True}, {}, [], id="no scheduling"),
        *(
            pytest.param(
                {"field": field, **rule},
                {"scheduling": {"gang": given}},
                [] if allowed else [("scheduling.gang", "kai", text)],
                id=f"{field} {text}, {given}",
            )
            for field in ("scheduling.gang", "scheduling.gang.scheduler")
            for rule, text in (
                ({"locked": "volcano"}, "locked to 'volcano'"),
                ({"allowed": ["volcano", "coscheduling"]}, "one of volcano, coscheduling"),
            )
            for given, allowed in (
                ("volcano", True),
                ({"scheduler": "volcano", "queue": "q"}, True),
                ("kai", False),
                ({"scheduler": "kai"}, False),
            )
        ),
        pytest.param(
            {"field": "scheduling.gang", "required": True},
            {},
            [("scheduling.gang", None, "a value")],
            id="a gang scheduler that is required",
        ),
        *(
            pytest.param(
                {"field": f"run_policy.exit_codes{below}", "locked": locked},
                {"run_policy": {"exit_codes": {"restart": given}}},
                [] if allowed else [(f"run_policy.exit_codes{below}", value, f"locked to {locked!r}")],
                id=f"exit codes {given} locked to {locked}",
            )
            for below, locked, value in (
                (".restart", [76, 75], ["75"]),
                ("", {"restart": ["75-76"]}, {"restart": ["75"], "fail": None}),
            )
            for given, allowed in (([75, 76], True), (["75-76"], True), ([75], False))
        ),
        pytest.param(
            {"field": "scheduling", "required": True},
            {"scheduling": {"queue_name": "q"}},
            [],
            id="a queue is scheduling",
        ),
        pytest.param(
            {"field": "scheduling", "required": True},
            {},
            [("scheduling", None, "a value")],
            id="scheduling that is required",
        ),
        pytest.param(
            {"field": "env.MODE", "locked": "offline"},
            {"env": {"MODE": {"field": "metadata.name"}}},
            [("env.MODE", {"field": "metadata.name"}, "locked to 'offline'")],
            id="a variable from elsewhere",
        ),
    ],
)
def test_a_rule(rule, fields, expected):
    assert violations(rule, **fields) == expected


def test_what_a_node_needs_is_not_for_an_mpi_launcher():
    fields = {"framework": "mpi", "resources_per_node": {"gpu": 4}}

    assert violations({"field": "resources_per_node.gpu", "required": True, "min": 2}, **fields) == []
    fields["replicas"] = {"launcher": {"resources": {"gpu": 9}}}
    assert violations({"field": "resources_per_node.gpu", "max": 8}, **fields) == [
        ("replicas.launcher.resources.gpu", 9, "at most 8")
    ]


def test_all_violations_are_named_with_rule_reason_and_file():
    job = plan_job(parse_spec({**JOB, "env": {"DB_PASSWORD": "planted-7"}, "resources_per_node": {"gpu": 16}}))
    one = policy(
        {"field": "resources_per_node.gpu", "max": 8, "reason": "The nodes have 8."},
        {"field": "env.DB_PASSWORD", "forbidden": True},
    )
    two = policy({"field": "scheduling.queue_name", "required": True, "reason": "Kueue admits all."}, name="two")

    with pytest.raises(PolicyViolation) as caught:
        check_policies([one, two], job)

    assert not caught.value.retryable
    assert str(caught.value) == (
        "Not allowed by the administrator's policies (3 violations); nothing was started:\n"
        "  resources_per_node.gpu: got 16; allowed: at most 8. Reason: The nodes have 8. (policy /policies/one.yaml)\n"
        f"  env.DB_PASSWORD: got '***'; allowed: no value. Reason: {REASON} (policy /policies/one.yaml)\n"
        "  scheduling.queue_name: no value; allowed: a value. Reason: Kueue admits all. (policy /policies/two.yaml)"
    )


def test_many_replicas_are_checked_quickly():
    overrides = [{"index": index, "image": f"good/{index}"} for index in range(256)]
    fields = {"num_nodes": 9000, "replicas": {"worker": {"overrides": overrides}}}

    assert violations(GOOD, **fields) == []


def test_a_subject_without_a_dag():
    assert policy({"field": "image", "required": True}).policy.applies_to.matches(Subject())
