"""What a job has from the ML policy of its runtime, and what it does not."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_trainer_provider.cluster.operations.order import order_of
from airflow_trainer_provider.errors import SpecError, UnsupportedField
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.base import Facts, Manifest, Rendered
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.trainer.trainjob import TRAINJOB
from airflow_trainer_provider.spec import parse_spec
from tests.golden_files import assert_golden

IDENTITY = Identity(dag_id="nightly", run_id="monday", task_id="train")
_RUNTIMES = Path(__file__).parents[3] / "cluster" / "manifests" / "runtimes.yaml"
_GPUS = {"limits": {"nvidia.com/gpu": 8}}


def facts(policy: Manifest, name: str = "torch", **container: Any) -> Facts:
    runtimes = {each["metadata"]["name"]: each for each in yaml.safe_load_all(_RUNTIMES.read_text())}
    runtime = copy.deepcopy(runtimes[f"trainer-test-{name}"])
    runtime["spec"]["mlPolicy"] = policy
    for step in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
        step["template"]["spec"]["template"]["spec"]["containers"][0].update(container)
    return Facts(runtime=runtime)


def job(framework: str = "pytorch", **fields: Any) -> JobPlan:
    return plan_job(parse_spec({"framework": framework, "command": ["python", "t.py"], "runtime_ref": "r", **fields}))


def whole(policy: Manifest, framework: str = "pytorch", **fields: Any) -> JobPlan:
    return TRAINJOB.renderer.with_runtime(
        job(framework, **fields), facts(policy, "mpi" if framework == "mpi" else "torch")
    )


def rendered(of: JobPlan, known: Facts) -> Rendered:
    return order_of(TRAINJOB, "ns", of, IDENTITY).render("nightly-train-0123456789-1", known)


def step(objects: Rendered, name: str = "node") -> Manifest:
    steps = objects.before[0]["spec"]["template"]["spec"]["replicatedJobs"]
    return next(each for each in steps if each["name"] == name)


def container(objects: Rendered, name: str = "node") -> Manifest:
    return step(objects, name)["template"]["spec"]["template"]["spec"]["containers"][0]


def variables(objects: Rendered) -> dict[str, Any]:
    return {each["name"]: each.get("value") for each in container(objects)["env"]}


def golden(name: str, objects: Rendered) -> None:
    documents = [*objects.before, objects.main]
    assert_golden(f"trainer/{name}.yaml", yaml.safe_dump_all(documents, sort_keys=False, width=120))


def test_what_the_task_leaves_out_is_the_runtimes(caplog):
    caplog.set_level("INFO")
    objects = rendered(job(), facts({"numNodes": 3, "torch": {"numProcPerNode": 2}}))

    assert objects.main["spec"]["trainer"] == {"numNodes": 3}
    assert objects.before[0]["spec"]["mlPolicy"] == {"numNodes": 3}
    assert step(objects)["template"]["spec"]["completions"] == 3
    assert json.loads(objects.main["metadata"]["annotations"][labels.GROUPS]) == {"master": 1, "worker": 2}
    assert labels.RANKED not in objects.main["metadata"]["annotations"]
    assert (variables(objects)["PET_NNODES"], variables(objects)["PET_NPROC_PER_NODE"]) == ("3", "2")
    assert caplog.messages[:1] == ["Runtime r gives what the task leaves out: num_nodes=3, num_proc_per_node=2."]
    golden("runtime-policy", objects)


def test_a_later_try_finds_the_job_by_what_the_task_gave():
    order = order_of(TRAINJOB, "ns", job(), IDENTITY)
    objects = order.render(order.name, facts({"numNodes": 3, "torch": {"numProcPerNode": 2}}))

    assert objects.main["metadata"]["annotations"][labels.DIGEST] == order.digest


@pytest.mark.parametrize(
    ("fields", "nodes", "processes"),
    [
        ({"num_nodes": 1}, 1, 2),
        ({"num_workers": 1}, 2, 2),
        ({"replicas": {"worker": {"replicas": 2}}}, 2, 2),
        ({"elastic": {"min_nodes": 1, "max_nodes": 4}}, 4, 2),
        ({"num_proc_per_node": 1}, 3, 1),
        ({"num_proc_per_node": "gpu", "num_nodes": 2}, 2, "gpu"),
    ],
)
def test_what_the_task_gives_wins(fields, nodes, processes):
    found = whole({"numNodes": 3, "torch": {"numProcPerNode": 2}}, **fields)

    assert (len(found.nodes), found.spec.num_proc_per_node) == (nodes, processes)


@pytest.mark.parametrize(
    ("number", "fields", "resources", "processes"),
    [
        ("gpu", {}, {}, "gpu"),
        ("auto", {}, {}, 1),
        # Trainer 2.3 has no field for the number.
        (None, {"resources_per_node": {"gpu": 4, "cpu": 8}}, {}, 4),
        ("auto", {"resources_per_node": {"gpu": {"habana.ai/gaudi": 2}}}, {}, 2),
        ("auto", {"resources_per_node": {"cpu": "2500m"}}, {}, 3),
        ("auto", {"resources_per_node": {"cpu": {"requests": 2, "limits": 6}}}, {}, 2),
        ("auto", {}, _GPUS, 8),
        ("auto", {"resources_per_node": {"gpu": 2}}, _GPUS, 2),
        ("auto", {}, {"requests": {"cpu": "1e1"}}, 1),
        (
            "auto",
            {"pod_template": {"spec": {"containers": [{"name": "train", "resources": {"limits": {"cpu": "4"}}}]}}},
            {},
            4,
        ),
        ("cpu", {"resources_per_node": {"gpu": 4, "cpu": 6}}, {}, 6),
    ],
)
def test_words_for_a_number_of_processes_mean_what_they_mean_to_trainer(number, fields, resources, processes):
    policy = {"torch": {} if number is None else {"numProcPerNode": number}}
    known = facts(policy, **({"resources": resources} if resources else {}))

    assert TRAINJOB.renderer.with_runtime(job(**fields), known).spec.num_proc_per_node == processes


def test_the_elastic_policy_of_the_runtime():
    elastic = {"minNodes": 2, "maxNodes": 4, "maxRestarts": 5}
    objects = rendered(job(), facts({"torch": {"numProcPerNode": 1, "elasticPolicy": elastic}}))

    assert (variables(objects)["PET_NNODES"], variables(objects)["PET_MAX_RESTARTS"]) == ("2:4", "5")
    assert objects.main["spec"]["trainer"] == {"numNodes": 4}
    assert step(objects)["template"]["spec"]["backoffLimit"] == 5
    assert len(whole({"torch": {"elasticPolicy": elastic}}, num_nodes=3).nodes) == 3
    assert whole({"torch": {"elasticPolicy": {"minNodes": 2}}}).spec.elastic.max_nodes == 2


def test_a_launcher_of_the_commands_own_is_not_wrapped_and_finds_the_number_in_a_variable():
    command = ["tune", "run", "full_finetune_distributed", "--config", "llama3/8B"]
    known = facts({"numNodes": 2, "torch": {"numProcPerNode": "auto"}})
    objects = rendered(job(command=command, resources_per_node={"gpu": 8}), known)

    assert container(objects)["command"] == command
    assert (variables(objects)["PET_NNODES"], variables(objects)["PET_NPROC_PER_NODE"]) == ("2", "8")


def test_other_frameworks_take_the_number_of_nodes():
    assert len(whole({"numNodes": 3, "jax": {}}, "jax").nodes) == 3
    assert len(whole({"numNodes": 3}, "xgboost").nodes) == 3
    assert whole({}, "jax").spec.num_nodes is None


@pytest.mark.parametrize(
    ("policy", "framework", "text"),
    [
        ({"flux": {"numProcPerNode": 4}}, "pytorch", "manifest="),
        ({"torch": {"numProcPerNode": 4}}, "jax", "framework='pytorch'"),
        ({"mpi": {"numProcPerNode": 4}}, "pytorch", "framework='mpi'"),
        ({"mpi": {"mpiImplementation": "Intel"}}, "mpi", "no hostfile for Intel"),
        ({"torch": {"elasticPolicy": {"maxNodes": 4, "metrics": [{"type": "Resource"}]}}}, "pytorch", "metrics"),
        ({"torch": {"elasticPolicy": {"minNodes": 4, "maxNodes": 2}}}, "pytorch", "minNodes"),
        ({"torch": {"elasticPolicy": {"minNodes": -2}}}, "pytorch", "minNodes and maxNodes of 1 to 10000"),
        ({"torch": {"elasticPolicy": {"maxNodes": 200_000}}}, "pytorch", "minNodes and maxNodes of 1 to 10000"),
        ({"torch": {"elasticPolicy": {"maxRestarts": 20_000}}}, "pytorch", "maxRestarts of 0 to 10000"),
    ],
)
def test_what_a_job_cannot_have_is_refused(policy, framework, text):
    with pytest.raises(UnsupportedField, match=text) as caught:
        whole(policy, framework)
    assert caught.value.problems[0].field == "runtime_ref"


def test_what_the_runtime_adds_must_suit_the_task():
    elastic = {"torch": {"elasticPolicy": {"maxNodes": 2}}}

    with pytest.raises(SpecError, match="The task leaves elastic, num_proc_per_node to runtime_ref r"):
        whole(elastic, command=["accelerate", "launch", "t.py"])
    with pytest.raises(UnsupportedField, match=r"replicas\.master\.image"):
        whole({"numNodes": 2}, replicas={"master": {"image": "other:1"}})


@pytest.mark.parametrize(
    ("policy", "fields", "processes"),
    [
        ({"numProcPerNode": 4}, {}, 4),
        ({"numProcPerNode": 4}, {"num_proc_per_node": 2}, 2),
        # The API server writes 1 where the runtime says nothing.
        ({"numProcPerNode": 1}, {"resources_per_node": {"gpu": 8}}, 8),
        ({"numProcPerNode": 1}, {"resources_per_node": {"gpu": 8}, "num_proc_per_node": 1}, 1),
        ({}, {}, 1),
    ],
)
def test_mpi_takes_the_slots_of_the_runtime(policy, fields, processes):
    given = {"mpiImplementation": "OpenMPI", "sshAuthMountPath": "/home/mpiuser/.ssh", **policy}
    objects = rendered(job("mpi", **fields), facts({"numNodes": 2, "mpi": given}, "mpi"))

    assert objects.main["spec"]["trainer"] == {"numNodes": 2, "numProcPerNode": processes}
    mpi = objects.before[0]["spec"]["mlPolicy"]["mpi"]
    assert mpi == {**given, "numProcPerNode": processes, "runLauncherAsNode": False}


def test_a_launcher_that_is_a_node():
    policy = {"numNodes": 3, "mpi": {"numProcPerNode": 2, "runLauncherAsNode": True}}
    objects = rendered(job("mpi", resources_per_node={"gpu": 2}), facts(policy, "mpi"))

    assert objects.main["spec"]["trainer"] == {"numNodes": 3, "numProcPerNode": 2}
    assert objects.before[0]["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"] is True
    assert json.loads(objects.main["metadata"]["annotations"][labels.GROUPS]) == {"launcher": 1, "worker": 2}
    assert step(objects)["template"]["spec"]["completions"] == 2
    assert container(objects, "launcher")["resources"] == container(objects)["resources"]
    golden("runtime-launcher-as-node", objects)


def test_a_launcher_that_is_the_only_node():
    policy = {"numNodes": 1, "mpi": {"runLauncherAsNode": True}}
    objects = rendered(job("mpi"), facts(policy, "mpi"))

    steps = objects.before[0]["spec"]["template"]["spec"]["replicatedJobs"]
    assert [each["name"] for each in steps] == ["launcher"]
    assert "dependsOn" not in steps[0]
    assert json.loads(objects.main["metadata"]["annotations"][labels.GROUPS]) == {"launcher": 1}


def test_a_launcher_that_is_a_node_waits_until_its_own_name_resolves_and_for_no_ssh_server_of_its_own(tmp_path):
    policy = {"numNodes": 3, "mpi": {"runLauncherAsNode": True}}
    (sh, option, script, *_) = container(rendered(job("mpi"), facts(policy, "mpi")), "launcher")["command"]
    (tmp_path / "hostfile").write_text("j-node-0-0.j slots=1\nj-launcher-0-0.j slots=1\n")
    agent = _program(tmp_path / "agent", f'echo "$1" >>{tmp_path}/asked')
    _program(tmp_path / "getent", f'echo "$2" >>{tmp_path}/resolved; [ "$(wc -l <{tmp_path}/resolved)" -gt 1 ]')
    env = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "HOSTNAME": "j-launcher-0-0",
        "TRAINER_FILES": str(tmp_path),
        "OMPI_MCA_plm_rsh_agent": str(agent),
        "TRAINER_RESULT_PATH": "/dev/null",
    }

    words = [sh, option, script, "mpi-launcher", "1", "true"]
    ran = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=True)

    assert ran.stderr == ""
    assert "j-launcher-0-0.j" not in (tmp_path / "asked").read_text()
    assert (tmp_path / "resolved").read_text() == "j-launcher-0-0.j\nj-launcher-0-0.j\n"


def _program(file, line):
    file.write_text(f"#!/bin/sh\n{line}\n")
    file.chmod(0o755)
    return file


def test_a_train_job_of_a_manifest_has_a_node_beside_a_launcher_that_is_one():
    known = facts({"numNodes": 1, "mpi": {"runLauncherAsNode": True}}, "mpi").runtime

    assert TRAINJOB.runtime_groups.groups({"spec": {}}, known) == {"launcher": 1, "node": 1}
