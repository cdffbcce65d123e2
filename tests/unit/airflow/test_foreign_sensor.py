"""The sensor for jobs that something else made: found by name or label, followed, and never touched."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)
from airflow.sdk import DAG

from airflow_trainer_provider import TrainJobSensor
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.find import Wanted, find
from airflow_trainer_provider.errors import ApiError, JobTimeout, SpecError
from airflow_trainer_provider.hooks.found_jobs import Found, FoundJobs, allowed
from airflow_trainer_provider.job.conclusion import Conclusion
from airflow_trainer_provider.job.diagnosis import Diagnosis
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import JOBS, PODS
from airflow_trainer_provider.triggers.found_jobs import FoundJobsTrigger

READS = {"get", "list", "watch", "get_path", "logs"}


def job(name, kind="Job", *, ended=True, **metadata):
    metadata = {"name": name, "uid": f"uid-of-{name}", "namespace": "n", **metadata}
    metadata.setdefault("creationTimestamp", "2026-11-21T08:00:00Z")
    condition = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-11-21T08:01:00Z"}
    status = {"conditions": [condition]} if ended else {}
    return {"kind": kind, "metadata": metadata, "spec": {"template": {}}, "status": status}


class _Client:
    """An API server that holds some objects, and writes down what it is asked."""

    def __init__(self, *objects):
        self.objects = list(objects)
        self.verbs = []

    def __getattr__(self, verb):
        self.verbs.append(verb)
        return getattr(self, f"_{verb}")

    async def _list(self, resource, namespace, *, label_selector="", field_selector="", **_):
        name = field_selector.partition("=")[2]
        label = dict([label_selector.split("=")]) if label_selector and "=" in label_selector else {}
        items = [
            {field: value for field, value in each.items() if field not in ("kind", "apiVersion")}
            for each in self.objects
            if each["kind"] == resource.kind
            and name in ("", each["metadata"]["name"])
            and label.items() <= each["metadata"].get("labels", {}).items()
        ]
        return SimpleNamespace(items=items, resource_version="1")

    async def _get(self, resource, namespace, name):
        for each in self.objects:
            if (each["kind"], each["metadata"]["name"]) == (resource.kind, name):
                return each
        raise ApiError("not there", status=404)


class _Cluster:
    def __init__(self, *objects, served=("jobs", "pytorchjobs")):
        self.client = _Client(*objects)
        self.connection = SimpleNamespace(id="c", namespace=None)
        self._served = served

    async def serves(self, resource):
        return resource.plural in self._served


def _names(handles):
    return [handle.name for handle in handles]


async def test_a_job_is_found_by_name_whatever_its_kind():
    cluster = _Cluster(job("a"), job("b"))

    (handle,) = await find(cluster, "n", Wanted(name="b"))

    assert (handle.name, handle.backend, handle.location, handle.framework) == ("b", "native", "job/n/c", "")


async def test_the_framework_of_a_kind_that_runs_one_only_is_known():
    torch = job("a", "PyTorchJob")
    torch["spec"] = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}}}

    (handle,) = await find(_Cluster(torch), "n", Wanted(name="a"))

    assert (handle.framework, handle.leader) == ("pytorch", "master-0")


async def test_what_belongs_to_another_job_is_none_unless_its_kind_is_named():
    part = job("a", labels={"app": "x"}, ownerReferences=[{"kind": "JobSet"}])

    assert await find(_Cluster(part), "n", Wanted(selector="app=x")) == []
    assert _names(await find(_Cluster(part), "n", Wanted(selector="app=x", kind="job"))) == ["a"]


async def test_several_matches_are_named_or_all_taken():
    cluster = _Cluster(job("a", labels={"app": "x"}), job("b", labels={"app": "x"}), job("c"))

    with pytest.raises(SpecError, match="Job a, Job b"):
        await find(cluster, "n", Wanted(selector="app=x"))
    assert _names(await find(cluster, "n", Wanted(selector="app=x", every=True))) == ["a", "b"]


@pytest.mark.parametrize("fields", [{}, {"name": "a", "selector": "b"}, {"name": "a", "kind": "PyTrochJob"}])
def test_what_cannot_be_looked_for_is_refused(fields):
    with pytest.raises(SpecError):
        Wanted(**fields)


async def test_nothing_is_written_on_a_job_that_is_not_ours():
    cluster = _Cluster(job("a"))
    (handle,) = await find(cluster, "n", Wanted(name="a"))
    backend = ClusterBackend("native", cluster, "n")

    assert (await backend.status(handle)).phase is JobPhase.SUCCEEDED
    await backend.collected(handle)
    assert await backend.cancel(handle, "no") is False

    assert set(cluster.client.verbs) <= READS


@pytest.mark.parametrize(("message", "result"), [('{"a": 1}', b'{"a": 1}'), ("bye", None)])
async def test_the_termination_message_of_somebody_elses_job_is_its_result_if_it_is_json(message, result):
    state = {"terminated": {"exitCode": 0, "message": message, "finishedAt": "2026-11-21T08:00:30Z"}}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", "creationTimestamp": "2026-11-21T08:00:01Z"},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": state}]},
    }
    cluster = _Cluster(job("a"))
    (handle,) = await find(cluster, "n", Wanted(name="a"))
    listed = cluster.client._list

    async def with_pod(resource, *where, **selectors):
        return SimpleNamespace(items=[pod]) if resource == PODS else await listed(resource, *where, **selectors)

    cluster.client._list = with_pod

    assert await ClusterBackend("native", cluster, "n").result(handle) == result


class _Hook:
    """Looks in one cluster; waits as it is told."""

    def __init__(self, cluster, wait=None):
        self.cluster = cluster
        self.waits = []
        self._wait = wait
        self.trouble = []

    async def place(self):
        if self.trouble:
            raise self.trouble.pop()
        return self.cluster, "n"

    async def backend_of(self, handle):
        return ClusterBackend(handle.backend, self.cluster, "n")

    async def wait(self, handle, **options):
        self.waits.append((handle.name, options))
        if self._wait:
            raise self._wait
        return Conclusion(summary={"name": handle.name})


async def test_a_job_that_is_not_there_yet_is_waited_for_and_said_so():
    told, hook = [], _Hook(_Cluster())
    jobs = FoundJobs(hook, Wanted(name="a"), ["succeeded"], told.append)

    assert await jobs.poke("r") is None
    assert await jobs.poke("r") is None
    assert told == ["There is no training job called a in namespace n yet."]
    assert jobs.late() == "There was no training job called a in time."
    hook.cluster.client.objects.append(job("a"))

    assert [each.handle.name for each in await jobs.poke("r")] == ["a"]


async def test_trouble_of_the_cluster_is_waited_out_and_a_missing_right_is_not():
    hook = _Hook(_Cluster(job("a")))
    jobs = FoundJobs(hook, Wanted(name="a"), ["succeeded"], lambda line: None)

    hook.trouble = [ApiError("down", status=503)]
    assert await jobs.poke("r") is None
    hook.trouble = [ApiError("forbidden", status=403)]
    with pytest.raises(ApiError, match="forbidden"):
        await jobs.poke("r")


async def test_a_job_that_goes_on_is_not_there_yet():
    jobs = FoundJobs(
        _Hook(_Cluster(job("a", ended=False)), JobTimeout("")), Wanted(name="a"), ["succeeded"], lambda line: None
    )

    assert await jobs.poke("r") is None
    assert "training job a" in jobs.late()


async def test_the_lines_of_an_ended_job_are_read_to_their_end():
    hook = _Hook(_Cluster(job("a")))
    await FoundJobs(hook, Wanted(name="a"), ["succeeded"], lambda line: None).poke(None)

    ((_, options),) = hook.waits
    assert options["deadline"] is None
    assert options["reader"]
    assert options["only_until"] == {JobPhase.SUCCEEDED}


async def test_who_remembers_nothing_between_two_pokes_tells_nothing_before_all_have_ended():
    running = job("b", ended=False, labels={"app": "x"})
    told, hook = [], _Hook(_Cluster(job("a", labels={"app": "x"}), running))
    jobs = FoundJobs(hook, Wanted(selector="app=x", every=True), ["succeeded"], told.append)

    assert await jobs.poke(None) is None
    assert hook.waits == []
    assert [line.partition(": ")[0] for line in told] == ["Training job b"]
    running["status"] = job("b")["status"]

    assert len(await jobs.poke(None)) == 2
    assert all(options["reader"] and options["deadline"] is None for _, options in hook.waits)


async def test_who_waits_for_a_start_reads_no_lines():
    hook = _Hook(_Cluster(job("a")))
    await FoundJobs(hook, Wanted(name="a"), ["running"], lambda line: None).poke("r")

    ((_, options),) = hook.waits
    assert options["reader"] is None
    assert options["only_until"] == {JobPhase.RUNNING, JobPhase.SUCCEEDED}


async def test_all_that_match_are_waited_for_those_that_come_later_too():
    hook = _Hook(_Cluster(job("a", labels={"app": "x"})))
    jobs = FoundJobs(hook, Wanted(selector="app=x", every=True), ["succeeded"], lambda line: None)
    wait = hook.wait

    async def another_comes(handle, **options):
        if handle.name == "a":
            hook.cluster.client.objects.append(job("b", labels={"app": "x"}))
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
    ],
)
def test_what_does_not_fit_together_is_refused(context, fields, message):
    with pytest.raises(AirflowFailException, match=message):
        sensor(deferrable=True, **fields).execute(context)


def test_a_deferred_sensor_hands_over_all_that_its_trigger_needs(context):
    with pytest.raises(TaskDeferred) as deferred:
        sensor(selector="app=x", namespace="n", deferrable=True, timeout=60).execute(context)

    name, fields = deferred.value.trigger.serialize()
    assert name.endswith("FoundJobsTrigger")
    again = FoundJobsTrigger(**json.loads(json.dumps(fields)))
    assert Wanted(**again.wanted) == Wanted(selector="app=x")
    assert (again.allowed_phases, again.namespace) == (["succeeded"], "n")


FAILED = Diagnosis(job="a", phase="failed", reason="Error", message="It broke.")


async def _event(*conclusions):
    cluster = _Cluster(*(job(f"job-{index}", labels={"app": "x"}) for index in range(len(conclusions))))
    handles = await find(cluster, "n", Wanted(selector="app=x", every=True))
    found = [Found(handle, conclusion) for handle, conclusion in zip(handles, conclusions, strict=True)]
    return json.loads(json.dumps({"end": "concluded", "found": [each.to_json() for each in found]}))


async def test_the_outcome_of_one_is_a_summary_and_of_all_a_list(context):
    one, other = Conclusion(summary={"n": 1}), Conclusion(summary={"n": 2})

    assert sensor(name="a").execute_complete(context, await _event(one)) == {"n": 1}
    every = sensor(selector="app=x", every_match=True)
    assert every.execute_complete(context, await _event(one, other)) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(("soft_fail", "error"), [(False, AirflowException), (True, AirflowSkipException)])
async def test_a_failure_is_told_and_fails_or_skips(context, soft_fail, error):
    event = await _event(Conclusion(failure=FAILED))

    with pytest.raises(AirflowException, match="It broke") as caught:
        sensor(name="a", soft_fail=soft_fail).execute_complete(context, event)

    assert type(caught.value) is error
    assert context["ti"].pushed["failure"]["message"] == "It broke."


@pytest.mark.parametrize(("soft_fail", "error"), [(False, AirflowException), (True, AirflowSkipException)])
def test_a_poke_fails_or_skips_alike(context, soft_fail, error):
    task = sensor(name="a", soft_fail=soft_fail)

    async def poke(reader):
        raise ApiError("no answer")

    task._found = SimpleNamespace(poke=poke)

    with pytest.raises(AirflowException, match="no answer") as caught:
        task.poke(context)

    assert type(caught.value) is error


def test_a_wait_that_was_too_long_says_what_for(context):
    event = {"end": "timed out", "message": "There was no training job called a in time."}

    with pytest.raises(AirflowSensorTimeout, match="no training job called a"):
        sensor(name="a").execute_complete(context, event)


def test_the_kinds_of_a_wish_may_be_named_as_kubernetes_does():
    assert [kind.resource for kind in Wanted(name="a", kind="Job").kinds] == [JOBS]
    assert len(Wanted(name="a", kind="MPIJob").kinds) == 2
