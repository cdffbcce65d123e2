"""mpirun reaches the workers by ssh with the job's own keys, as any user of the pods."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from airflow_trainer_provider.errors import UnsupportedField
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.job.diagnosis.diagnosis import diagnose
from airflow_trainer_provider.job.status import JobPhase
from tests.cluster.contract.conftest import ClusterCase
from tests.cluster.contract.jobs import pod_of, verdict
from tests.contract.conftest import Contract

_RANKS = """
from mpi4py import MPI
world = MPI.COMM_WORLD
note("ranks", f"{me}:{os.getuid()}:{os.environ['TOKEN']}:{world.allreduce(1)}")
if world.rank == 0:
    pathlib.Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps({"from": me}))
"""
#: What a launcher of its own finds when it asks for a worker with, and without, the key that the job pins.
_ASKS = """
host = open(os.environ["TRAINER_FILES"] + "/hostfile").readline().split()[0]
client = os.environ["OMPI_MCA_plm_rsh_agent"].split()
for name, options in (("pinned", []), ("unknown", ["-o", "UserKnownHostsFile=/dev/null"])):
    ran = subprocess.run([*client, *options, host, "true"], capture_output=True, text=True)
    note(name, f"{ran.returncode}{ran.stderr.replace(' ', '-')}")
"""
#: mpirun of the MPI Operator hands the launcher's variables on to all ranks: only the hosts' names differ.
_HOSTS = _RANKS.replace("{me}", "{os.uname().nodename}")
#: What Hydra's mpirun would read. The launcher's command begins once all of these answer.
_HYDRA = """
note("hosts", pathlib.Path(os.environ["HOSTS"]).read_text())
"""
#: The user of the image beside root, and the settings of an ssh server of that user's own.
_USER, _HOME = 1000, "/home/mpiuser"
_SSHD_CONFIG = f"""Port 2222
HostKey {_HOME}/.ssh/id_rsa
PidFile /tmp/sshd.pid
StrictModes no
UsePAM no
UseDNS no
"""
#: Trains until it is stopped.
_TRAINS = """
note("began", os.uname().nodename)
time.sleep(3600)
"""
_PASSWD = "root:x:0:0:root:/root:/bin/sh\ntrainee:x:5000:5000::/nowhere:/bin/sh\n"


@pytest.fixture
def ssh_contract(contract: Contract) -> Contract:
    if contract.backend.name not in ("native", "trainer"):
        pytest.skip("the operators have keys of their own, or none")
    return contract


@pytest.fixture
def operator_contract(contract: Contract) -> Contract:
    if contract.backend.name != "mpi-operator":
        pytest.skip("of the MPI Operator only")
    return contract


def _mpi_job(contract: Contract, snippet: str, **fields: Any) -> Any:
    return contract.case.job(snippet, **{"framework": "mpi", "env": {"TOKEN": "t"}, **fields})


@pytest.mark.parametrize("user", [0, 1000])
async def test_the_ranks_run_as_the_pods_user(ssh_contract, user):
    job = _mpi_job(
        ssh_contract, _RANKS, num_proc_per_node=2, pod_spec={"securityContext": {"runAsUser": user, "fsGroup": 7}}
    )

    handle, status = await ssh_contract.run(job)

    assert status.phase is JobPhase.SUCCEEDED, ssh_contract.lines
    assert sorted(ssh_contract.noted("ranks")) == [f"worker-{at // 2}:{user}:t:4" for at in range(4)]
    assert json.loads(await ssh_contract.backend.result(handle)) == {"from": "worker-0"}


async def test_a_user_of_the_images_own_with_a_read_only_root(ssh_contract):
    case = ssh_contract.case
    (case.shared / "passwd").write_text(_PASSWD)
    case.access.kubectl(
        "create", "configmap", "users", f"--from-file={case.shared / 'passwd'}", f"--namespace={case.namespace}"
    )
    spec = {"securityContext": {"runAsUser": 5000, "runAsGroup": 5000}}
    job = _mpi_job(
        ssh_contract,
        _RANKS,
        pod_spec=spec,
        pod_volumes=[{"name": "users", "configMap": {"name": "users"}}, {"name": "tmp", "emptyDir": {}}],
        mounts=[
            {"name": "users", "mountPath": "/etc/passwd", "subPath": "passwd"},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
        container={"securityContext": {"readOnlyRootFilesystem": True}},
    )

    _, status = await ssh_contract.run(job)

    assert status.phase is JobPhase.SUCCEEDED, ssh_contract.lines
    assert sorted(ssh_contract.noted("ranks")) == ["worker-0:5000:t:2", "worker-1:5000:t:2"]


async def test_a_user_that_the_image_does_not_know_is_named(ssh_contract):
    job = _mpi_job(ssh_contract, _RANKS, pod_spec={"securityContext": {"runAsUser": 5000}})

    _, status = await ssh_contract.run(job)

    assert (status.phase, status.first_failed) == (JobPhase.FAILED, "launcher-0"), status
    assert "No user exists for uid 5000" in status.message
    assert "/etc/passwd" in status.message


async def test_the_workers_host_key_is_checked(ssh_contract):
    job = _mpi_job(ssh_contract, _ASKS, launcher="none", nodes=1)

    _, status = await ssh_contract.run(job)

    assert status.phase is JobPhase.SUCCEEDED, ssh_contract.lines
    assert ssh_contract.noted("pinned") == ["0"]
    (unknown,) = ssh_contract.noted("unknown")[:1]
    assert unknown.startswith("255")
    assert "Host-key-verification-failed" in " ".join(ssh_contract.noted("unknown"))


@pytest.mark.parametrize("nodes", [1, 2])
async def test_ranks_run_in_the_launchers_pod_where_it_is_a_node(ssh_contract, nodes):
    job = _mpi_job(ssh_contract, _RANKS, nodes=nodes, num_proc_per_node=2, launcher={"is_node": True})

    handle, status = await ssh_contract.run(job)

    assert status.phase is JobPhase.SUCCEEDED, ssh_contract.lines
    hosts = ["launcher-0", "worker-0"][:nodes]
    assert sorted(ssh_contract.noted("ranks")) == [f"{host}:0:t:{2 * nodes}" for host in hosts for _ in range(2)]
    assert json.loads(await ssh_contract.backend.result(handle)) == {"from": "launcher-0"}


@pytest.mark.parametrize("runtime", [None, "trainer-test-mpi"])
async def test_the_private_key_goes_when_a_kept_job_has_ended(ssh_contract, runtime):
    case = ssh_contract.case
    if runtime and case.backend.name != "trainer":
        pytest.skip("no other backend starts from a runtime")
    # The runtime's sshd listens there.
    fields = {"runtime_ref": runtime, "env": {"OMPI_MCA_plm_rsh_agent": "ssh -p 2222"}} if runtime else {}
    job = _mpi_job(ssh_contract, 'wait_for("go")', on_finish_action="keep", **fields)
    handle = await _has_a_secret_until_collected(ssh_contract, job)
    assert case.pods(handle)


async def _has_a_secret_until_collected(contract, job):
    handle = await contract.submit(job)
    await contract.until(lambda: _secrets(contract))
    contract.release("go")
    status = await contract.end(handle)
    assert status.phase is JobPhase.SUCCEEDED, contract.lines

    await contract.backend.acknowledge(handle)

    assert _secrets(contract) == []
    return handle


def _secrets(contract: Contract) -> list[str]:
    return [each["metadata"]["name"] for each in contract.case.access.kubectl.list("secrets", contract.case.namespace)]


async def test_the_mpi_operator_runs_as_root_only(operator_contract):
    with pytest.raises(UnsupportedField, match="runAsUser"):
        operator_contract.case.job("pass", nodes=1, pod_spec={"securityContext": {"runAsUser": 1000}})


async def test_the_mpi_operators_private_key_goes_too(operator_contract):
    job = operator_contract.case.job('wait_for("go")', nodes=1, on_finish_action="keep")
    await _has_a_secret_until_collected(operator_contract, job)


def _mpirun_job(contract: Contract, snippet: str, **fields: Any) -> Any:
    """A job whose ranks mpirun starts, unlike those of the contract on the MPI Operator."""
    case = contract.case
    plain = ClusterCase(case.backend, case.shared, case.access, case.namespace)
    return plain.job(snippet, **{"framework": "mpi", "env": {"TOKEN": "t"}, **fields})


async def test_the_mpi_operators_launcher_is_a_node_and_runs_as_the_user_whose_keys_it_mounts(operator_contract):
    case = operator_contract.case
    (case.shared / "sshd_config").write_text(_SSHD_CONFIG)
    config = f"--from-file=sshd_config={case.shared / 'sshd_config'}"
    case.access.kubectl("create", "configmap", "sshd", config, f"--namespace={case.namespace}")
    job = _mpirun_job(
        operator_contract,
        _HOSTS,
        num_proc_per_node=2,
        launcher={"implementation": "OpenMPI", "is_node": True, "ssh_mount_path": f"{_HOME}/.ssh"},
        env={"TOKEN": "t", "OMPI_MCA_plm_rsh_agent": "ssh -p 2222"},
        pod={"security": {"run_as_user": _USER}},
        pod_volumes=[{"name": "sshd", "configMap": {"name": "sshd"}}],
        mounts=[{"name": "sshd", "mountPath": f"{_HOME}/.sshd_config", "subPath": "sshd_config"}],
    )

    handle, status = await operator_contract.run(job)

    assert status.phase is JobPhase.SUCCEEDED, operator_contract.lines
    hosts = [f"{handle.name}-{host}" for host in ("launcher", "worker-0")]
    assert sorted(operator_contract.noted("ranks")) == [f"{host}:{_USER}:t:4" for host in hosts for _ in range(2)]
    assert json.loads(await operator_contract.backend.result(handle)) == {"from": "launcher-0"}


@pytest.mark.parametrize(
    ("implementation", "variable"), [("Intel", "I_MPI_HYDRA_HOST_FILE"), ("MPICH", "HYDRA_HOST_FILE")]
)
async def test_the_mpi_operator_writes_hydras_hostfile_and_all_its_hosts_answer(
    operator_contract, implementation, variable
):
    snippet = _HYDRA.replace("HOSTS", variable)
    launcher = {"name": "none", "implementation": implementation}

    handle, status = await operator_contract.run(
        _mpirun_job(operator_contract, snippet, num_proc_per_node=2, launcher=launcher)
    )

    assert status.phase is JobPhase.SUCCEEDED, operator_contract.lines
    hosts = [entry.partition(".")[0] + entry[entry.rindex(":") :] for entry in operator_contract.noted("hosts")]
    assert hosts == [f"{handle.name}-worker-{index}:2" for index in range(2)]


async def test_a_worker_that_can_no_longer_become_ready_is_named(operator_contract):
    sidecar = {
        "name": "shipper",
        "image": "trainer.test/tiny:test",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "exec >&2; echo disk is full; exit 3"],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        # However quickly the operator looks, the pod has never been ready.
        "readinessProbe": {"exec": {"command": ["false"]}},
    }

    diagnosis = await verdict(operator_contract, operator_contract.case.job("pass", nodes=1, sidecars=[sidecar]))

    assert diagnosis.reason == "Sidecar:Error"
    said = "worker-0 failed first: it was not ready, Sidecar:Error: sidecar shipper ended with exit code 3: disk"
    assert diagnosis.message.startswith(said)
    assert "Correct the container that the message names" in diagnosis.way_out


@pytest.mark.parametrize("how", ["delete", "evict"])
async def test_a_worker_that_is_taken_away_is_to_blame_and_not_the_launcher_that_loses_it(contract, how):
    handle = await contract.submit(_mpirun_job(contract, _TRAINS))
    following = asyncio.ensure_future(contract.end(handle))
    await contract.until(lambda: len(contract.noted("began")) == 2)
    pod, case = pod_of(contract, handle, "worker-1"), contract.case

    if how == "evict":
        await asyncio.to_thread(case.access.kubectl.evict, pod, case.namespace, grace=None)
    else:
        case.access.kubectl("delete", "pod", pod, f"--namespace={case.namespace}", "--wait=false")
    status = await following

    assert (status.phase, status.first_failed) == (JobPhase.FAILED, "worker-1"), (status, contract.lines)
    diagnosis = diagnose(handle.name, get_framework("mpi"), status, [])
    assert diagnosis.reason == ("Deleted" if how == "delete" else "EvictionByEvictionAPI")
    assert (diagnosis.infrastructure, diagnosis.retry_can_help) == (True, "yes")
