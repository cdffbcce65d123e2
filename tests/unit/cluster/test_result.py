"""A function's value that is in the log of its pod: put together whoever has followed that, or could not."""

from __future__ import annotations

import asyncio
import json

import pytest

from airflow_trainer_provider.cluster import result
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.logs import job_logs
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.functions import runner
from airflow_trainer_provider.job.backend import LogSelection
from airflow_trainer_provider.job.result import VALUE_LIMIT_BYTES
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS
from tests.fakes.jobs import add_job, add_pod, ours, with_condition
from tests.fakes.kubernetes import NAMESPACE

KIND = KINDS["jaxjob"]
LOG = "/pods/j-worker-0/log"
SECRET = "correct-horse-battery"
VALUE = {"rows": "é1" * 50_000, "said": f"{SECRET} it is"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(result, "_AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(job_logs, "_TICK", 0.01)


@pytest.fixture
def printed(tmp_path, monkeypatch, capfd):
    """What the runner writes of the value: the termination message, and the lines."""
    monkeypatch.setenv("TRAINER_RESULT_PATH", str(tmp_path / "message"))
    runner._return({"function": "f", "limit": VALUE_LIMIT_BYTES}, VALUE)
    return (tmp_path / "message").read_text(), [line for line in capfd.readouterr().out.splitlines() if line]


class Job:
    """A job that has ended, and the lines of its pod."""

    def __init__(self, api, message):
        self.api = api
        self.handle = JobObject(KIND, add_job(api, "jaxjob", "j", metadata=ours("j"))).handle("kube")
        ended = {"exitCode": 0, "containerID": "c", "finishedAt": "2026-11-21T07:00:59Z", "message": message}
        env = [{"name": "API_TOKEN", "value": SECRET}]
        self.pod = add_pod(api, "j", phase="Succeeded", state={"terminated": ended}, env=env)

    async def backend(self):
        return ClusterBackend("training-operator", await self.api.cluster(), NAMESPACE)

    async def result(self):
        """What a process returns that has followed nothing."""
        return json.loads(await (await self.backend()).result(self.handle))

    @property
    def reads(self):
        return [each.query.get("tailLines") for each in self.api.requests if each.path.endswith("/log")]


@pytest.fixture
def job(api, printed):
    return Job(api, printed[0])


def expected():
    """The value, in which secrets of the job's own variables are masked."""
    return {"trainer_function": "f", "value": {**VALUE, "said": "*** it is"}}


async def followed(backend, handle):
    """All lines that a task shows."""
    ended = asyncio.Event()
    ended.set()
    return [str(line) async for line in backend.logs(handle, "task", ended)]


async def test_the_value_is_read_by_a_process_that_has_followed_nothing(job, printed):
    job.api.write_log(job.pod, "loss 0.1", *printed[1], "rank 1: bye")

    assert await job.result() == expected()
    assert job.reads == [str(len(printed[1]) + 1000)]


async def test_lines_that_are_far_from_the_end_are_found(job, printed):
    job.api.write_log(job.pod, *printed[1], *("rank 1: bye" for _ in range(1200)))

    assert await job.result() == expected()
    assert job.reads[1:] == [None]


async def test_reading_goes_on_over_an_outage(job, printed):
    job.api.write_log(job.pod, *printed[1])
    cut = job.api.cut("GET", LOG, times=2)
    refused = job.api.answer(503, "GET", LOG, times=1)

    assert await job.result() == expected()
    assert (cut.hits, refused.hits) == (2, 1)


async def test_who_followed_the_log_needs_none_of_it_at_the_end(job, printed):
    job.api.write_log(job.pod, "begun", *printed[1][:3], "rank 1: bye", *printed[1][3:])
    backend = await job.backend()

    assert await followed(backend, job.handle) == ["[worker-0] begun", "[worker-0] rank 1: bye"]
    await ended(backend, job)
    job.api.end_pod("j-worker-0")
    reads = len(job.reads)
    assert json.loads(await backend.result(job.handle)) == expected()
    assert len(job.reads) == reads


async def test_what_was_followed_and_what_came_after_a_rotation_are_put_together(job, printed):
    job.api.write_log(job.pod, *printed[1][:20])
    backend = await job.backend()
    assert await followed(backend, job.handle) == []
    job.api.rotate_log(job.pod)
    job.api.write_log(job.pod, *printed[1][20:])

    # A failure to read the lines makes the task read them once more.
    assert await followed(backend, job.handle) == []
    assert json.loads(await backend.result(job.handle)) == expected()
    assert "error" in await job.result()


async def test_a_value_whose_lines_have_gone_with_a_rotation_is_an_error_that_says_so(job, printed):
    job.api.write_log(job.pod, *printed[1])
    job.api.rotate_log(job.pod)
    job.api.write_log(job.pod, *printed[1][50:])

    found = await job.result()

    assert found["trainer_function"] == "f"
    count = len(printed[1])
    assert f"of its {count} lines" in found["error"]
    assert "50 (1, 2, 3, 4, 5, ...) are not in the log of pod j-worker-0. Kubernetes gives the newest" in found["error"]
    assert job.reads == [str(count + 1000), None, None]


async def test_a_value_whose_log_cannot_be_read_is_an_error_that_says_why(job, printed):
    job.api.write_log(job.pod, *printed[1])
    job.api.answer(403, "GET", LOG, message="pods/log is forbidden")

    found = await job.result()

    assert "are not in the log of pod j-worker-0, which cannot be read (GET " in found["error"]
    assert "403 Forbidden: pods/log is forbidden" in found["error"]


@pytest.mark.parametrize("status", [None, 401, 500, 503])
async def test_while_the_api_server_does_not_answer_there_is_no_result(job, printed, status):
    job.api.write_log(job.pod, *printed[1])
    if status is None:
        job.api.cut("GET", LOG, times=1000)
    else:
        job.api.answer(status, "GET", LOG, times=1000)
    backend = await job.backend()
    backend._cluster.client._requests._retrier._budget = 0.05

    with pytest.raises(ApiError):
        await backend.result(job.handle)


async def test_the_lines_of_a_value_are_never_shown(job, printed):
    job.api.write_log(job.pod, "one", "two", *printed[1], "three")
    backend = await job.backend()

    async def shown(**selection):
        blocks = backend.show_logs(job.handle, LogSelection(**selection))
        return [str(line) async for block in blocks for line in block.lines()]

    lines = [f"[worker-0] {text}" for text in ("one", "two", "three")]
    assert await shown() == lines
    assert await shown(tail=2) == lines[1:]
    assert await shown(tail=0) == []
    assert await backend.log_tail(job.handle, "worker-0", 2) == ["two", "three"]
    await ended(backend, job)
    assert await shown(follow=True) == lines


async def ended(backend, job):
    """Have a process see the job's end."""
    job.api.update(KIND.resource, "j", {"status": with_condition("Succeeded")})
    async for _ in backend.watch(job.handle):
        pass


async def _shown(backend, job, **selection):
    blocks = backend.show_logs(job.handle, LogSelection(**selection))
    return [str(line) async for block in blocks for line in block.lines()]


async def test_a_secret_of_the_jobs_variables_is_masked_in_its_log(job):
    job.api.write_log(job.pod, f"the token is {SECRET}")

    assert await _shown(await job.backend(), job) == ["[worker-0] the token is ***"]


async def test_the_last_lines_of_a_log_that_is_followed_are_shown_once(job):
    job.api.write_log(job.pod, "one", "two", "three")
    backend = await job.backend()
    await ended(backend, job)

    assert await _shown(backend, job, follow=True, tail=2) == ["[worker-0] two", "[worker-0] three"]


async def test_one_replica_is_followed_alone(job):
    job.api.update(KIND.resource, "j", {"metadata": {"annotations": {labels.GROUPS: '{"worker": 2}'}}})
    state = {"terminated": {"exitCode": 0, "containerID": "d", "finishedAt": "2026-11-21T07:00:59Z"}}
    other = add_pod(job.api, "j", phase="Succeeded", index=1, state=state)
    job.api.write_log(job.pod, "one")
    job.api.write_log(other, "two")
    backend = await job.backend()
    await ended(backend, job)

    assert await _shown(backend, job, follow=True, replica="worker-1") == ["[worker-1] two"]
