"""Gang scheduling, as each backend says it: whole manifests, and what is refused."""

from __future__ import annotations

import pytest
import yaml

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import UnsupportedField
from airflow_trainer_provider.kinds.base import Facts, Manifest
from airflow_trainer_provider.kinds.kubeflow.training_operator import PYTORCHJOB
from airflow_trainer_provider.kinds.mpi_operator.mpijob import MPIJOB_V2BETA1
from airflow_trainer_provider.kinds.native.native import NATIVE
from airflow_trainer_provider.kinds.registry import kind_for, resource_of
from airflow_trainer_provider.kinds.trainer.trainjob import TRAINJOB
from tests.golden_files import assert_golden
from tests.unit.kinds.specs import SPECS, job_of, meta

#: Scheduler -> a gang with all that the scheduler has.
GANGS = {
    "coscheduling": {"timeout_seconds": 120, "min_resources": {"cpu": 4, "nvidia.com/gpu": 4}},
    "volcano": {
        "queue": "research",
        "min_resources": {"nvidia.com/gpu": 4},
        "network_topology": {"mode": "soft", "highest_tier_allowed": 2},
    },
    "kai": {"queue": "research"},
}
#: Backend -> the framework of its jobs here, the fields of a gang that it refuses, and the schedulers.
BACKENDS = {
    "trainer": ("pytorch", {"min_resources"}, ("coscheduling", "volcano", "kai")),
    "training-operator": ("pytorch", {"network_topology"}, ("coscheduling", "volcano", "kai")),
    "mpi-operator": ("mpi", {"network_topology"}, ("coscheduling", "volcano", "kai")),
    "native": ("tensorflow", set(), ("coscheduling", "volcano")),
}
GROUP_LABEL, GROUP_ANNOTATION = "scheduling.x-k8s.io/pod-group", "scheduling.k8s.io/group-name"


def objects_of(
    kind, framework: str = "pytorch", facts: Facts | None = None, name: str = "gang", **scheduling: object
) -> list[Manifest]:
    job = job_of(framework, scheduling=scheduling)
    rendered = kind.renderer.render(job, meta(job, name), facts or Facts())
    return [*rendered.before, rendered.main, *rendered.after]


def refusal(backend: str, framework: str, gang: object, **fields: object):
    with pytest.raises(UnsupportedField) as refused:
        ClusterBackend(backend, None, "default").check(job_of(framework, scheduling={"gang": gang}, **fields))
    (problem,) = refused.value.problems
    return problem


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_rendered_objects_are_those_of_the_golden_file(backend):
    framework, refused, schedulers = BACKENDS[backend]
    documents = []
    for scheduler in schedulers:
        gang = {name: value for name, value in GANGS[scheduler].items() if name not in refused}
        scheduling = {"gang": {"scheduler": scheduler, **gang}}
        if backend != "trainer":
            # Trainer gives the PodGroup the priority of its pods, and its webhook looks whether that exists.
            scheduling["priority_class"] = "batch"
        kind = kind_for(backend, job := job_of(framework, scheduling=scheduling))
        ClusterBackend(backend, None, "default").check(job)
        # An ssh key would be made at random.
        rendered = objects_of(kind, framework, name=f"gang-{scheduler}", **scheduling)
        documents += [each for each in rendered if each["kind"] != "Secret"]

    assert all(resource_of(each) for each in documents)
    assert_golden(f"{backend}/gang.yaml", yaml.safe_dump_all(documents, sort_keys=False, width=120))


def test_the_models_of_trainers_api_know_the_policies():
    from kubeflow_trainer_api import models

    for scheduler in ("coscheduling", "volcano"):
        gang = {name: value for name, value in GANGS[scheduler].items() if name != "min_resources"}
        runtime, job = objects_of(TRAINJOB, gang={"scheduler": scheduler, **gang})

        assert models.TrainerV1alpha1TrainingRuntime.from_dict(runtime).to_dict() == runtime
        assert models.TrainerV1alpha1TrainJob.from_dict(job).to_dict() == job


def test_a_schedulers_name_is_a_gang_of_all_pods():
    for framework in SPECS:
        group = next(each for each in objects_of(NATIVE, framework, gang="volcano") if each["kind"] == "PodGroup")

        assert group["spec"]["minMember"] == len(job_of(framework).replicas)


@pytest.mark.parametrize(
    ("resources", "gang", "least"),
    [
        # Of the master and two workers.
        ({"cpu": "250m", "gpu": 2}, {}, {"cpu": "750m", "nvidia.com/gpu": "6"}),
        ({"memory": {"requests": "1Gi", "limits": "2Gi"}}, {}, {"memory": str(3 * 2**30)}),
        (None, {}, None),
        ({"cpu": 1}, {"min_available": 2}, None),
        ({"cpu": 1}, {"min_resources": {"cpu": 9}}, {"cpu": "9"}),
    ],
)
def test_a_gang_is_not_tried_before_there_is_room_for_all_of_it(resources, gang, least):
    job = job_of("xgboost", resources_per_node=resources, scheduling={"gang": {"scheduler": "coscheduling", **gang}})
    rendered = NATIVE.renderer.render(job, meta(job), Facts())

    (group,) = (each for each in rendered.after if each["kind"] == "PodGroup")
    assert group["spec"].get("minResources") == least
    # Before the pods that name it.
    assert rendered.after.index(group) < [each["kind"] for each in rendered.after].index("Job")


