"""Why a job failed, read from the logs that Python and the launchers really write."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.job.diagnosis.diagnosis import diagnose
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus
from airflow_trainer_provider.text.printable import CUT

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)

PLAIN = """\
epoch 1
Traceback (most recent call last):
  File "/srv/train.py", line 9, in <module>
    main()
  File "/srv/train.py", line 5, in main
    raise ValueError("labels are missing")
ValueError: labels are missing
"""
CHAINED = """\
Traceback (most recent call last):
  File "/srv/train.py", line 3, in <module>
    {}["a"]
    ~~^^^^^
KeyError: 'a'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/srv/train.py", line 5, in <module>
    raise RuntimeError("no a") from error
RuntimeError: no a
"""
LOGGED_BEFORE = PLAIN + "ERROR:root:it goes on\n" + PLAIN.replace("ValueError", "OSError").replace("labels", "disks")
SYNTAX = """\
  File "/srv/train.py", line 1
    def train(
             ^
SyntaxError: '(' was never closed
"""
MISSING = """\
Traceback (most recent call last):
  File "/srv/train.py", line 1, in <module>
    import nump
ModuleNotFoundError: No module named 'nump'
"""
TORCHRUN = """\
[rank3]: Traceback (most recent call last):
[rank0]: epoch 3
[rank3]:   File "/srv/train.py", line 9, in <module>
[rank3]:     main()
[rank0]: epoch 4
[rank3]: RuntimeError: loss is nan
W1121 03:00:00.000000 71 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 73 closing signal SIGTERM
E1121 03:00:00.000000 71 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 1
Traceback (most recent call last):
  File "/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/venv/lib/python3.11/site-packages/torch/distributed/run.py", line 901, in main
    run(args)
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_03:00:00
  host      : node
  rank      : 3 (local_rank: 1)
  exitcode  : 1 (pid: 73)
  error_file: <N/A>
============================================================
"""
TORCHRUN_ONLY = TORCHRUN[TORCHRUN.index("W1121") :]
MPI = PLAIN + "process rank 3 with exit code 1\n"
MPIRUN = """\
--------------------------------------------------------------------------
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-node-71@1,2] Exit code:    1
--------------------------------------------------------------------------
"""
MPIRUN_4 = MPIRUN.replace("[prterun-node-71@1,2]", "[[50315,1],2]")
MPI_ABORT = (
    PLAIN
    + """\
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD
with errorcode 1.
"""
)


def _diagnose(framework, log, **ended):
    started = {"group": "worker", "started_at": NOW}
    culprit = started | {"rank": 1, "exit_code": 1, "reason": "Error", "finished_at": NOW} | ended
    status = JobStatus(
        phase=JobPhase.FAILED,
        queued_at=NOW,
        first_failed="worker-1",
        replicas=(
            ReplicaStatus(**started, index=0, rank=0, signal="SIGTERM", reason="Stopped", finished_at=NOW),
            ReplicaStatus(index=1, **culprit),
        ),
    )
    return diagnose("job", get_framework(framework), status, log.splitlines())


@pytest.mark.parametrize(
    ("framework", "log", "ended", "last", "rank", "helps"),
    [
        ("jax", PLAIN, {}, "ValueError: labels are missing", 1, "unknown"),
        ("jax", CHAINED, {}, "RuntimeError: no a", 1, "unknown"),
        ("jax", LOGGED_BEFORE, {}, "OSError: disks are missing", 1, "unknown"),
        # Processes that share a log: the first that fails drags the others down.
        ("pytorch", LOGGED_BEFORE, {"rank": None}, "ValueError: labels are missing", None, "unknown"),
        ("jax", SYNTAX, {}, "SyntaxError: '(' was never closed", 1, "no"),
        ("jax", MISSING, {}, "ModuleNotFoundError: No module named 'nump'", 1, "no"),
        ("pytorch", TORCHRUN, {"rank": None}, "RuntimeError: loss is nan", 3, "unknown"),
        ("pytorch", SYNTAX + TORCHRUN_ONLY, {"rank": None}, "SyntaxError: '(' was never closed", 3, "no"),
        # The launcher's own traceback is not the user's.
        ("pytorch", TORCHRUN_ONLY, {"rank": None}, None, 3, "unknown"),
        ("mpi", MPI, {"rank": None}, "ValueError: labels are missing", 3, "unknown"),
        ("mpi", MPIRUN, {"rank": None}, None, 2, "unknown"),
        ("mpi", MPIRUN_4, {"rank": None}, None, 2, "unknown"),
        ("mpi", MPI_ABORT, {"rank": None}, "ValueError: labels are missing", 2, "unknown"),
        ("jax", "", {"exit_code": 127, "reason": "CommandNotFound"}, None, 1, "no"),
        ("jax", PLAIN, {"exit_code": None, "signal": "SIGKILL", "reason": "OOMKilled"}, None, 1, "no"),
        ("jax", "epoch 1\n", {"exit_code": None, "signal": "SIGSEGV"}, None, 1, "unknown"),
        # It went on after that error, and left when its pod was deleted.
        ("jax", MISSING, {"exit_code": 0, "reason": "Deleted"}, None, 1, "yes"),
    ],
)
def test_the_failed_rank_is_named_with_its_traceback(framework, log, ended, last, rank, helps):
    verdict = _diagnose(framework, log, **ended)

    assert (verdict.traceback[-1] if verdict.traceback else None) == last
    assert (verdict.replica, verdict.rank, verdict.retry_can_help) == ("worker-1", rank, helps)
    assert (last or verdict.reason) in verdict.message
    assert not last or last in verdict.text().splitlines()
    assert verdict.others == ({"replica": "worker-0", "exit_code": None, "signal": "SIGTERM", "reason": "Stopped"},)


def test_a_tracebacks_lines_are_whole_and_no_others():
    assert list(_diagnose("jax", CHAINED).traceback) == CHAINED.splitlines()
    assert list(_diagnose("pytorch", TORCHRUN).traceback) == [
        "Traceback (most recent call last):",
        '  File "/srv/train.py", line 9, in <module>',
        "    main()",
        "RuntimeError: loss is nan",
    ]


def test_lines_of_other_processes_in_between_are_left_out():
    lines = PLAIN.splitlines()
    mixed = [*lines[:3], "rank 2 of 4, total 6", *lines[3:-1], "", "step 7: loss 0.3", lines[-1], "Epoch: 3"]

    assert list(_diagnose("paddle", "\n".join(mixed)).traceback) == lines[1:]


def test_a_traceback_that_the_log_does_not_hold_whole_ends_with_its_last_line_of_text():
    lines = PLAIN.splitlines()[1:-1]

    verdict = _diagnose("jax", "\n".join([*lines, "    ", " "]))

    assert list(verdict.traceback) == lines
    assert verdict.message.endswith(f"{lines[-1]}.")


def test_an_exception_of_an_unusual_name_is_the_first_line_after_the_frames():
    lines = [*PLAIN.splitlines()[1:-1], "oddly named", "and more"]

    assert list(_diagnose("jax", "\n".join(lines)).traceback) == lines[:-1]


@pytest.mark.parametrize(
    ("reason", "helps"), [("DeadlineExceeded", "unknown"), ("SupervisorLost", "yes"), (None, "unknown")]
)
def test_without_a_culprit_the_jobs_own_reason_is_reported(reason, helps):
    status = JobStatus(phase=JobPhase.FAILED, reason=reason, message="so it is", queued_at=NOW)

    verdict = diagnose("job", get_framework("jax"), status, [])

    assert verdict.message == f"{reason or 'Unknown'}: so it is."
    assert (verdict.replica, verdict.retry_can_help) == (None, helps)


_LATE = "0/1 nodes are available: 1 Insufficient cpu."


@pytest.mark.parametrize(
    ("reason", "message", "helps", "infrastructure", "way_out"),
    [
        ("OOMKilled", None, "no", False, "resources_per_node.memory"),
        ("StartError", 'exec: "tran.py": not found', "no", False, "Correct command"),
        ("CommandNotFound", None, "no", False, "Correct command"),
        ("InvalidImageName", "couldn't parse", "no", False, "Correct image"),
        ("ErrImageNeverPull", "is not present", "no", False, "Correct image"),
        ("ErrImagePull", "not found", "no", False, "Correct image"),
        ("ImagePullBackOff", "not found", "no", False, "Correct image"),
        ("ImagePullBackOff", "429 Too Many Requests", "unknown", True, "registry"),
        ("Init:ImagePullBackOff", "not found", "no", False, "Correct image"),
        ("Init:Error", "init container prepare ended with exit code 2", "unknown", False, None),
        (
            "Init:Error",
            "init container fetch-src ended with exit code 1: no branch",
            "unknown",
            False,
            "git or s3 source",
        ),
        ("CreateContainerConfigError", 'secret "nowhere" not found', "no", False, "Secret"),
        ("CreateContainerError", "no such device", "unknown", False, "pod_template"),
        ("Unschedulable", _LATE, "unknown", False, "Ask for less"),
        ("Unschedulable", '0/1 nodes: persistentvolumeclaim "sets" not found.', "unknown", False, "Create the claim"),
        ("Unschedulable", "0/1: pod has unbound immediate PersistentVolumeClaims", "unknown", False, "storage_class"),
        ("SchedulingGated", None, "unknown", False, "gates"),
        ("StartupTimeout", None, "unknown", False, "startup_timeout_seconds"),
        ("DeadlineExceeded", None, "unknown", False, "active_deadline_seconds"),
        ("Evicted", "The node was low on resource: memory.", "yes", True, "checkpoint"),
        ("Evicted", 'Usage of EmptyDir volume "x" exceeds the limit "1Gi".', "no", False, "empty_dir.size in volumes"),
        ("Evicted", "Container train exceeds its local ephemeral storage limit", "no", False, "ephemeral-storage"),
        ("Preempting", None, "yes", True, "checkpoint"),
        ("PreemptionByScheduler", None, "yes", True, "checkpoint"),
        ("DeletionByTaintManager", None, "yes", True, "checkpoint"),
        ("EvictionByEvictionAPI", None, "yes", True, "checkpoint"),
        ("TerminationByKubelet", None, "yes", True, "checkpoint"),
        ("DeletionByPodGC", None, "yes", True, "checkpoint"),
        ("NodeLost", None, "yes", True, "checkpoint"),
        ("NodeShutdown", None, "yes", True, "checkpoint"),
        ("ContainerStatusUnknown", None, "yes", True, "checkpoint"),
        ("Deleted", "its pod was deleted", "yes", True, "checkpoint"),
        ("OutOfcpu", None, "yes", True, "try it again"),
        ("OutOfnvidia.com/gpu", None, "yes", True, "try it again"),
        ("UnexpectedAdmissionError", None, "yes", True, "try it again"),
        ("NodeAffinity", None, "yes", True, "try it again"),
        ("FailedCreate", 'pods "x" is forbidden: exceeded quota: pods', "yes", True, "quota"),
        ("FailedCreate", 'admission webhook "y" denied the request', "no", False, "refuses"),
        ("FailedCreateService", "must be no more than 63 characters", "no", False, "refuses"),
        ("FailedCreate", 'failed calling webhook "y": x509: certificate has expired', "yes", True, "webhook"),
        ("MPIJobFailed", 'worker pod created failed: pods "x" is forbidden: exceeded quota: q', "yes", True, "quota"),
        ("MPIJobFailed", 'worker pod created failed: pods "x" is forbidden: no', "no", False, "refuses"),
        ("MPIJobFailed", "Permission denied", "unknown", False, None),
        ("FailedMount", 'MountVolume.SetUp failed for volume "v" : secret "s" not found', "no", False, "Create the"),
        ("FailedMount", "timed out waiting for the condition", "unknown", False, "storage class"),
        ("FailedCreatePodSandBox", "network is not ready", "unknown", True, "network"),
        ("TrainJobResourcesCreationFailed", "invalid", "no", False, "refuses"),
        ("MPIJobFailedValidation", "invalid", "no", False, "refuses"),
        ("ValidationError", "invalid", "no", False, "refuses"),
        ("SupervisorLost", None, "yes", True, "checkpoint"),
        ("Error", None, "unknown", False, None),
        ("BackoffLimitExceeded", None, "unknown", False, None),
    ],
)
def test_what_a_reason_means(reason, message, helps, infrastructure, way_out):
    culprit = _diagnose("jax", "", exit_code=None, reason=reason, message=message)
    # The same, where no replica is to blame.
    status = JobStatus(phase=JobPhase.FAILED, reason=reason, message=message, queued_at=NOW)
    job = diagnose("job", get_framework("jax"), status, [])

    for verdict in (culprit, job):
        assert (verdict.retry_can_help, verdict.infrastructure) == (helps, infrastructure)
        assert (verdict.way_out is None) if way_out is None else (way_out in verdict.way_out)
        assert verdict.text().endswith(verdict.way_out or f"Retry can help: {helps}.")
        assert (verdict.reason, verdict.to_xcom()["way_out"]) == (reason, verdict.way_out)


@pytest.mark.parametrize(
    ("ended", "sentence"),
    [
        ({"exit_code": 3}, "it ended with exit code 3, Error."),
        (
            {"exit_code": None, "signal": "SIGKILL", "reason": "OOMKilled"},
            "it was ended by SIGKILL, OOMKilled.",
        ),
        (
            {"exit_code": None, "reason": "NodeLost", "message": "Node n1 is not ready."},
            "it was lost, NodeLost: Node n1 is not ready.",
        ),
        (
            {"exit_code": None, "reason": "Sidecar:Error", "message": "sidecar a failed"},
            "it was not ready, Sidecar:Error: sidecar a failed.",
        ),
        (
            {"exit_code": None, "started_at": None, "reason": "Unschedulable", "message": _LATE},
            f"it never started, Unschedulable: {_LATE}",
        ),
        (
            {"exit_code": 2, "started_at": None, "reason": "Init:Error", "message": "init container a failed"},
            "it never started, Init:Error: init container a failed.",
        ),
    ],
)
def test_the_sentence_says_how_it_ended(ended, sentence):
    assert _diagnose("jax", "", **ended).message == f"worker-1 (rank 1) failed first: {sentence}"


def test_a_rule_is_no_reason():
    verdict = _diagnose("jax", "", message=f"3 of 4 are missing.\n{'-' * 74}\n")

    assert verdict.message.endswith("Error: 3 of 4 are missing.")


def test_where_the_log_went_with_its_pod_the_end_of_it_is_in_the_pods_status():
    verdict = _diagnose("jax", "", message=PLAIN)

    assert verdict.traceback[-1] == "ValueError: labels are missing"
    assert list(verdict.last_log_lines) == PLAIN.splitlines()
    assert verdict.message.endswith("Error: ValueError: labels are missing.")


def test_a_log_that_is_there_counts_more_than_what_the_pods_status_kept():
    verdict = _diagnose("jax", "epoch 1\n", message=PLAIN)

    assert (verdict.traceback, verdict.last_log_lines) == ((), ("epoch 1",))


def test_an_error_that_the_same_script_meets_again_has_the_script_as_its_way_out():
    verdict = _diagnose("jax", MISSING)

    assert (verdict.retry_can_help, verdict.way_out) == ("no", "Correct the script.")


def test_of_a_replica_that_nothing_is_known_of_nothing_is_reported():
    status = JobStatus(
        phase=JobPhase.FAILED,
        queued_at=NOW,
        replicas=(
            ReplicaStatus(group="worker", index=0, started_at=NOW),
            ReplicaStatus(group="worker", index=1),
        ),
    )

    others = diagnose("job", get_framework("jax"), status, []).others

    assert [row["reason"] for row in others] == ["Running", "Unknown"]


@pytest.mark.parametrize(
    ("line", "ended"),
    [
        ("RuntimeError: DataLoader worker (pid 17) is killed by signal: Bus error.", {}),
        ("This might be caused by insufficient shared memory (shm).", {}),
        ("Error while creating shared memory segment /dev/shm/nccl-a1B2c3 (size 9637888)", {}),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/psm_7f'", {}),
        ("", {"exit_code": None, "signal": "SIGBUS"}),
    ],
)
def test_too_little_shared_memory_has_the_field_as_its_way_out(line, ended):
    found = _diagnose("pytorch", line, **ended)

    assert "resources_per_node.shared_memory" in found.way_out
    assert found.retry_can_help == "unknown"


@pytest.mark.parametrize("reason", ["OOMKilled", "Evicted"])
def test_a_reason_that_says_why_counts_more_than_the_log(reason):
    found = _diagnose("pytorch", "Bus error", exit_code=None, reason=reason)

    assert "shared_memory" not in found.way_out


def test_a_log_that_only_names_the_folder_says_nothing():
    assert _diagnose("pytorch", "cache: /dev/shm/cache\nomnibus errors: 0").way_out is None


def test_a_result_that_was_written_before_the_failure_is_not_its_reason():
    log = ["epoch 1", "upload: the bucket is read-only"]

    diagnosis = _diagnose("jax", "\n".join(log), message='{"loss": 1}')

    assert diagnosis.message == (
        "worker-1 (rank 1) failed first: it ended with exit code 1, Error: upload: the bucket is read-only."
    )


@pytest.mark.parametrize(
    ("reason", "code"), [("Sidecar:Error", 0), ("Sidecar:OOMKilled", 0), ("Init:Error", 1), ("Init:StartError", 128)]
)
def test_a_container_beside_the_training_is_named_whatever_it_has_logged(reason, code):
    diagnosis = _diagnose("jax", MISSING, reason=reason, exit_code=code, message="sidecar shipper ended")

    assert f"{reason}: sidecar shipper ended." in diagnosis.message
    assert diagnosis.traceback == ()
    assert diagnosis.last_log_lines[-1].startswith("ModuleNotFoundError")
    assert diagnosis.way_out != "Correct the script."


def test_a_sidecar_has_a_way_out_of_its_own():
    diagnosis = _diagnose("jax", "", reason="Sidecar:OOMKilled", exit_code=0, message="sidecar shipper was ended")

    assert (diagnosis.kind, diagnosis.retry_can_help) == ("user", "unknown")
    assert "restartPolicy Always" in diagnosis.way_out


def test_a_failure_that_is_logged_as_json_is_its_reason():
    line = '{"level": "error", "msg": "the bucket is read-only"}'

    assert line in _diagnose("jax", f"epoch 1\n{line}\n", message=line).message


@pytest.mark.parametrize("log", ["", "ConnectionError: retry 1 of 5\nepoch 3\n"])
def test_without_an_error_after_the_result_nothing_is_made_up(log):
    diagnosis = _diagnose("jax", log, message='{"loss": 1}', signal="SIGKILL", exit_code=None)

    assert diagnosis.message == "worker-1 (rank 1) failed first: it was ended by SIGKILL, Error."
    assert "loss" not in diagnosis.text()


def test_a_log_says_nothing_more_where_there_was_no_message():
    assert _diagnose("jax", "KeyError: retried\nepoch 3\n").message.endswith("ended with exit code 1, Error.")


@pytest.mark.parametrize("reason", ["Evicted", "EvictionByEvictionAPI", "Deleted", "NodeLost"])
def test_a_traceback_of_who_was_taken_away_does_not_forbid_the_retry(reason):
    diagnosis = _diagnose("jax", MISSING, reason=reason, message="the node was drained")

    assert (diagnosis.retry_can_help, diagnosis.infrastructure, diagnosis.traceback) == ("yes", True, ())
    assert diagnosis.message.endswith(f"{reason}: the node was drained.")


def test_a_traceback_that_the_training_went_on_after_is_not_why_it_ended():
    diagnosis = _diagnose("jax", MISSING, reason="Completed", exit_code=0)

    assert (diagnosis.retry_can_help, diagnosis.traceback) == ("unknown", ())


def test_what_no_database_stores_is_replaced_in_xcom():
    log = 'Traceback (most recent call last):\n  File "a", line 1, in b\nValueError: a\x00'
    raised = _diagnose("jax", log).to_xcom()
    evicted = _diagnose("jax", "", reason="Evicted", message="a\ud800").to_xcom()

    assert raised["traceback"][-1] == raised["last_log_lines"][-1] == "ValueError: a\ufffd"
    assert evicted["message"].endswith("Evicted: a\ufffd.")


@pytest.mark.parametrize("lines", [400, 20])
@pytest.mark.parametrize("char", ["x", "é", "\U0001f600"])
def test_long_lines_and_many_are_bounded(lines, char):
    frames = ["  " + char * 30_000] * lines
    traceback = ["Traceback (most recent call last):", *frames, "ValueError: " + char * 30_000]

    verdict = _diagnose("jax", "\n".join(traceback))

    for kept in (verdict.traceback, verdict.last_log_lines):
        assert kept[-1].startswith(f"ValueError: {char * 3}")
        sizes = [len(line.encode()) for line in kept]
        assert max(sizes) <= 4096 + len(CUT)
        assert 60_000 < sum(sizes) <= 65_536
    assert 1000 < len(verdict.message) < 1200
