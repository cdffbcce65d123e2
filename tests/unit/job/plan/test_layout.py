"""How many replicas of which role a spec makes, in which order, and what each of them runs."""

from __future__ import annotations

import json

import pytest

from airflow_trainer_provider.frameworks import MODULES, get_framework, plan_job
from airflow_trainer_provider.job.plan.framework import Address
from airflow_trainer_provider.spec import parse_spec


def _job(framework, **fields):
    return plan_job(parse_spec({"framework": framework, **fields}))


def _names(job):
    assert [replica.rank for replica in job.replicas] == list(range(len(job.replicas)))
    return " ".join(replica.name for replica in job.replicas)


@pytest.mark.parametrize(
    ("framework", "fields", "names"),
    [
        ("pytorch", {}, "master-0"),
        ("pytorch", {"num_nodes": 1}, "master-0"),
        ("pytorch", {"num_nodes": 3}, "master-0 worker-0 worker-1"),
        ("pytorch", {"num_workers": 2}, "master-0 worker-0 worker-1"),
        ("pytorch", {"replicas": {"worker": {"replicas": 2}}}, "worker-0 worker-1"),
        ("pytorch", {"replicas": {"worker": {"replicas": 1}, "master": {}}}, "master-0 worker-0"),
        ("pytorch", {"replicas": {"master": {}}}, "master-0"),
        ("pytorch", {"elastic": {"min_nodes": 1, "max_nodes": 2}}, "worker-0 worker-1"),
        ("tensorflow", {}, "chief-0"),
        ("tensorflow", {"num_nodes": 2}, "chief-0 worker-0"),
        ("tensorflow", {"num_workers": 2, "replicas": {"ps": {}}}, "chief-0 worker-0 worker-1 ps-0"),
        ("tensorflow", {"num_nodes": 2, "replicas": {"evaluator": {}, "ps": {}}}, "chief-0 worker-0 ps-0 evaluator-0"),
        ("tensorflow", {"replicas": {"worker": {"replicas": 2}}}, "worker-0 worker-1"),
        # What never ends by itself cannot be a job of its own: it would have succeeded at once.
        ("tensorflow", {"replicas": {"ps": {"replicas": 2}}}, "chief-0 ps-0 ps-1"),
        ("tensorflow", {"replicas": {"evaluator": {}}}, "chief-0 evaluator-0"),
        ("mpi", {}, "launcher-0 worker-0"),
        ("mpi", {"num_nodes": 2}, "launcher-0 worker-0 worker-1"),
        ("mpi", {"num_workers": 2}, "launcher-0 worker-0 worker-1"),
        ("mpi", {"replicas": {"worker": {"args": []}}}, "launcher-0 worker-0"),
        ("mpi", {"replicas": {"launcher": {}, "worker": {"replicas": 2}}}, "launcher-0 worker-0 worker-1"),
        ("mpi", {"num_workers": 2, "replicas": {"worker": {"replicas": 2}}}, "launcher-0 worker-0 worker-1"),
        ("xgboost", {}, "master-0"),
        ("xgboost", {"num_nodes": 2}, "master-0 worker-0"),
        ("xgboost", {"num_workers": 2}, "master-0 worker-0 worker-1"),
        ("xgboost", {"replicas": {"master": {}, "worker": {"replicas": 2}}}, "master-0 worker-0 worker-1"),
        ("xgboost", {"num_nodes": 3, "replicas": {"worker": {"replicas": 2}}}, "master-0 worker-0 worker-1"),
        ("paddle", {}, "worker-0"),
        ("paddle", {"num_nodes": 2}, "worker-0 worker-1"),
        ("jax", {}, "worker-0"),
        ("jax", {"num_nodes": 2}, "worker-0 worker-1"),
        ("jax", {"num_workers": 2}, "worker-0 worker-1"),
        ("jax", {"replicas": {"worker": {"replicas": 2}}}, "worker-0 worker-1"),
        # Settings of a group say nothing of its size: without a number there is one node.
        ("jax", {"replicas": {"worker": {"working_dir": "/srv"}}}, "worker-0"),
        ("pytorch", {"num_nodes": 2, "replicas": {"worker": {"working_dir": "/srv"}}}, "master-0 worker-0"),
    ],
)
def test_fields_decide_which_replicas_there_are(framework, fields, names):
    assert _names(_job(framework, **fields)) == names


