"""Settings of MPI's launcher: what each backend makes of them, and what it refuses."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import Problem, UnsupportedField
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.kinds.base import Facts, Manifest
from airflow_trainer_provider.kinds.mpi_operator.mpijob import MPIJOB_V2BETA1
from airflow_trainer_provider.kinds.registry import kind_for
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.spec import parse_spec
from tests.golden_files import assert_golden
from tests.unit.kinds.specs import job_of, meta
from tests.unit.kinds.test_fields import KEYED
from tests.unit.kinds.trainer.test_trainjob import named


def objects_of(backend: str, launcher: Any, facts: Facts | None = None, **fields: Any) -> list[Manifest]:
    job = job_of("mpi", launcher=launcher, **fields)
    ClusterBackend(backend, None, "default").check(job)
    kind = kind_for(backend, job)
    rendered = KEYED.get(kind.key, kind).renderer.render(job, meta(job, "train"), facts or Facts())
    return [*rendered.before, rendered.main, *rendered.after]


def mpijob(launcher: Any, **fields: Any) -> Manifest:
    (main,) = objects_of("mpi-operator", launcher, **fields)
    return main["spec"]


def container_of(spec: Manifest, group: str) -> Manifest:
    return spec["mpiReplicaSpecs"][group]["template"]["spec"]["containers"][0]


def init_containers_of(value: Any) -> Iterator[Manifest]:
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from init_containers_of(each)
    if isinstance(value, dict):
        yield from value.get("initContainers", ())


@pytest.mark.parametrize(
    ("backend", "name", "launcher"),
    [
        ("mpi-operator", "intel", {"name": "mpirun", "implementation": "Intel", "is_node": True}),
        ("mpi-operator", "mpich", {"implementation": "MPICH", "ssh_mount_path": "/home/mpiuser/.ssh"}),
        ("native", "launcher-as-node", {"is_node": True}),
        ("trainer", "launcher-as-node", {"is_node": True}),
    ],
)
def test_a_launch_that_is_not_the_default_in_the_objects_of_each_backend(backend, name, launcher):
    documents = objects_of(backend, launcher)

    assert_golden(f"{backend}/{name}.yaml", yaml.safe_dump_all(documents, sort_keys=False, width=120))


@pytest.mark.parametrize("implementation", ["Intel", "MPICH"])
def test_hydras_mpirun_is_given_the_variables_and_the_number_of_ranks(implementation):
    spec = mpijob({"implementation": implementation}, num_nodes=3)
    command = container_of(spec, "Launcher")["command"]

    assert spec["mpiImplementation"] == implementation
    assert "OMPI_ALLOW_RUN_AS_ROOT" not in yaml.safe_dump(spec)
    start = command.index("mpirun")
    assert command[start : start + 2] == ["mpirun", "-genvlist"]
    assert {"STAGE", "TRAINER_RESULT_PATH"} <= {*command[start + 2].split(",")}
    # Three workers with two processes each.
    assert command[start + 3 :] == ["-n", "6", "python", "train.py", "--epochs", "4"]
    # The hostfile has host:slots.
    assert command[2].count("IFS=: read -r host _") == command[2].count("read -r host _") == 2


def test_hydras_own_options_are_the_users():
    command = container_of(mpijob({"implementation": "MPICH"}, command=["mpirun", "-n", "2", "x"]), "Launcher")[
        "command"
    ]

    assert command[command.index("mpirun") :] == ["mpirun", "-n", "2", "x", "--epochs", "4"]


@pytest.mark.parametrize(
    ("implementation", "variable"), [("Intel", "I_MPI_PERHOST"), ("MPICH", "HYDRA_HOST_FILE"), ("OpenMPI", "X")]
)
def test_variables_that_the_operator_sets_for_the_implementation(implementation, variable):
    if variable == "X":
        mpijob({"implementation": implementation}, env={"HYDRA_HOST_FILE": "x"})
        return
    with pytest.raises(UnsupportedField, match=variable):
        mpijob({"implementation": implementation}, env={variable: "x"})


def test_open_mpi_is_what_a_job_has_anyway():
    assert mpijob({"implementation": "OpenMPI"}) == mpijob("auto")


def test_a_launcher_that_is_a_node_of_the_operator():
    spec = mpijob({"is_node": True}, num_nodes=3, resources_per_node={"gpu": 2})

    assert spec["runLauncherAsWorker"] is True
    assert spec["mpiReplicaSpecs"]["Worker"]["replicas"] == 2
    assert container_of(spec, "Launcher")["resources"] == container_of(spec, "Worker")["resources"]
    assert "getent hosts" in container_of(spec, "Launcher")["command"][2]
    assert mpijob({"is_node": True}, num_nodes=1)["mpiReplicaSpecs"].keys() == {"Launcher"}
    assert MPIJOB_V2BETA1.groups({"spec": spec}) == {"launcher": 1, "worker": 2}


def test_a_user_of_the_images_own():
    spec = mpijob({"ssh_mount_path": "/home/mpiuser/.ssh/"}, pod={"security": {"run_as_user": 1000}})

    assert spec["sshAuthMountPath"] == "/home/mpiuser/.ssh"
    assert container_of(spec, "Worker")["command"][-1] == "/home/mpiuser/.sshd_config"


@pytest.mark.parametrize("backend", ["native", "trainer"])
def test_hosts_of_a_launcher_that_is_a_node(backend):
    objects = objects_of(backend, {"is_node": True}, num_nodes=2)

    (hosts,) = [each["data"]["hostfile"] for each in objects if each["kind"] == "ConfigMap"]
    assert ["launcher" in line for line in hosts.splitlines()] == [True, False]
    # What waits for ssh servers waits for none in its own pod.
    (waiting,) = [each for each in init_containers_of(objects) if each["name"] == "wait-for-ssh"]
    (host,) = waiting["command"][4:]
    assert "launcher" not in host


def test_the_only_node_of_a_train_job():
    runtime, main, *_ = objects_of("trainer", {"is_node": True}, num_nodes=1)

    steps = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert [(each["name"], "dependsOn" in each) for each in steps] == [("launcher", False)]
    assert main["spec"]["trainer"] == {"numNodes": 1}


def test_settings_beside_a_runtime():
    facts = Facts(runtime=copy.deepcopy(named("trainer-test-mpi")))
    launcher = {"is_node": True, "ssh_mount_path": "/home/trainee/.ssh"}

    runtime, main = objects_of("trainer", launcher, facts, runtime_ref="mpi", num_nodes=3)

    mpi = runtime["spec"]["mlPolicy"]["mpi"]
    assert (mpi["runLauncherAsNode"], mpi["sshAuthMountPath"]) == (True, "/home/trainee/.ssh")
    assert main["spec"]["trainer"] == {"numNodes": 3, "numProcPerNode": 2}


def test_a_task_may_say_that_the_launcher_is_no_node_where_the_runtime_says_it_is():
    job = job_of("mpi", launcher={"is_node": False, "implementation": "OpenMPI"}, runtime_ref="mpi")
    facts = Facts(runtime=named("trainer-test-mpi"))

    whole = kind_for("trainer", job).renderer.with_runtime(job, facts)

    assert not whole.framework.trains("launcher")


def problem_of(backend: str, launcher: dict[str, Any], **fields: Any) -> Problem:
    job = plan_job(parse_spec({"framework": "mpi", "command": ["sh"], "launcher": launcher}))
    checked = LocalBackend("/nowhere", 0.05, None)
    if backend != "local":
        job, checked = job_of("mpi", launcher=launcher, **fields), ClusterBackend(backend, None, "default")
    with pytest.raises(UnsupportedField, match=f"'{backend}'") as caught:
        checked.check(job)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("backend", "launcher", "fields"),
    [
        *(
            (backend, {"implementation": "Intel"}, {})
            for backend in ("trainer", "training-operator", "native", "local")
        ),
        ("trainer", {"implementation": "MPICH"}, {"runtime_ref": "mpi"}),
        *((backend, {"is_node": True}, {}) for backend in ("training-operator", "local")),
        *(
            (backend, {"ssh_mount_path": "/x/.ssh"}, {})
            for backend in ("trainer", "training-operator", "native", "local")
        ),
    ],
)
def test_a_setting_that_a_backend_cannot_carry_out(backend, launcher, fields):
    problem = problem_of(backend, launcher, **fields)

    ((name, value),) = launcher.items()
    assert (problem.field, problem.value) == (f"launcher.{name}", value)
    assert "mpi-operator" in problem.fix
