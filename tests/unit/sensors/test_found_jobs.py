"""The sensor for jobs that something else made: found by name or label, followed, and never touched."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferred,
)
from airflow.sdk import DAG
from structlog.testing import capture_logs

from airflow_trainer_provider import TrainJobSensor
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.errors import ApiError, JobTimeout, SpecError
from airflow_trainer_provider.hooks.found_jobs import Found, FoundJobs, allowed
from airflow_trainer_provider.hooks.jobs import search
from airflow_trainer_provider.job.backend import Wanted
from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.outcome import JobOutcome
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import JOBS
from airflow_trainer_provider.kinds.registry import BACKENDS
from airflow_trainer_provider.operators.failures.exceptions import TrainJobFailure
from airflow_trainer_provider.triggers.found_jobs import FoundJobsTrigger
from tests.fakes.jobs import add_job, with_condition
from tests.fakes.kubernetes import NAMESPACE

SUCCEEDED = with_condition("Complete", "2026-11-21T08:01:00Z")
X = {"labels": {"app": "x"}}


@pytest.fixture
async def cluster(api):
    return await api.cluster()


def add(api, name, *, ended=True, **metadata):
    """A Job that something else made."""
    return add_job(api, "job", name, metadata=metadata, status=SUCCEEDED if ended else {})


async def find(cluster, wanted):
    return await search([ClusterBackend(name, cluster, NAMESPACE) for name in BACKENDS], wanted)


def names(handles):
    return [handle.name for handle in handles]


async def test_a_job_is_found_by_name_whatever_its_kind(api, cluster):
    add(api, "a")
    add(api, "b")

    (handle,) = await find(cluster, Wanted(name="b"))

    assert (handle.name, handle.backend, handle.location) == ("b", "native", f"job/{NAMESPACE}/kube")
    assert handle.framework == ""


async def test_the_framework_of_a_kind_that_runs_one_only_is_known(api, cluster):
    add_job(api, "pytorchjob", "a", spec={"pytorchReplicaSpecs": {"Master": {"replicas": 1}}})

    (handle,) = await find(cluster, Wanted(name="a"))

    assert (handle.framework, handle.leader) == ("pytorch", "master-0")


@pytest.mark.parametrize(
    ("owner", "found"), [("Service", []), ("JobSet", []), ("MPIJob", []), ("TrainJob", []), ("CronJob", ["a"])]
)
async def test_a_job_that_a_training_job_consists_of_is_none(api, cluster, owner, found):
    add(api, "a", **X, ownerReferences=[{"kind": owner, "name": "s", "uid": "u"}])

    assert names(await find(cluster, Wanted(selector="app=x", every=True))) == found


@pytest.mark.parametrize(("ttl", "expires"), [({"ttlSecondsAfterFinished": 60}, True), ({}, False)])
async def test_the_handle_says_whether_the_cluster_deletes_the_job(api, cluster, ttl, expires):
    add_job(api, "job", "a", spec={"completions": 1, "template": {}, **ttl})

    (handle,) = await find(cluster, Wanted(name="a"))

    assert handle.expires is expires


async def test_what_belongs_to_another_job_is_none_unless_its_kind_is_named(api, cluster):
    add(api, "a", **X, ownerReferences=[{"kind": "JobSet", "name": "s", "uid": "u"}])

    assert await find(cluster, Wanted(selector="app=x")) == []
    assert names(await find(cluster, Wanted(selector="app=x", kind="job"))) == ["a"]


async def test_several_matches_are_named_or_all_taken(api, cluster):
    for name, metadata in (("a", X), ("b", X), ("c", {})):
        add(api, name, **metadata)

    with pytest.raises(SpecError, match="job a in namespace team, job b in namespace team"):
        await find(cluster, Wanted(selector="app=x"))
    assert names(await find(cluster, Wanted(selector="app=x", every=True))) == ["a", "b"]


@pytest.mark.parametrize("fields", [{}, {"name": "a", "selector": "b"}, {"name": "a", "kind": "PyTrochJob"}])
async def test_what_cannot_be_looked_for_is_refused(cluster, fields):
    with pytest.raises(SpecError):
        await find(cluster, Wanted(**fields))


async def test_nothing_is_written_on_a_job_that_is_not_ours(api, cluster):
    add(api, "a")
    (handle,) = await find(cluster, Wanted(name="a"))
    backend = ClusterBackend("native", cluster, NAMESPACE)

    assert (await backend.status(handle)).phase is JobPhase.SUCCEEDED
    await backend.acknowledge(handle)
    assert await backend.cancel(handle, "no") is False

    assert api.writes == []


class _Hook:
    """Looks in one cluster; waits as the test wants it to."""

    def __init__(self, cluster, wait=None):
        self.cluster = cluster
        self.waits = []
        self._wait = wait

    async def search(self, wanted):
        return await find(self.cluster, wanted)

    async def where(self):
        return f"in namespace {NAMESPACE}"

    async def backend_of(self, handle):
        return ClusterBackend(handle.backend, self.cluster, NAMESPACE)

    async def wait(self, handle, **options):
        self.waits.append((handle.name, options))
        if self._wait:
            raise self._wait
        return JobOutcome(summary={"name": handle.name})


async def test_a_job_that_is_not_there_yet_is_waited_for_and_said_so(api, cluster):
    messages = []
    jobs = FoundJobs(_Hook(cluster), Wanted(name="a"), ["succeeded"], messages.append)

    assert await jobs.poke("r") is None
    assert await jobs.poke("r") is None
    assert messages == [f"There is no training job called a in namespace {NAMESPACE} yet."]
    assert jobs.late() == "There was no training job called a in time."
    add(api, "a")

    assert [each.handle.name for each in await jobs.poke("r")] == ["a"]


async def test_an_error_of_the_cluster_is_waited_out_and_a_missing_right_is_not(api):
    add(api, "a")
    cluster = Cluster(api.connection(), outage_budget=0)
    jobs = FoundJobs(_Hook(cluster), Wanted(name="a"), ["succeeded"], lambda line: None)

    for code in (503, 429):
        down = api.answer(code, "GET", "/jobs$")
        assert await jobs.poke("r") is None
        assert down.hits
        api.heal()
    api.answer(403, "GET", "/jobs$")
    with pytest.raises(ApiError, match="Forbidden"):
        await jobs.poke("r")
    await cluster.close()


async def test_a_job_that_goes_on_is_not_there_yet(api, cluster):
    add(api, "a", ended=False)
    jobs = FoundJobs(_Hook(cluster, JobTimeout("")), Wanted(name="a"), ["succeeded"], lambda line: None)

    assert await jobs.poke("r") is None
    assert "training job a" in jobs.late()


async def test_the_lines_of_an_ended_job_are_read_to_their_end(api, cluster):
    add(api, "a")
    hook = _Hook(cluster)
    await FoundJobs(hook, Wanted(name="a"), ["succeeded"], lambda line: None).poke(None)

    ((_, options),) = hook.waits
    assert options["deadline"] is None
    assert options["reader"]
    assert options["only_until"] == {JobPhase.SUCCEEDED}


async def test_without_memory_between_two_pokes_nothing_is_logged_before_all_have_ended(api, cluster):
    add(api, "a", **X)
    add(api, "b", ended=False, **X)
    messages, hook = [], _Hook(cluster)
    jobs = FoundJobs(hook, Wanted(selector="app=x", every=True), ["succeeded"], messages.append)

    assert await jobs.poke(None) is None
    assert hook.waits == []
    assert [line.partition(": ")[0] for line in messages] == ["Training job b"]
    api.update(JOBS, "b", {"status": SUCCEEDED})

    assert len(await jobs.poke(None)) == 2
    assert all(options["reader"] and options["deadline"] is None for _, options in hook.waits)


async def test_who_waits_for_a_start_reads_no_lines(api, cluster):
    add(api, "a")
    hook = _Hook(cluster)
    await FoundJobs(hook, Wanted(name="a"), ["running"], lambda line: None).poke("r")

    ((_, options),) = hook.waits
    assert options["reader"] is None
    assert options["only_until"] == {JobPhase.RUNNING, JobPhase.SUCCEEDED}


async def test_all_that_match_are_waited_for_those_that_come_later_too(api, cluster):
    add(api, "a", **X)
    hook = _Hook(cluster)
    jobs = FoundJobs(hook, Wanted(selector="app=x", every=True), ["succeeded"], lambda line: None)
    wait = hook.wait

    async def another_comes(handle, **options):
        if handle.name == "a":
            add(api, "b", **X)
        return await wait(handle, **options)

    hook.wait = another_comes

    assert [each.handle.name for each in await jobs.wait("r", None)] == ["a", "b"]


@pytest.mark.parametrize("phases", [[], ["finished"]])
def test_a_phase_that_is_none_is_refused(phases):
    with pytest.raises(SpecError, match="allowed_phases"):
        allowed(phases)


def sensor(**fields):
    with DAG("d", schedule=None):
        return TrainJobSensor(task_id="wait", **fields)


class _TaskInstance(SimpleNamespace):
    def xcom_push(self, key, value):
        self.pushed[key] = value


@pytest.fixture
def context():
    ti = _TaskInstance(dag_id="d", run_id="r", task_id="wait", map_index=-1, try_number=1, pushed={})
    return {"ti": ti}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "either name or selector"),
        ({"name": "a", "selector": "b"}, "either name or selector"),
        ({"job": {}, "name": "a"}, "no value beside job"),
        ({"name": "a", "allowed_phases": ["done"]}, "allowed_phases"),
        ({"name": "a", "allowed_phases": "succeeded"}, "allowed_phases: got 'str'; allowed: a list"),
        ({"name": "a", "allowed_phases": "['succeeded']"}, "render_template_as_native_obj=True"),
        ({"name": "a", "allowed_phases": [["succeeded"]]}, r"allowed_phases\[0\]: got 'list'; allowed: text"),
        ({"name": "a", "allowed_phases": 5}, "allowed_phases: got 5"),
        ({"name": ["a"]}, "name: got 'list'; allowed: text"),
        ({"name": "../a"}, "name: got '../a'"),
        ({"selector": {"app": "x"}}, "selector: got 'dict'; allowed: text"),
        ({"name": "a", "kind": ["Job"]}, "kind: got 'list'; allowed: text"),
        ({"name": "a", "namespace": "team/x"}, "namespace: got 'team/x'"),
        ({"job": "not a handle"}, "job: got 'str'"),
        ({"job": {"a": object()}}, "job: got 'dict'"),
    ],
)
def test_what_does_not_fit_together_is_refused(context, fields, message):
    with pytest.raises(AirflowFailException, match=message):
        sensor(deferrable=True, **fields).execute(context)


def test_a_deferred_sensor_hands_over_all_that_its_trigger_needs(context):
    context["ti"].map_index, context["ti"].try_number = 3, 2
    begun = datetime.now(timezone.utc)
    with pytest.raises(TaskDeferred) as deferred:
        sensor(selector="app=x", namespace="n", kubernetes_conn_id="c", deferrable=True, timeout=60).execute(context)

    name, fields = deferred.value.trigger.serialize()
    assert name.endswith("FoundJobsTrigger")
    again = FoundJobsTrigger(**json.loads(json.dumps(fields)))
    assert Wanted(**again.wanted) == Wanted(selector="app=x")
    assert (again.allowed_phases, again.namespace, again.kubernetes_conn_id) == (["succeeded"], "n", "c")
    # Each task instance has a log cursor of its own.
    assert again.reader == "d-wait-3-try-2"
    assert timedelta(seconds=60) <= datetime.fromisoformat(again.deadline) - begun < timedelta(seconds=120)


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (JobTimeout("late"), {"end": "timed out", "message": "There was none of them in time."}),
        (ApiError("forbidden", status=403), {"end": "error", "message": "forbidden", "retryable": True}),
        (SpecError([]), {"end": "error", "message": str(SpecError([])), "retryable": False}),
    ],
)
async def test_a_trigger_looks_where_its_row_says_and_reports_how_the_wait_ended(monkeypatch, cluster, error, event):
    class NoJobs:
        def __init__(self, hook, wanted, phases, emit):
            self.hook = hook
            assert (wanted, phases) == (Wanted(name="a"), ["running"])

        async def wait(self, reader, deadline):
            assert (reader, deadline.isoformat()) == ("r", "2026-01-01T00:00:00+00:00")
            assert await self.hook.where() == "in namespace n"
            raise error

        def late(self):
            return "There was none of them in time."

    async def cluster_of(self, conn_id):
        assert conn_id == "c"
        return cluster

    monkeypatch.setattr("airflow_trainer_provider.hooks.found_jobs.FoundJobs", NoJobs)
    monkeypatch.setattr("airflow_trainer_provider.hooks.trainer.TrainerHook._cluster", cluster_of)
    ready = []

    async def ready_to_fire(trigger, begun):
        ready.append(trigger)

    monkeypatch.setattr("airflow_trainer_provider.triggers.firing.ready_to_fire", ready_to_fire)
    wanted = {"name": "a", "selector": None, "kind": None, "every": False}
    trigger = FoundJobsTrigger(wanted, ["running"], "c", "n", "r", "2026-01-01T00:00:00+00:00")

    assert [each.payload async for each in trigger.run()] == [event]
    assert ready == [trigger]


FAILED = Diagnosis(job="a", phase="failed", reason="Error", message="It broke.")


HANDLE = JobHandle(
    name="a", uid="u", backend="native", framework="", leader="worker-0", owner=0, location=f"job/{NAMESPACE}/kube"
)


def _event(*outcomes):
    found = [Found(HANDLE, outcome).to_json() for outcome in outcomes]
    return json.loads(json.dumps({"end": "concluded", "found": found}))


def test_the_outcome_of_one_is_a_summary_and_of_all_a_list(context):
    one, other = JobOutcome(summary={"n": 1}), JobOutcome(summary={"n": 2})

    assert sensor(name="a").execute_complete(context, _event(one)) == {"n": 1}
    every = sensor(selector="app=x", every_match=True)
    assert every.execute_complete(context, _event(one, other)) == [{"n": 1}, {"n": 2}]


def test_a_function_without_a_value_fails_for_good(context):
    good = {"function": "train", "result": 1}
    bad = {"function": "train", "result": None, "result_error": "its value has a set"}
    one, other = JobOutcome(summary=good), JobOutcome(summary=bad)

    assert sensor(name="a").execute_complete(context, _event(one)) == good
    with pytest.raises(AirflowFailException, match="job a has succeeded, but its value has a set"):
        sensor(name="a").execute_complete(context, _event(other))
    assert context["ti"].pushed == {"summary": bad}
    with pytest.raises(AirflowFailException, match="its value has a set"):
        sensor(selector="app=x", every_match=True).execute_complete(context, _event(one, other))
    assert context["ti"].pushed == {"summary": [good, bad]}


@pytest.mark.parametrize(("soft_fail", "error"), [(False, TrainJobFailure), (True, AirflowSkipException)])
def test_a_failure_is_logged_and_fails_or_skips(context, soft_fail, error):
    event = _event(JobOutcome(failure=FAILED))

    with pytest.raises(AirflowException, match="It broke") as caught:
        sensor(name="a", soft_fail=soft_fail).execute_complete(context, event)

    assert type(caught.value) is error
    assert context["ti"].pushed["failure"]["message"] == "It broke."


def test_a_try_that_gets_the_event_of_an_earlier_one_waits_itself(context):
    task = sensor(name="a", deferrable=True)
    with pytest.raises(TaskDeferred) as first:
        task.execute(context)
    context["ti"].try_number += 1
    event = {"end": "error", "message": "no answer", "retryable": True}

    with pytest.raises(TaskDeferred) as second:
        task.execute_complete(context, event, **first.value.kwargs)

    assert second.value.kwargs["try_number"] == 2
    with pytest.raises(TrainJobFailure, match="no answer"):
        task.execute_complete(context, event, **second.value.kwargs)


def test_a_job_whose_task_has_returned_no_handle_is_said_so(context):
    task = sensor(job="{{ ti.xcom_pull('train') }}", deferrable=True)
    task.job = None  # as it is rendered

    with pytest.raises(AirflowFailException, match=r"job: got None; .* it failed, was skipped, or pushes no XCom"):
        task.execute(context)


@pytest.mark.parametrize("fields", [{"name": "a"}, {"job": dict(HANDLE.to_xcom())}], ids=["found", "handle"])
@pytest.mark.parametrize(
    ("limit", "timeout", "error"), [(30, 60, AirflowTaskTimeout), (60, 30, AirflowSensorTimeout), (None, 30, None)]
)
def test_the_first_of_its_two_times_ends_a_deferred_wait(context, fields, limit, timeout, error):
    limits = {"execution_timeout": limit and timedelta(seconds=limit), "timeout": timeout}
    task = sensor(deferrable=True, **limits, **fields)
    begun = datetime.now(timezone.utc)
    with pytest.raises(TaskDeferred) as deferred:
        task.execute(context)

    deadline = datetime.fromisoformat(deferred.value.trigger.deadline)
    assert timedelta(seconds=30) <= deadline - begun < timedelta(seconds=45)
    with pytest.raises(error or AirflowSensorTimeout):
        task.execute_complete(context, {"end": "timed out"} | ({"message": "none"} if "name" in fields else {}))


@pytest.mark.parametrize("field", ["soft_fail", "never_fail"])
def test_a_deferred_wait_whose_execution_timeout_is_over_may_skip(context, field):
    task = sensor(name="a", execution_timeout=timedelta(seconds=1), **{field: True})

    with pytest.raises(AirflowSkipException, match=rf"{field} .*none in time. execution_timeout \(1 s\) had passed"):
        task.execute_complete(context, {"end": "timed out", "message": "none in time."})


def test_a_deferred_sensor_that_fails_silently_waits_on_for_the_time_that_is_left(context):
    task = sensor(name="a", deferrable=True, silent_fail=True, timeout=60)
    with pytest.raises(TaskDeferred) as first:
        task.execute(context)
    event = {"end": "error", "message": "no answer", "retryable": True}

    with pytest.raises(TaskDeferred) as second:
        task.execute_complete(context, event, **first.value.kwargs)
    assert second.value.trigger.deadline == first.value.trigger.deadline
    # Without a scheduler.
    with pytest.raises(TaskDeferred):
        task.execute_complete(context, event)
    with pytest.raises(AirflowFailException, match="no answer"):
        task.execute_complete(context, event | {"retryable": False}, **first.value.kwargs)
    with pytest.raises(TrainJobFailure, match="It broke"):
        task.execute_complete(context, _event(JobOutcome(failure=FAILED)), **first.value.kwargs)


@pytest.mark.parametrize(("silent", "error"), [(True, AirflowFailException), (False, TrainJobFailure)])
def test_a_poke_that_finds_a_failed_job_fails_also_where_errors_are_silent(context, silent, error):
    task = sensor(name="a", silent_fail=silent, timeout=60, poke_interval=0)
    found = [Found(HANDLE, JobOutcome(failure=FAILED))]

    async def poke(reader):
        if silent and not context["ti"].pushed.setdefault("looks", 0):
            context["ti"].pushed["looks"] = 1
            raise ApiError("no answer")
        return found

    task._found = SimpleNamespace(poke=poke)

    with pytest.raises(error, match="It broke"):
        task.execute(context)


@pytest.mark.parametrize(("soft_fail", "error"), [(False, TrainJobFailure), (True, AirflowSkipException)])
def test_a_poke_fails_or_skips_alike(context, soft_fail, error):
    task = sensor(name="a", soft_fail=soft_fail)

    async def poke(reader):
        raise ApiError("no answer")

    task._found = SimpleNamespace(poke=poke)

    with pytest.raises(AirflowException, match="no answer") as caught:
        task.poke(context)

    assert type(caught.value) is error


@pytest.mark.parametrize(("mode", "reader"), [("poke", "d-wait--1-try-1"), ("reschedule", None)])
def test_a_sensor_that_is_rescheduled_has_no_log_cursor(context, mode, reader):
    task = sensor(name="a", mode=mode)
    readers = []

    async def poke(reader):
        readers.append(reader)

    task._found = SimpleNamespace(poke=poke)

    assert not task.poke(context).is_done
    assert readers == [reader]


def test_each_poke_logs_all_lines_and_the_phase_only_when_it_has_changed():
    task = sensor(name="a")
    with capture_logs() as entries:
        for phase in ("starting", "running", "running"):
            task._emit(f"Training job a: {phase}.")
            task._emit("[worker-0] epoch 1")

    assert [entry["event"].rpartition(" ")[2] for entry in entries] == ["starting.", "1", "running.", "1", "1"]


def test_a_wait_that_was_too_long_says_what_for(context):
    event = {"end": "timed out", "message": "There was no training job called a in time."}

    with pytest.raises(AirflowSensorTimeout, match="no training job called a"):
        sensor(name="a").execute_complete(context, event)