@pytest.mark.parametrize("framework", MODULES)
def test_something_always_decides_when_the_job_has_ended(framework):
    job = _job(framework, num_nodes=2)

    assert get_framework(framework).name == framework
    assert any(job.framework.role(replica.group).waited_for for replica in job.replicas)
    assert job.framework.role(job.leader.group).waited_for
    assert job.framework.role(job.leader.group).runs_command


def test_polyaxons_shape():
    """One automatic master and n workers, which a default and overrides by index describe."""
    job = _job(
        "pytorch",
        num_workers=3,
        command=["python", "train.py"],
        args=["--all"],
        env={"WHO": "all", "JOB": "yes"},
        resources_per_node={"cpu": 1},
        replicas={
            "worker": {
                "env": {"WHO": "workers", "GROUP": "yes"},
                "args": ["--workers"],
                "resources": {"cpu": 2, "memory": "1Gi"},
                "overrides": [
                    {"index": 1, "env": {"WHO": "second"}, "args": [], "resources": {"memory": "2Gi"}},
                    {"index": 2, "env": {}, "command": ["python", "other.py"]},
                ],
            }
        },
    )
    master, first, second, third = job.replicas

    assert _names(job) == "master-0 worker-0 worker-1 worker-2"
    assert master.env == {"WHO": "all", "JOB": "yes"}
    assert first.env == {"WHO": "workers", "JOB": "yes", "GROUP": "yes"}
    # Overrides replace; they are not merged.
    assert second.env == {"WHO": "second"}
    assert third.env == {}
    assert [replica.args for replica in job.replicas] == [("--all",), ("--workers",), (), ("--workers",)]
    assert second.resources.cpu is None
    assert second.resources.memory.limits == "2Gi"
    assert third.resources.cpu.limits == "2"
    assert third.command == ("python", "other.py")
    assert second.command == ("python", "train.py")


@pytest.mark.parametrize(
    ("field", "of_job", "of_group"),
    [
        ("scheduling", {"node_selector": {"zone": "a"}}, {"priority_class": "research"}),
        ("pod", {"labels": {"team": "a"}}, {"annotations": {"note": "b"}}),
        (
            "volumes",
            [{"claim": "data", "mount_path": "/data"}],
            [{"claim": "models", "mount_path": "/models"}],
        ),
    ],
)
def test_replicas_of_a_group_share_one_object_for_what_is_merged(field, of_job, of_group):
    worker = {field: of_group, "overrides": [{"index": 2, field: of_group}]}
    job = _job("pytorch", num_workers=3, command=["a"], replicas={"worker": worker}, **{field: of_job})
    first, second, third = (getattr(replica, field) for replica in job.replicas[1:])

    assert first is second
    # An override replaces what its group has, which has more than it.
    assert third == getattr(job.spec.replicas["worker"], field) != first


@pytest.mark.parametrize(
    ("field", "replica", "path"),
    [
        ("command", 0, "command"),
        ("resources", 0, "resources_per_node"),
        ("command", 1, "replicas.worker.command"),
        ("command", 2, "replicas.worker.overrides[0].command"),
        ("working_dir", 2, "working_dir"),
    ],
)
def test_a_setting_is_traced_to_where_it_was_written(field, replica, path):
    worker = {"command": ["b"], "overrides": [{"index": 1, "command": ["c"]}]}
    job = _job("pytorch", num_workers=2, command=["a"], replicas={"worker": worker})

    assert job.source(job.replicas[replica], field)[0] == path


