"""The examples of the page on coming from other tools become the jobs that the page says."""

from __future__ import annotations

import re

import pytest
import yaml

import airflow_trainer_provider as provider
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.job.identity import Identity
from tests.unit.named_tests import ROOT
from tests.unit.test_coverage import is_known

TEXT = (ROOT / "docs" / "how-to" / "coming-from.md").read_text()
IDENTITY = Identity(dag_id="d", run_id="r", task_id="t")


def blocks(language):
    """The page's blocks of code."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def tasks():
    """Name -> the operators of the page."""
    names = {}
    for block in blocks("python"):
        if not block.startswith("# theirs"):
            exec(block, {name: getattr(provider, name) for name in provider.__all__}, names)
    return {name: task for name, task in names.items() if isinstance(task, provider.TrainJobOperator)}


def theirs(at):
    return yaml.safe_load(blocks("yaml")[at])


@pytest.fixture(scope="module")
def jobs():
    return {name: task._job() for name, task in tasks().items()}


def objects(task, job):
    backend = ClusterBackend(task.backend, None, "team")
    backend.check(job)
    return {each["kind"]: each for each in yaml.safe_load_all(backend.render(job, IDENTITY))}


@pytest.mark.parametrize("name", ["run_ai", "polyaxon", "training_operator", "trainer"])
def test_an_example_is_rendered(name, jobs):
    task = tasks()[name]

    assert task.task_id == name
    assert objects(task, jobs[name])


def test_run_ai_has_workers_beside_a_master_that_differs(jobs):
    master, *workers = jobs["run_ai"].replicas

    assert [each.group for each in workers] == ["worker"] * 3
    assert (master.resources.gpu, workers[0].resources.gpu) == (None, 2)
    assert master.scheduling == workers[0].scheduling


def test_polyaxons_replicas_are_those_of_its_file(jobs):
    environment = theirs(0)["environment"]
    master, *workers = jobs["polyaxon"].replicas
    default, third = environment["replicas"]["default_worker"], environment["replicas"]["worker"][0]

    assert len(workers) == environment["replicas"]["n_workers"]
    for replica, written in ((master, environment), (workers[0], default), (workers[third["index"]], third)):
        assert replica.resources.gpu == written["resources"].get("gpu", {}).get("limits")
        for bound, amount in written["resources"]["memory"].items():
            assert getattr(replica.resources.memory, bound) == f"{amount}Mi"
        for bound, amount in written["resources"]["cpu"].items():
            assert getattr(replica.resources.cpu, bound) == str(amount)


def test_the_sdks_number_of_workers_counts_the_master_in(jobs):
    count = int(re.search(r"num_workers=(\d+),\n    resources_per_worker", TEXT)[1])
    specs = objects(tasks()["training_operator"], jobs["training_operator"])["PyTorchJob"]["spec"][
        "pytorchReplicaSpecs"
    ]

    assert (specs["Master"]["replicas"], specs["Worker"]["replicas"]) == (1, count - 1)
    assert specs["Worker"]["template"]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}


def test_the_train_job_says_what_theirs_says(jobs):
    theirs_, ours = theirs(1)["spec"], objects(tasks()["trainer"], jobs["trainer"])
    (nodes,) = ours["TrainingRuntime"]["spec"]["template"]["spec"]["replicatedJobs"]
    (container,) = nodes["template"]["spec"]["template"]["spec"]["containers"]
    env = {each["name"]: each.get("value") for each in container["env"]}

    assert ours["TrainJob"]["spec"]["trainer"]["numNodes"] == theirs_["trainer"]["numNodes"]
    assert env["PET_NPROC_PER_NODE"] == theirs_["trainer"]["numProcPerNode"]
    assert (container["image"], container["command"]) == (theirs_["trainer"]["image"], theirs_["trainer"]["command"])
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "4"}
    assert jobs["trainer"].spec.runtime_ref == theirs_["runtimeRef"]["name"]


def test_each_field_that_a_table_names_is_there():
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith("| In ")]
    named = {name for row in rows for name in re.findall(r"`([a-z_]+(?:\.[a-z_]+)*)`", row.split(" | ")[1])}
    # The table of runPolicy's fields names the first one in full.
    shortened = {"backoff_limit", "ttl_seconds_after_finished", "max_nodes", "max_restarts"}
    words = {"auto", "cpu", "gpu", "metrics", "outlets", "env_instructions", *shortened}
    sources = {"claim", "nfs", "s3", "git", "host_path", "config_map", "secret", "new_claim", "empty_dir"}

    assert {name for name in named - words - sources if not is_known(name)} == {"slots_per_worker"}
