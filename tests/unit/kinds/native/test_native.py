"""Plain Kubernetes: which replicas share a Job, which variables their Pods get, and what the Jobs say afterwards."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from airflow_trainer_provider.errors import SpecError, UnsupportedField
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.base import Facts, Manifest, Rendered, ReplicaRef
from airflow_trainer_provider.kinds.native.blocks import addresses_of, blocks
from airflow_trainer_provider.kinds.native.native import NATIVE, native
from airflow_trainer_provider.kinds.objects.ssh import new_key_pair
from tests.golden_files import assert_golden
from tests.unit.kinds.specs import KEYS, SPECS, job_of, meta

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
FIRST_RANK = "airflow-trainer-provider/first-rank"
WAITED_FOR = "airflow-trainer-provider/waited-for"

#: Jobs whose replicas get their ranks in all the ways there are.
LAYOUTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{framework: (framework, {}) for framework in SPECS},
    "many": ("pytorch", {"num_nodes": 12}),
    "master alone": ("pytorch", {"num_nodes": 1}),
    "workers only": ("pytorch", {"num_nodes": None, "replicas": {"worker": {"replicas": 3}}}),
    "elastic": ("pytorch", {"num_nodes": None, "elastic": {"min_nodes": 2, "max_nodes": 3}}),
    "another master": ("xgboost", {"replicas": {"master": {"args": ["--track"]}}}),
    "another first worker": ("tensorflow", {"replicas": {"worker": {"overrides": [{"index": 0, "args": []}]}}}),
    "another worker in between": (
        "pytorch",
        {"num_nodes": 6, "replicas": {"worker": {"overrides": [{"index": 2, "resources": {"cpu": 4}}]}}},
    ),
    "another MPI worker": ("mpi", {"num_nodes": 4, "replicas": {"worker": {"overrides": [{"index": 1, "env": {}}]}}}),
    "a last worker of its own": ("jax", {"replicas": {"worker": {"overrides": [{"index": 1, "image": "other:2"}]}}}),
}


def rendered(job: JobPlan, name: str = "train") -> Rendered:
    return native(lambda: KEYS).renderer.render(job, meta(job, name), Facts())


def jobs_of(objects: Rendered) -> list[Manifest]:
    return [manifest for manifest in objects.after if manifest["kind"] == "Job"]


def pods_of(objects: Rendered) -> list[Manifest]:
    """The Pods that the Jobs' controller makes."""
    pods = []
    for job in jobs_of(objects):
        for index in range(job["spec"]["completions"]):
            template = job["spec"]["template"]
            labels = {**template["metadata"]["labels"], INDEX_LABEL: str(index)}
            spec = {**template["spec"], "hostname": f"{job['metadata']['name']}-{index}"}
            pods.append({"metadata": {"labels": labels}, "spec": spec})
    return pods


def environment(pod: Manifest) -> dict[str, str]:
    """The variables of the Pod's training, as the kubelet expands them."""
    env: dict[str, str] = {}
    for variable in pod["spec"]["containers"][0]["env"]:
        if "valueFrom" in variable:
            path = variable["valueFrom"]["fieldRef"]["fieldPath"]
            if "annotations" in path:
                continue
            label = re.fullmatch(r"metadata\.labels\['(.+)'\]", path)
            assert label, path
            env[variable["name"]] = pod["metadata"]["labels"][label[1]]
        else:
            env[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda match: env.get(match[1], match[0]), variable["value"])
    return env


def layout(name: str) -> JobPlan:
    framework, fields = LAYOUTS[name]
    return job_of(framework, **fields)


@pytest.mark.parametrize("framework", SPECS)
def test_the_rendered_objects_are_those_of_the_golden_file(framework):
    job = job_of(framework)
    documents = [*(objects := native(lambda: KEYS).renderer.render(job, meta(job), Facts())).before, objects.main]
    assert_golden(f"native/{framework}.yaml", yaml.safe_dump_all([*documents, *objects.after], sort_keys=False))


