"""A reader's cursor in the logs of a job is kept on the job, for whoever reads on."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from airflow_trainer_provider.cluster.logs import follow as module
from airflow_trainer_provider.cluster.logs import job_logs as logs
from airflow_trainer_provider.cluster.logs.follow import JobLogs
from airflow_trainer_provider.cluster.logs.job_logs import lines_of
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.snapshot import Snapshot
from airflow_trainer_provider.kinds.base import PODS
from airflow_trainer_provider.kinds.registry import KINDS
from airflow_trainer_provider.timeouts import end_tasks
from tests.fakes.jobs import add_job, add_pod, ours

KIND = KINDS["jaxjob"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(logs, "_TICK", 0.01)


@pytest.fixture
def pod(api):
    """The pod of a job that has ended, with two lines."""
    add_job(api, "jaxjob", "j", metadata=ours("j"))
    state = {"terminated": {"exitCode": 0, "containerID": "c", "finishedAt": "2026-11-21T07:00:59Z"}}
    pod = add_pod(api, "j", phase="Succeeded", state=state)
    api.write_log(pod, "one", "two")
    return pod


async def read(api, reader, *, main=None, most=None):
    """The lines that a reader gets.

    :param most: so many lines, after which it stops; None for all.
    """
    ended = asyncio.Event()
    ended.set()
    found = JobLogs(await api.cluster(), JobObject(KIND, main or api.get(KIND.resource, "j")), reader)
    async with aclosing(lines_of(found.blocks(ended))) as lines:
        if most is not None:
            return [(await anext(lines)).text for _ in range(most)]
        return [line.text async for line in lines]


def cursors(api):
    """The cursors that are kept on the job."""
    return [name for name in api.get(KIND.resource, "j")["metadata"]["annotations"] if "/log-" in name]


async def test_each_reader_reads_each_line_once(api, pod):
    assert await read(api, "task") == ["one", "two"]
    api.write_log(pod, "three")

    assert await read(api, "task") == ["three"]
    assert await read(api, "task") == []
    assert await read(api, "another") == ["one", "two", "three"]
    assert len(cursors(api)) == 2


@pytest.mark.parametrize("most", [1, 2])
async def test_a_reader_that_stops_within_a_block_of_lines_gets_the_rest_of_it_later(api, pod, most):
    api.write_log(pod, "three")

    assert await read(api, "task", most=most) == ["one", "two", "three"][:most]
    assert api.writes == ["PATCH jaxjobs/j"]
    assert await read(api, "task") == ["one", "two", "three"][most:]


async def test_a_cursor_is_kept_on_this_very_job_only(api, pod):
    main = api.get(KIND.resource, "j")
    api.remove(KIND.resource, "j")
    add_job(api, "jaxjob", "j", metadata=ours("j"))

    assert await read(api, "task", main=main) == ["one", "two"]

    ((name, patch),) = api.patches
    assert (name, patch["metadata"]["uid"]) == ("jaxjobs/j", main["metadata"]["uid"])
    assert cursors(api) == []


@pytest.mark.parametrize("reader", ["", "task"])
async def test_nothing_is_written_without_a_name_or_on_a_job_created_outside_airflow(api, pod, reader):
    if reader:
        api.update(KIND.resource, "j", {"metadata": {"labels": None}})

    assert await read(api, reader) == ["one", "two"]
    assert api.writes == []


async def test_a_cursor_that_cannot_be_kept_costs_no_line(api, pod):
    api.answer(403, "PATCH", "/jaxjobs/")

    assert await read(api, "task") == ["one", "two"]
    assert await read(api, "task") == ["one", "two"]


async def test_a_cursor_that_is_long_in_being_kept_holds_up_no_line(api, monkeypatch, caplog):
    monkeypatch.setattr(module, "_SAVE_SECONDS", 0.0)
    monkeypatch.setattr(module, "_LAST_SAVE_SECONDS", 0.1)
    hanging = api.hang("PATCH", "/jaxjobs/")
    job = JobObject(KIND, add_job(api, "jaxjob", "j", metadata=ours("j")))
    pod = add_pod(api, "j")
    api.write_log(pod, "one", "two")

    async with aclosing(lines_of(JobLogs(await api.cluster(), job, "task").blocks(asyncio.Event()))) as lines:
        assert (await anext(lines)).text == "one"
        assert (await anext(lines)).text == "two"
        following = asyncio.ensure_future(anext(lines))
        await hanging.reached.wait()
        for text in ("three", "four"):
            api.write_log(pod, text)
            assert (await following).text == text
            # As long as it takes to send a request.
            following = asyncio.ensure_future(anext(lines))
            await asyncio.sleep(0.05)
        await end_tasks([following])
    assert hanging.hits == 1
    assert "The log cursor of j was not saved in time" in caplog.text
    assert "cursor of logs" not in {task.get_name() for task in asyncio.all_tasks()}


async def test_the_last_lines_of_a_replica_are_masked_and_go_with_its_pod(api):
    cluster, job = await api.cluster(), JobObject(KIND, add_job(api, "jaxjob", "j", metadata=ours("j")))
    pod = add_pod(api, "j", phase="Failed", env=[{"name": "DB_PASSWORD", "value": "hunter2-x"}])
    api.write_log(pod, "one", "login hunter2-x", "three")
    snapshot = Snapshot(job, [pod])

    assert await JobLogs(cluster, job, "").tail(snapshot, "worker-0", 2) == ["login ***", "three"]
    api.remove(PODS, "j-worker-0")
    assert await JobLogs(cluster, job, "").tail(snapshot, "worker-0", 2) == []


@pytest.mark.parametrize(("phase", "code", "line"), [("Failed", 3, "disk is full"), ("Succeeded", 0, "trained")])
async def test_the_last_lines_are_those_of_the_container_that_has_failed_or_the_trainings(api, phase, code, line):
    cluster, job = await api.cluster(), JobObject(KIND, add_job(api, "jaxjob", "j", metadata=ours("j")))
    add_pod(api, "j", phase=phase)
    ends = {"shipper": {"exitCode": code, "finishedAt": "2026-11-21T07:00:59Z"}, "jax": {"exitCode": 0}}
    statuses = [{"name": name, "state": {"terminated": end}} for name, end in ends.items()]
    containers = [{"name": name} for name in ends]
    update = {"spec": {"containers": containers}, "status": {"containerStatuses": statuses}}
    pod = api.update(PODS, "j-worker-0", update)
    api.write_log(pod, "trained", container="jax")
    api.write_log(pod, "disk is full", container="shipper")

    assert await JobLogs(cluster, job, "").tail(Snapshot(job, [pod]), "worker-0", 2) == [line]


async def test_where_the_node_has_no_log_any_more_the_lines_that_were_read_are_the_last(api, pod):
    cluster, job = await api.cluster(), JobObject(KIND, api.get(KIND.resource, "j"))
    ended, logs = asyncio.Event(), JobLogs(cluster, job, "")
    ended.set()
    async with aclosing(lines_of(logs.blocks(ended))) as lines:
        assert [line.text async for line in lines] == ["one", "two"]
    metadata = {"labels": pod["metadata"]["labels"], "creationTimestamp": "2026-11-21T06:00:00Z"}
    older = api.add(PODS, "earlier", metadata=metadata, spec=pod["spec"], status=pod["status"])
    api.write_log(older, "of an earlier attempt")
    api.remove_containers(pod)

    assert await logs.tail(Snapshot(job, [older, pod]), "worker-0", 9) == ["one", "two"]
    # Who has read nothing of the newest pod has no word of an earlier one in its place.
    assert await JobLogs(cluster, job, "").tail(Snapshot(job, [older, pod]), "worker-0", 9) == []
    assert await JobLogs(cluster, job, "").tail(Snapshot(job, [pod]), "worker-0", 9) == []


async def test_the_lines_that_were_read_of_an_earlier_pod_are_not_those_of_the_newest(api, pod):
    cluster, job = await api.cluster(), JobObject(KIND, api.get(KIND.resource, "j"))
    ended, logs = asyncio.Event(), JobLogs(cluster, job, "")
    ended.set()
    async with aclosing(lines_of(logs.blocks(ended))) as lines:
        assert [line.text async for line in lines] == ["one", "two"]
    metadata = {"labels": pod["metadata"]["labels"], "creationTimestamp": "2026-11-21T08:00:00Z"}
    newest = api.add(PODS, "later", metadata=metadata, spec=pod["spec"], status=pod["status"])
    api.remove_containers(newest)

    assert await logs.tail(Snapshot(job, [pod, newest]), "worker-0", 9) == []


async def test_a_pod_that_has_never_run_has_no_last_lines_and_an_earlier_one_has(api, pod):
    cluster, job = await api.cluster(), JobObject(KIND, api.get(KIND.resource, "j"))
    metadata = {"labels": pod["metadata"]["labels"], "creationTimestamp": "2026-11-21T08:00:00Z"}
    status = {"phase": "Pending", "containerStatuses": [{"name": "jax", "state": {"waiting": {}}}]}
    newest = api.add(PODS, "later", metadata=metadata, spec=pod["spec"], status=status)

    assert await JobLogs(cluster, job, "").tail(Snapshot(job, [pod, newest]), "worker-0", 9) == ["one", "two"]