@pytest.mark.parametrize(
    ("framework", "command", "argv"),
    [
        ("pytorch", "python t.py", "torchrun --no_python python t.py"),
        ("pytorch", "torchrun t.py", "torchrun t.py"),
        ("pytorch", "/opt/bin/torchrun t.py", "/opt/bin/torchrun t.py"),
        ("pytorch", "python -m torch.distributed.run t.py", "python -m torch.distributed.run t.py"),
        ("pytorch", "/usr/bin/python3 -m torch.distributed.launch t.py", None),
        ("pytorch", "python -m pkg.train", "torchrun --no_python python -m pkg.train"),
        ("mpi", "mpirun -n 2 a.out", "mpirun -n 2 a.out"),
        ("mpi", "mpiexec a.out", "mpiexec a.out"),
        ("mpi", "a.out", "mpirun --hostfile $(TRAINER_FILES)/hostfile --map-by :OVERSUBSCRIBE --bind-to none a.out"),
        ("paddle", "python t.py", "python -m paddle.distributed.launch t.py"),
        ("paddle", "t.py", "python -m paddle.distributed.launch t.py"),
        ("paddle", "python -m paddle.distributed.launch t.py", None),
        ("xgboost", "python t.py", None),
        ("tensorflow", "python t.py", None),
        ("jax", "python t.py", None),
        # Launchers that belong to no framework, or to another.
        ("pytorch", "accelerate launch t.py", None),
        ("pytorch", "python -m accelerate.commands.launch t.py", None),
        ("pytorch", "python3 -W ignore -u -m accelerate.commands.launch t.py", None),
        ("pytorch", "python -um torch.distributed.run t.py", None),
        ("pytorch", "python -mtorch.distributed.run t.py", None),
        ("pytorch", "python -u /opt/bin/accelerate launch t.py", None),
        ("pytorch", "deepspeed t.py", None),
        ("pytorch", "tune run full_finetune_distributed", None),
        ("pytorch", "horovodrun -np 2 t.py", None),
        ("pytorch", "fabric run t.py", None),
        ("pytorch", "composer t.py", None),
        ("pytorch", "mpirun a.out", None),
        ("pytorch", "trl sft --config c.yaml", None),
        ("pytorch", "python -m trl.cli sft", None),
        ("mpi", "horovodrun -np 2 python t.py", None),
        # Behind programs that run others.
        ("pytorch", "uv run accelerate launch t.py", None),
        ("pytorch", "uv --quiet run --with wandb --frozen accelerate launch t.py", None),
        ("pytorch", "uv run -m accelerate.commands.launch t.py", None),
        ("pytorch", "uv run -m --with wandb accelerate.commands.launch t.py", None),
        ("pytorch", "numactl --cpunodebind 0 --membind 0 torchrun t.py", None),
        ("pytorch", "time -f %e torchrun t.py", None),
        ("pytorch", "uv run --python 3.12 python -m torch.distributed.run t.py", None),
        ("pytorch", "uvx --from accelerate accelerate launch t.py", None),
        ("pytorch", "poetry run torchrun t.py", None),
        ("pytorch", "conda run -n train --no-capture-output deepspeed t.py", None),
        ("pytorch", "env -u A OMP_NUM_THREADS=1 uv run accelerate launch t.py", None),
        ("pytorch", "numactl --cpunodebind=0 -m 0 nice -n 5 accelerate launch t.py", None),
        ("mpi", "env OMPI_MCA_x=1 mpirun a.out", None),
        # What only names one further on.
        ("pytorch", "python t.py accelerate", "torchrun --no_python python t.py accelerate"),
        ("pytorch", "python -c accelerate", "torchrun --no_python python -c accelerate"),
        ("pytorch", "python deepspeed/train.py", "torchrun --no_python python deepspeed/train.py"),
        ("pytorch", "bash -c torchrun", "torchrun --no_python bash -c torchrun"),
        ("pytorch", "uv run --with deepspeed t.py", "torchrun --no_python uv run --with deepspeed t.py"),
        ("pytorch", "uv pip accelerate", "torchrun --no_python uv pip accelerate"),
        ("pytorch", "uv run", "torchrun --no_python uv run"),
        ("pytorch", "pixi run tune", "torchrun --no_python pixi run tune"),
        ("pytorch", "uv run -m", "torchrun --no_python uv run -m"),
        ("pytorch", "env A=accelerate t.py", "torchrun --no_python env A=accelerate t.py"),
    ],
)
def test_the_launcher_stands_before_the_command_once(framework, command, argv):
    job = _job(framework, command=command.split(), args=["--x"])

    assert job.leader.argv == (*(argv or command).split(), "--x")
    plain = _job(framework, command=command.split(), args=["--x"], launcher="none")
    assert plain.leader.argv == (*command.split(), "--x")