def test_manifests_of_a_replica_with_settings_of_its_own():
    override = {"index": 1, "image": "registry.example/train:2", "env": {"STAGE": "trial"}}
    job = job_of("jax", num_nodes=3, replicas={"worker": {"overrides": [override]}}, run_policy={"backoff_limit": 2})
    objects = native(lambda: KEYS).renderer.render(job, meta(job), Facts())
    assert_golden("native/jax-override.yaml", yaml.safe_dump_all([objects.main, *objects.after], sort_keys=False))


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_pod_is_one_replica_and_gets_its_rank(name):
    job = layout(name)
    objects = rendered(job)
    addresses = addresses_of("train", blocks(job))
    pods = pods_of(objects)
    refs = [NATIVE.replica_ref(pod, objects.main) for pod in pods]
    assert refs == [ReplicaRef(replica.group, replica.index) for replica in job.replicas]
    for pod, replica in zip(pods, job.replicas, strict=True):
        container, env = pod["spec"]["containers"][0], environment(pod)
        framework = job.framework.environment(job, replica, addresses)
        assert {key: env[key] for key in framework} == framework
        assert {key: env[key] for key in replica.env} == replica.env
        assert (container["image"], container.get("workingDir")) == (replica.image, replica.working_dir)
        assert env["TRAINER_REPLICA"] in (replica.name, f"rank-{replica.rank}")
        # Where the others look for it.
        domain = f".{pod['spec']['subdomain']}" if replica.rank else ""
        assert addresses[replica.name].host == pod["spec"]["hostname"] + domain
        if job.framework.role(replica.group).runs_command:
            words = (*container["command"], *container.get("args", ()))
            assert words[-len(replica.argv) :] == replica.argv
            assert job.framework.name == "mpi" or words == replica.argv


@pytest.mark.parametrize("name", LAYOUTS)
def test_rank_0_has_a_name_of_its_own(name):
    objects = rendered(layout(name))
    (service,) = (manifest for manifest in objects.after if manifest["kind"] == "Service")
    pods = pods_of(objects)
    selector = service["spec"]["selector"].items()
    assert [selector <= pod["metadata"]["labels"].items() for pod in pods] == [True] + [False] * (len(pods) - 1)
    assert service["metadata"]["name"] == pods[0]["spec"]["hostname"]
    # A task that looks for its jobs by their labels must not take it for one.
    assert service["metadata"]["labels"] == {"airflow-trainer-provider/job": "train"}
    selector = objects.main["spec"]["selector"].items()
    assert all(selector <= pod["metadata"]["labels"].items() for pod in pods)


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("pytorch", {"train": 2}),
        ("many", {"train": 12}),
        ("master alone", {"train-master": 1}),
        ("workers only", {"train-worker": 3}),
        ("elastic", {"train-worker": 3}),
        ("xgboost", {"train": 3}),
        ("another master", {"train-master": 1, "train-worker-0": 1, "train-worker-1": 1}),
        ("tensorflow", {"train-chief": 1, "train-worker": 2, "train-ps": 1, "train-evaluator": 1}),
        (
            "another first worker",
            {"train-chief": 1, "train-worker-0": 1, "train-worker-1": 1},
        ),
        ("another worker in between", {"train": 3, "train-worker-2": 1, "train-worker-3": 1, "train-worker-4": 1}),
        ("mpi", {"train-launcher": 1, "train-worker": 2}),
        ("jax", {"train-worker": 2}),
        ("paddle", {"train-worker-0": 1, "train-worker-1": 1}),
        ("a last worker of its own", {"train-worker-0": 1, "train-worker-1": 1}),
    ],
)
def test_replicas_share_a_job_where_they_can(name, jobs):
    assert {job["metadata"]["name"]: job["spec"]["completions"] for job in jobs_of(rendered(layout(name)))} == jobs


@pytest.mark.parametrize("name", LAYOUTS)
def test_names_fit(name):
    job = layout(name)
    limit = NATIVE.renderer.name_limit(job)
    longest = "x" * limit
    objects = rendered(job, longest)
    hosts = [pod["spec"]["hostname"] for pod in pods_of(objects)]
    assert max(map(len, hosts)) + len("-abcde") == 63
    assert len(set(hosts)) == len(hosts)
    assert all(re.fullmatch(r"[a-z]([-a-z0-9]{0,62})", host) for host in hosts)


def test_roles_that_are_not_waited_for_are_marked():
    marks = {
        job["metadata"]["name"]: job["metadata"]["labels"][WAITED_FOR]
        for job in jobs_of(rendered(layout("tensorflow")))
    }
    assert marks == {
        "train-chief": "true",
        "train-worker": "true",
        "train-ps": "false",
        "train-evaluator": "false",
    }


