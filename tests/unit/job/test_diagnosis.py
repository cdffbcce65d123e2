"""Why a job failed, read from the logs that Python and the launchers really write."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.job.diagnosis import diagnose
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus

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


def _diagnose(framework, log, **ended):
    started = {"group": "worker", "started_at": NOW}
    culprit = {"rank": 1, "exit_code": 1, "reason": "Error", "finished_at": NOW} | ended
    status = JobStatus(
        phase=JobPhase.FAILED,
        queued_at=NOW,
        first_failed="worker-1",
        replicas=(
            ReplicaStatus(**started, index=0, rank=0, signal="SIGTERM", reason="Stopped", finished_at=NOW),
            ReplicaStatus(**started, index=1, **culprit),
        ),
    )
    return diagnose("job", get_framework(framework), status, log.splitlines())


@pytest.mark.parametrize(
    ("framework", "log", "ended", "last", "rank", "helps"),
    [
        ("jax", PLAIN, {}, "ValueError: labels are missing", 1, "unknown"),
        ("jax", CHAINED, {}, "RuntimeError: no a", 1, "unknown"),
        ("jax", LOGGED_BEFORE, {}, "OSError: disks are missing", 1, "unknown"),
        ("jax", SYNTAX, {}, "SyntaxError: '(' was never closed", 1, "no"),
        ("jax", MISSING, {}, "ModuleNotFoundError: No module named 'nump'", 1, "no"),
        ("pytorch", TORCHRUN, {"rank": None}, "RuntimeError: loss is nan", 3, "unknown"),
        ("pytorch", SYNTAX + TORCHRUN_ONLY, {"rank": None}, "SyntaxError: '(' was never closed", 3, "no"),
        # The launcher's own traceback is not the user's.
        ("pytorch", TORCHRUN_ONLY, {"rank": None}, None, 3, "unknown"),
        ("mpi", MPI, {"rank": None}, "ValueError: labels are missing", 3, "unknown"),
        ("mpi", MPIRUN, {"rank": None}, None, 2, "unknown"),
        ("jax", "", {"exit_code": 127, "reason": "CommandNotFound"}, None, 1, "no"),
        ("jax", PLAIN, {"exit_code": None, "signal": "SIGKILL", "reason": "OOMKilled"}, None, 1, "unknown"),
        ("jax", "epoch 1\n", {"exit_code": None, "signal": "SIGSEGV"}, None, 1, "unknown"),
    ],
)
def test_the_culprit(framework, log, ended, last, rank, helps):
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


@pytest.mark.parametrize(
    ("reason", "helps"), [("DeadlineExceeded", "unknown"), ("SupervisorLost", "yes"), (None, "unknown")]
)
def test_without_a_culprit_the_jobs_own_reason_is_told(reason, helps):
    status = JobStatus(phase=JobPhase.FAILED, reason=reason, message="so it is", queued_at=NOW)

    verdict = diagnose("job", get_framework("jax"), status, [])

    assert verdict.message == f"{reason or 'Unknown'}: so it is."
    assert (verdict.replica, verdict.retry_can_help) == (None, helps)
