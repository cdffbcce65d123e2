"""The line that summarizes the last output of a container."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.job.diagnosis.last_words import is_result, last_words
from airflow_trainer_provider.job.status import ReplicaStatus

#: The end of the output of torchrun, as a pod's status keeps it.
TORCHRUN = """\
  File "/usr/lib/python3/dist-packages/torch/distributed/launcher/api.py", line 246, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_21:35:49
  host      : train-0.train.training.svc.cluster.local
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 10)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (None, None),
        ("", None),
        ("\n ---- \n", None),
        ("one\ntwo\n", "two"),
        ("3 of 4 are missing.\n------\n", "3 of 4 are missing."),
        (TORCHRUN, "train.py FAILED"),
        (f"[rank0]: ValueError: no such shard\n{TORCHRUN}", "ValueError: no such shard"),
        ("torch.cuda.OutOfMemoryError: out of memory\nTerminated\n", "torch.cuda.OutOfMemoryError: out of memory"),
        ("KeyError: 'a'\n\nDuring handling:\n\nValueError: b\nmpirun noticed that rank 0 exited", "ValueError: b"),
        ("sh: 1: nosuch: not found\n", "sh: 1: nosuch: not found"),
        ("reason : by itself", "reason : by itself"),
        ("x" * 1000, "x" * 300),
    ],
)
def test_the_line_that_explains_the_end_is_chosen(message, line):
    assert last_words(message) == line


@pytest.mark.parametrize(
    ("message", "reason", "expected"),
    [
        ('{"metrics": {"loss": 1}}\n', "Error", True),
        ("[1]", "Error", True),
        ("0.93", "PermanentExitCode", True),
        ('"done"', "Error", True),
        ('{"metrics": {"lo', "Error", False),
        ("no such file", "Error", False),
        ("[" * 100_000, "Error", False),
        (None, "Error", False),
        ('{"a": 1}', "Evicted", False),
    ],
)
def test_a_result_that_a_failed_training_had_written(message, reason, expected):
    assert is_result(ReplicaStatus(group="worker", index=0, reason=reason, message=message)) == expected