def test_without_restarts_the_first_failure_ends_a_job_and_a_lost_node_is_distinguished():
    (spec,) = (job["spec"] for job in jobs_of(rendered(job_of("jax"))))
    assert (spec["backoffLimit"], spec["template"]["spec"]["restartPolicy"]) == (0, "Never")
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onPodConditions"][0]["type"]) == ("FailJob", "DisruptionTarget")
    assert spec["activeDeadlineSeconds"] == 3600


def test_a_deadline_is_not_over_before_its_time():
    (spec,) = (job["spec"] for job in jobs_of(rendered(job_of("jax", run_policy={"active_deadline_seconds": 0.5}))))
    assert spec["activeDeadlineSeconds"] == 1


@pytest.mark.parametrize(
    ("framework", "fields", "restarts"),
    [
        ("jax", {"run_policy": {"backoff_limit": 2}}, 2),
        ("pytorch", LAYOUTS["elastic"][1], 3),
        ("pytorch", {**LAYOUTS["elastic"][1], "run_policy": {"backoff_limit": 1}}, 4),
    ],
)
def test_each_replica_has_its_own_restarts(framework, fields, restarts):
    (spec,) = (job["spec"] for job in jobs_of(rendered(job_of(framework, **fields))))
    assert (spec["backoffLimitPerIndex"], spec["maxFailedIndexes"]) == (restarts, 0)
    assert spec["backoffLimit"] == restarts * spec["completions"]
    (attempt,) = (
        each for each in spec["template"]["spec"]["containers"][0]["env"] if each["name"] == "TRAINER_ATTEMPT"
    )
    assert "job-index-failure-count" in attempt["valueFrom"]["fieldRef"]["fieldPath"]


