"""Every backend calls the function of a DAG file on each rank: arguments in, progress and the value of rank 0 out."""

from __future__ import annotations

import json
import os
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.functions.code import code_of
from airflow_trainer_provider.functions.frames import is_frame
from airflow_trainer_provider.functions.runner import CANNOT_LOAD
from airflow_trainer_provider.job.progress.report import Report, read_json_line
from airflow_trainer_provider.job.result import VALUE_LIMIT_BYTES, summarize
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.job.verdict import verdict
from airflow_trainer_provider.spec.running.function import FUNCTION_COMMAND
from airflow_trainer_provider.training import report

FACTOR = 10
#: Can be had on the worker, and not in the job.
GONE = os.no_such_function() if "TRAINER_FUNCTION" in os.environ else 0


@dataclass
class Rows:
    """A class that the functions use."""

    values: list[int]

    def total(self) -> int:
        """What rank 0 returns."""
        return FACTOR * sum(self.values)


def post(percent):
    """Report by Trainer's protocol, as its clients do, where Trainer itself does not answer it."""
    scheme = os.environ.get("KUBEFLOW_TRAINER_SERVER_URL", "").partition(":")[0]
    if scheme == "http":
        headers = {"Authorization": f"Bearer {Path(os.environ['KUBEFLOW_TRAINER_SERVER_TOKEN']).read_text()}"}
        body = json.dumps({"trainerStatus": {"progressPercentage": percent}}).encode()
        request = urllib.request.Request(os.environ["KUBEFLOW_TRAINER_SERVER_URL"], body, headers)
        assert urllib.request.urlopen(request, timeout=60).status == 200
    return scheme


def train(rows, *, text):
    print("called with", text, flush=True)
    report(step=len(rows), total_steps=4, metrics={"rows": len(rows)})
    scheme = post(75)
    rank = os.environ.get("JAX_PROCESS_ID", "0")
    # Only what rank 0 returns is the job's value. It has 200 KiB, and more than a termination message has room for.
    return {"rank": rank, "total": Rows(rows).total(), "text": text, "rows": "é" * 102_400, "scheme": scheme}


def fail(rows):
    # The line below is the one that the traceback shows.
    return Rows(rows).values[7]


def use_missing(rows):
    return [*rows, GONE]


def too_large(rows):
    return "x" * 307_200


def _job(contract, function, *args, nodes=1, **kwargs):
    files = code_of(function, None, ()).call(args, kwargs, VALUE_LIMIT_BYTES)
    code = {"name": function.__name__, "files": files}
    return contract.case.job("", nodes=nodes, command=list(FUNCTION_COMMAND), function=code)


async def _verdict(contract, handle, status):
    return await verdict(contract.backend, handle, get_framework(handle.framework), status)


async def test_rank_0_returns_the_value_of_the_function(contract):
    text = 'é "$(HOME)" {{ ds }}\n# '
    nodes = 1 if contract.case.leader == "launcher-0" else 2

    handle, status = await contract.run(_job(contract, train, [1, 2], text=text, nodes=nodes))

    assert status.phase is JobPhase.SUCCEEDED, contract.lines
    summary = summarize(handle, status, await contract.backend.result(handle))
    scheme = summary["result"].pop("scheme")
    assert summary["result"] == {"rank": "0", "total": 30, "text": text, "rows": "é" * 102_400}
    assert summary["function"] == "train"
    assert sum("called with" in line for line in contract.lines) == nodes
    # Rank 0 alone reports, by a call and by Trainer's protocol, which Trainer itself may answer.
    assert scheme == "http" or contract.backend.name == "trainer"
    reports = [found for line in contract.lines if (found := read_json_line(line))]
    by_protocol = [Report(percent=75)] if scheme == "http" else []
    assert reports == [Report(step=2, total_steps=4, metrics={"rows": 2}), *by_protocol]
    # The lines that hold the value are left out.
    assert not any(is_frame(line) for line in contract.lines)


async def test_a_traceback_has_the_lines_of_the_dag_file(contract):
    handle, status = await contract.run(_job(contract, fail, [1]))

    found = await _verdict(contract, handle, status)
    assert (found.replica, found.exit_code) == (contract.case.leader, 1)
    assert found.traceback[-1] == "IndexError: list index out of range"
    line = fail.__code__.co_firstlineno + 2
    assert f'{Path(__file__).name}", line {line}, in fail' in "\n".join(found.traceback)
    assert "    return Rows(rows).values[7]" in found.traceback


async def test_code_that_cannot_be_loaded_is_no_fault_of_the_function(contract):
    handle, status = await contract.run(_job(contract, use_missing, [1]))

    found = await _verdict(contract, handle, status)
    assert (found.exit_code, found.retry_can_help) == (CANNOT_LOAD, "no")
    assert found.traceback[-1] == "AttributeError: module 'os' has no attribute 'no_such_function'"
    assert "could not be loaded" in found.way_out


async def test_a_value_that_is_too_large_loses_nothing_else(contract):
    handle, status = await contract.run(_job(contract, too_large, [1]))

    summary = summarize(handle, status, await contract.backend.result(handle))
    assert (summary["phase"], summary["result"]) == ("succeeded", None)
    assert "307243 bytes as JSON, and at most 262144 are returned: write it to storage" in summary["result_error"]