def test_what_each_node_needs_is_not_for_a_launcher():
    job = _job("mpi", num_nodes=2, resources_per_node={"gpu": 8})

    assert [replica.name for replica in job.replicas if replica.resources] == ["worker-0", "worker-1"]
    assert job.source(job.leader, "resources") == ("replicas.launcher.resources", None)
    own = _job("mpi", resources_per_node={"gpu": 8}, replicas={"launcher": {"resources": {"cpu": 1}}})
    assert own.leader.resources.cpu.limits == "1"
    assert own.source(own.leader, "resources")[0] == "replicas.launcher.resources"
    assert own.group("worker")[0].resources.gpu == 8


@pytest.mark.parametrize(
    ("framework", "fields"),
    [
        ("pytorch", {"command": ["accelerate", "launch", "--num_processes", "$(PET_NPROC_PER_NODE)", "t.py"]}),
        ("pytorch", {"command": ["tune", "run"], "args": ["--nproc_per_node=$(PET_NPROC_PER_NODE)", "r"]}),
        ("pytorch", {"command": ["bash", "-c", "torchrun --nproc_per_node $PET_NPROC_PER_NODE"], "launcher": "none"}),
        ("pytorch", {"command": ["bash", "t.sh"], "env": {"N": "$(PET_NPROC_PER_NODE)"}, "launcher": "none"}),
        # torchrun reads the variable itself, and mpirun the slots of the hostfile.
        ("pytorch", {"command": ["torchrun", "t.py"]}),
        ("pytorch", {"command": ["torchrun", "t.py"], "launcher": "none"}),
        ("mpi", {"command": ["mpirun", "a.out"]}),
        ("mpi", {"command": ["bash", "run.sh"], "launcher": "none"}),
    ],
)
def test_a_launcher_that_is_given_the_number_of_processes_is_taken(framework, fields):
    assert _job(framework, num_proc_per_node=4, **fields).leader.launcher == ()


def test_the_ranks_of_processes_that_another_launcher_starts_are_not_the_replicas():
    assert _job("pytorch", num_nodes=2, command=["torchrun", "t.py"]).one_rank_each
    assert not _job("pytorch", num_nodes=2, command=["accelerate", "launch", "t.py"]).one_rank_each


def test_mpis_workers_run_nothing_of_their_own():
    job = _job("mpi", num_nodes=2, num_proc_per_node=2, command=["a.out"])
    addresses = {replica.name: Address(replica.name, 1) for replica in job.replicas}

    assert [replica.argv for replica in job.group("worker")] == [(), ()]
    assert job.framework.files(job, addresses) == {"hostfile": "worker-0 slots=2\nworker-1 slots=2\n"}


def test_an_evaluator_is_no_part_of_tensorflows_cluster():
    job = _job("tensorflow", num_nodes=2, replicas={"evaluator": {}, "ps": {}})
    addresses = {replica.name: Address("h", replica.rank) for replica in job.replicas}
    configs = [json.loads(job.framework.environment(job, replica, addresses)["TF_CONFIG"]) for replica in job.replicas]

    cluster = {"chief": ["h:0"], "worker": ["h:1"], "ps": ["h:2"]}
    assert [config["cluster"] for config in configs] == [cluster] * 4
    assert configs[3]["task"] == {"type": "evaluator", "index": 0}
