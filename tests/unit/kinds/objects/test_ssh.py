"""How a launcher reaches its workers by ssh: with the job's own key, and as the pods' user."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from airflow_trainer_provider.kinds.base import Facts, Manifest, Rendered
from airflow_trainer_provider.kinds.objects.labels import PRIVATE_KEY
from airflow_trainer_provider.kinds.registry import BACKENDS, kind_for
from tests.unit.kinds.objects.test_pod import templates_of
from tests.unit.kinds.specs import SPECS, job_of, meta

BOTH = pytest.mark.parametrize("backend", ["native", "trainer"])


def rendered(backend: str, **fields: Any) -> Rendered:
    job = job_of("mpi", **fields)
    kind = kind_for(backend, job)
    kind.renderer.check(job)
    return kind.renderer.render(job, meta(job, "train"), Facts())


def objects_of(job: Rendered) -> list[Manifest]:
    return [*job.before, job.main, *job.after]


def secret_of(job: Rendered) -> Manifest:
    return next(each for each in objects_of(job) if each["kind"] == "Secret")


@BOTH
def test_the_client_takes_no_other_host_key_than_the_jobs(backend):
    objects = rendered(backend)
    settings = secret_of(objects)["stringData"]

    assert "StrictHostKeyChecking yes" in settings["config"]
    assert "Port 2222" in settings["config"]
    (known_hosts,) = [line.split()[1] for line in settings["config"].splitlines() if "UserKnownHostsFile" in line]
    host, *public = settings["known_hosts"].split()
    assert (known_hosts, host) == ("/run/sshd/trainer/known_hosts", "*")
    assert public == settings["authorized_keys"].split()
    text = yaml.safe_dump_all(objects_of(objects))
    assert "StrictHostKeyChecking=no" not in text
    assert "StrictHostKeyChecking no" not in text


@BOTH
def test_every_pod_runs_as_the_user_of_the_pod_template(backend):
    context = {"runAsUser": 5000, "runAsGroup": 5000}
    pods = list(templates_of(objects_of(rendered(backend, pod_template={"spec": {"securityContext": context}}))))

    for pod in pods:
        assert pod["spec"]["securityContext"] == context
        containers = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]
        assert not any("securityContext" in container for container in containers)
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        assert volumes["trainer-ssh"]["secret"] == {"secretName": "train-ssh", "defaultMode": 0o444}
    assert len(pods) == 2


@BOTH
def test_mpirun_of_either_version_calls_the_client_with_the_jobs_settings(backend):
    for pod in templates_of(objects_of(rendered(backend))):
        variables = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
        assert variables["OMPI_MCA_plm_rsh_agent"] == "ssh -F /run/sshd/trainer/config"
        assert variables["PRTE_MCA_plm_ssh_agent"] == "ssh -F /run/sshd/trainer/config"


@pytest.mark.parametrize("backend", ["native", "trainer", "mpi-operator"])
def test_the_secret_with_the_private_key_is_named_for_its_deletion(backend):
    objects = rendered(backend)

    # That of the MPI Operator is made by the operator.
    assert objects.main["metadata"]["annotations"][PRIVATE_KEY] == "train-ssh"
    if backend != "mpi-operator":
        assert secret_of(objects)["metadata"]["name"] == "train-ssh"


def test_jobs_without_a_key_name_none():
    for backend, kinds in BACKENDS.items():
        for framework in SPECS.keys() - {"mpi"}:
            if any(framework in kind.frameworks for kind in kinds):
                job = job_of(framework)
                main = kind_for(backend, job).renderer.render(job, meta(job), Facts()).main
                assert PRIVATE_KEY not in main["metadata"]["annotations"]