def test_exit_codes_fail_the_jobs_that_run_the_script_and_an_eviction_is_no_exit_code():
    policy = {"backoff_limit": 2, "exit_codes": {"restart": [75, "254-255"]}}

    objects = rendered(job_of("mpi", run_policy=policy))

    worker, launcher = sorted(jobs_of(objects), key=lambda job: job["metadata"]["name"], reverse=True)
    assert "podFailurePolicy" not in worker["spec"]
    evicted, killed, code = launcher["spec"]["podFailurePolicy"]["rules"]
    assert evicted == {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    # A suspension ends the process so, and the Job with it, if these were codes like others.
    values = {"containerName": "train", "operator": "In", "values": [137, 143]}
    assert killed == {"action": "Count", "onExitCodes": values}
    values = {"containerName": "train", "operator": "NotIn", "values": [75, 254, 255]}
    assert code == {"action": "FailJob", "onExitCodes": values}
    written = objects.main["metadata"]["annotations"]["airflow-trainer-provider/exit-codes"]
    assert written == '{"restart":["75","254-255"]}'


def test_the_users_own_pod_template_is_kept():
    template = {
        "metadata": {"annotations": {"team": "vision"}},
        "spec": {
            "volumes": [{"name": "data", "emptyDir": {}}],
            "initContainers": [{"name": "fetch", "image": "fetch:1"}],
            "containers": [{"name": "train", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        },
    }
    job = job_of("mpi", pod_template=template, replicas={"launcher": {"resources": {"cpu": 1}}})
    launcher = jobs_of(rendered(job))[0]["spec"]["template"]
    assert launcher["metadata"]["annotations"] == {"team": "vision"}
    assert [volume["name"] for volume in launcher["spec"]["volumes"]] == [
        "data",
        "trainer-files",
        "trainer-ssh",
        "trainer-ssh-own",
    ]
    assert [each["name"] for each in launcher["spec"]["initContainers"]] == ["fetch", "wait-for-ssh"]
    assert launcher["spec"]["containers"][0]["volumeMounts"][0] == {"name": "data", "mountPath": "/data"}
    assert launcher["spec"]["initContainers"][1]["resources"] == launcher["spec"]["containers"][0]["resources"]


def test_the_launcher_asks_for_nothing_that_is_for_the_nodes():
    job = job_of("mpi", num_nodes=2, resources_per_node={"gpu": 8})

    containers = [
        container
        for pod in pods_of(rendered(job))
        for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
    ]
    limits = [container.get("resources", {}).get("limits", {}) for container in containers]
    assert sum(int(limit.get("nvidia.com/gpu", 0)) for limit in limits) == 16


def test_each_job_has_a_key_pair_of_its_own():
    job = job_of("mpi")
    secrets = [
        manifest["stringData"]
        for _ in range(2)
        for manifest in NATIVE.renderer.render(job, meta(job), Facts()).after
        if manifest["kind"] == "Secret"
    ]
    assert secrets[0]["key"] != secrets[1]["key"]
    keys = new_key_pair()
    assert keys.private.startswith("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert re.fullmatch(r"ssh-ed25519 [A-Za-z0-9+/=]+", keys.public)


def test_there_is_no_key_where_nothing_needs_one():
    for framework in SPECS.keys() - {"mpi"}:
        assert {manifest["kind"] for manifest in rendered(job_of(framework)).after} == {"Job", "Service"}


def test_a_queue_takes_what_is_one_job():
    (job,) = jobs_of(rendered(job_of("pytorch", scheduling=QUEUE)))
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"
    NATIVE.renderer.check(job_of("pytorch", scheduling=QUEUE))


QUEUE = {"queue_name": "team-a"}
OVERRIDE = {"worker": {"overrides": [{"index": 1, "env": {}}]}}


@pytest.mark.parametrize(
    ("framework", "fields", "field", "fix"),
    [
        ("jax", {"runtime_ref": "torch-distributed"}, "runtime_ref", "Drop runtime_ref, or use backend='trainer'."),
        ("tensorflow", {"scheduling": QUEUE}, "scheduling.queue_name", "drop scheduling.queue_name"),
        ("jax", {"scheduling": QUEUE, "replicas": OVERRIDE}, "scheduling.queue_name", "drop scheduling.queue_name"),
        ("paddle", {"scheduling": QUEUE}, "scheduling.queue_name", "drop scheduling.queue_name"),
        ("mpi", {"replicas": {"worker": {"working_dir": "/srv"}}}, "replicas.worker.working_dir", "of the job"),
        ("jax", {"pod_template": {"spec": {"subdomain": "x"}}}, "pod_template.spec.subdomain", "Drop subdomain."),
        (
            "jax",
            {"run_policy": {"clean_pods": "None"}},
            "run_policy.clean_pods",
            "backend 'training-operator'",
        ),
    ],
)
def test_what_cannot_be_expressed_is_refused(framework, fields, field, fix):
    with pytest.raises(UnsupportedField) as caught:
        NATIVE.renderer.check(job_of(framework, **fields))
    (problem,) = caught.value.problems
    assert caught.value.backend == "native"
    assert problem.field == field
    assert fix in problem.fix


def test_an_image_is_needed():
    with pytest.raises(SpecError, match="image"):
        NATIVE.renderer.check(job_of("jax", image=None))


@pytest.mark.parametrize("name", LAYOUTS)
def test_everything_else_is_taken(name):
    NATIVE.renderer.check(layout(name))


def test_pods_that_are_none_of_the_replicas_have_no_reference():
    main = rendered(job_of("jax")).main
    assert NATIVE.replica_ref({"metadata": {}}, main) is None
    assert NATIVE.replica_ref({"metadata": {"labels": {INDEX_LABEL: "0"}}}, main) is None
    assert NATIVE.replica_ref({"metadata": {"labels": {INDEX_LABEL: "0", FIRST_RANK: "2"}}}, main) is None
    assert NATIVE.groups(main) == {"worker": 2}


def test_a_launcher_whose_settings_are_its_workers_has_a_job_of_its_own():
    job = job_of("mpi", command=None, args=(), resources_per_node=None)

    sizes = {each["metadata"]["name"]: each["spec"]["completions"] for each in jobs_of(rendered(job))}

    assert sizes == {"train-launcher": 1, "train-worker": 2}


@pytest.mark.parametrize(("field", "value"), [("hostname", "x"), ("subdomain", "x"), ("setHostnameAsFQDN", True)])
def test_the_backend_itself_sets_host_names(field, value):
    with pytest.raises(UnsupportedField) as caught:
        NATIVE.renderer.check(job_of("jax", pod_template={"spec": {field: value}}))

    (problem,) = caught.value.problems
    assert (problem.field, problem.fix) == (f"pod_template.spec.{field}", f"Drop {field}.")