def test_requests_that_are_not_read_here_are_left_to_the_scheduler():
    template = {"spec": {"containers": [{"name": "train", "resources": {"requests": {"cpu": "1e1"}}}]}}
    job = job_of("jax", resources_per_node=None, pod_template=template, scheduling={"gang": "coscheduling"})

    (group,) = (each for each in NATIVE.renderer.render(job, meta(job), Facts()).after if each["kind"] == "PodGroup")
    assert "minResources" not in group["spec"]


def _train(kind, **scheduling: object) -> Manifest:
    """The training's container of the first pod template."""
    spec = objects_of(kind, **scheduling)[0]["spec"]
    if kind is PYTORCHJOB:
        template = spec["pytorchReplicaSpecs"]["Worker"]["template"]
    else:
        template = spec["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    return template["spec"]["containers"][0]


@pytest.mark.parametrize("kind", [TRAINJOB, PYTORCHJOB], ids=lambda kind: kind.key)
def test_what_is_limited_is_requested_so_that_controllers_add_it_up(kind):
    alone, together = _train(kind)["resources"], _train(kind, gang="volcano")["resources"]

    assert alone["limits"] == together["limits"] == {"cpu": "2", "nvidia.com/gpu": "2"}
    assert (alone["requests"], together["requests"]) == ({"cpu": "2"}, alone["limits"])


def test_the_launcher_of_an_mpijob_v2beta1_comes_later_and_is_not_counted():
    (main,) = objects_of(MPIJOB_V2BETA1, "mpi", gang="coscheduling")

    assert main["spec"]["runPolicy"]["schedulingPolicy"] == {"minAvailable": 2}
    assert main["spec"]["launcherCreationPolicy"] == "WaitForWorkersReady"


def test_a_scheduler_that_has_another_name_is_that_of_scheduler_name():
    (main,) = objects_of(PYTORCHJOB, gang="coscheduling", scheduler_name="default-scheduler")

    pod = main["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    assert (pod["spec"]["schedulerName"], pod["metadata"]["labels"][GROUP_LABEL]) == ("default-scheduler", "gang")


def test_the_task_replaces_the_policy_of_a_runtime_and_only_then():
    policy = {"coscheduling": {"scheduleTimeoutSeconds": 9}}
    step = {"name": "node", "template": {"spec": {"template": {"spec": {"containers": [{"name": "node"}]}}}}}
    runtime = {"spec": {"podGroupPolicy": policy, "template": {"spec": {"replicatedJobs": [step]}}}}
    facts = Facts(runtime=runtime)

    kept = objects_of(TRAINJOB, facts=facts)[0]["spec"]
    replaced = objects_of(TRAINJOB, facts=facts, gang={"scheduler": "coscheduling", "timeout_seconds": 7})[0]["spec"]
    kai = objects_of(TRAINJOB, facts=facts, gang="kai")[0]["spec"]

    assert kept["podGroupPolicy"] == policy
    assert replaced["podGroupPolicy"] == {"coscheduling": {"scheduleTimeoutSeconds": 7}}
    assert "podGroupPolicy" not in kai


def test_a_gang_does_not_wait_for_the_end_of_a_runtimes_initializer():
    steps = [{"name": name, "template": {}} for name in ("model-initializer", "node")]
    runtime = {"spec": {"template": {"spec": {"replicatedJobs": steps}}}}

    with pytest.raises(UnsupportedField, match="the step model-initializer"):
        objects_of(TRAINJOB, facts=Facts(runtime=runtime), gang="coscheduling")


@pytest.mark.parametrize(
    ("backend", "framework", "gang", "field", "fix"),
    [
        ("trainer", "jax", {"min_available": 1}, "min_available", "all pods"),
        ("trainer", "jax", {"min_resources": {"cpu": 1}}, "min_resources", "sum of their requests"),
        ("trainer", "mpi", {}, "scheduler", "'mpi-operator' or 'native'"),
        ("training-operator", "jax", {"min_available": 3}, "min_available", "Lower it"),
        ("mpi-operator", "mpi", {"min_available": 3}, "min_available", "Lower it"),
        ("native", "jax", {"min_available": 3}, "min_available", "Lower it"),
    ],
)
def test_what_a_backend_cannot_say_it_refuses(backend, framework, gang, field, fix):
    problem = refusal(backend, framework, {"scheduler": "coscheduling", **gang})

    assert problem.field == f"scheduling.gang.{field}"
    assert fix in problem.fix


_OTHER = {"scheduling": {"scheduler_name": "other"}}
_SAME = {"scheduling": {"scheduler_name": "volcano"}}
_NAMED = "replicas.{}.scheduling.scheduler_name"


def _check_volcano(backend: str, replicas: Manifest, **fields: object) -> None:
    job = job_of("tensorflow", num_nodes=None, replicas=replicas, **fields)
    ClusterBackend(backend, None, "default").check(job)


@pytest.mark.parametrize("backend", ["training-operator", "native"])
@pytest.mark.parametrize(
    ("ps", "worker", "job_wide", "role", "value", "one"),
    [
        ({}, _OTHER, None, "worker", "other", "volcano"),
        (_OTHER, {}, None, "ps", "other", "volcano"),
        (_SAME, {}, "mine", "ps", "volcano", "mine"),
        (_SAME, _OTHER, None, "worker", "other", "volcano"),
    ],
)
def test_one_scheduler_places_all_pods_of_a_gang(backend, ps, worker, job_wide, role, value, one):
    scheduling = {"gang": "volcano", **({"scheduler_name": job_wide} if job_wide else {})}
    replicas = {"ps": {"replicas": 1, **ps}, "worker": {"replicas": 2, **worker}}

    with pytest.raises(UnsupportedField) as refused:
        _check_volcano(backend, replicas, scheduling=scheduling)

    (problem,) = refused.value.problems
    assert (problem.field, problem.value) == (_NAMED.format(role), value)
    assert problem.allowed.startswith(f"{one} beside scheduling.gang")
    assert problem.fix == "Set scheduling.scheduler_name of the job."


@pytest.mark.parametrize(
    ("ps", "worker", "fields"),
    [
        ({}, {}, {"scheduling": {"gang": "volcano", "scheduler_name": "mine"}}),
        ({}, _SAME, {"scheduling": {"gang": "volcano"}}),
        (_OTHER, _OTHER, {"scheduling": {"gang": "volcano"}}),
        (_OTHER, {}, {"scheduling": {"gang": "volcano"}, "pod_template": {"spec": {"schedulerName": "other"}}}),
        (_OTHER, {}, {}),
    ],
)
def test_schedulers_of_roles_that_are_one_or_place_no_gang(ps, worker, fields):
    _check_volcano("native", {"ps": {"replicas": 1, **ps}, "worker": {"replicas": 2, **worker}}, **fields)


@pytest.mark.parametrize("backend", ["training-operator", "mpi-operator"])
def test_a_launcher_has_the_scheduler_of_the_gang(backend):
    """Of v2beta1 it comes once the workers run; the MPI Operator replaces its scheduler all the same."""
    replicas = {"launcher": _OTHER, "worker": {"replicas": 2}}

    problem = refusal(backend, "mpi", "volcano", num_nodes=None, replicas=replicas)

    assert (problem.field, problem.value) == (_NAMED.format("launcher"), "other")
    assert problem.allowed == "volcano beside scheduling.gang, whose scheduler places all pods of the job"


@pytest.mark.parametrize("backend", ["training-operator", "mpi-operator"])
def test_operators_have_no_network_topology(backend):
    problem = refusal(backend, "mpi", {"scheduler": "volcano", "network_topology": {}})

    assert (problem.field, problem.value) == ("scheduling.gang.network_topology", "a value")


@pytest.mark.parametrize(("backend", "framework"), [("native", "jax"), ("training-operator", "paddle")])
def test_kai_is_refused_where_it_does_not_group_the_pods(backend, framework):
    problem = refusal(backend, framework, "kai")

    assert (problem.field, problem.value) == ("scheduling.gang.scheduler", "kai")


@pytest.mark.parametrize(
    ("kind", "framework"), [(PYTORCHJOB, "pytorch"), (MPIJOB_V2BETA1, "mpi")], ids=["v1", "v2beta1"]
)
def test_an_operator_starts_a_gang_with_fewer_pods_than_all(kind, framework):
    (main,) = objects_of(kind, framework, gang={"scheduler": "volcano", "min_available": 1})

    assert main["spec"]["runPolicy"]["schedulingPolicy"] == {"minAvailable": 1}


def test_a_pod_group_starts_with_fewer_pods_than_all():
    objects = objects_of(NATIVE, "xgboost", gang={"scheduler": "volcano", "min_available": 2})

    (group,) = (each for each in objects if each["kind"] == "PodGroup")
    assert group["spec"] == {"minMember": 2}


@pytest.mark.parametrize("backend", ["training-operator", "native"])
def test_a_gang_may_be_of_all_pods(backend):
    gang = {"scheduler": "coscheduling", "min_available": 2}

    ClusterBackend(backend, None, "default").check(job_of("jax", scheduling={"gang": gang}))
