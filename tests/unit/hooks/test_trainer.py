"""The hook finds the backend: named, chosen by what a cluster has, or by a job's handle alone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowNotFoundException

from airflow_trainer_provider.cluster.logs.streams import LogStreams
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.errors import (
    ApiError,
    BackendUnavailable,
    ConnectionUnreadable,
    JobLost,
    JobTimeout,
    SpecError,
)
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.hooks import masking, trainer
from airflow_trainer_provider.hooks.backends import AUTO, BACKENDS, LOCAL
from airflow_trainer_provider.hooks.trainer import TrainerHook
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus
from airflow_trainer_provider.kinds import registry
from airflow_trainer_provider.kinds.kubeflow.training_operator import PYTORCHJOB
from airflow_trainer_provider.kinds.mpi_operator.mpijob import MPIJOB_V1, MPIJOB_V2BETA1
from airflow_trainer_provider.kinds.native.native import NATIVE
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.trainer.trainjob import TRAINJOB
from airflow_trainer_provider.spec import parse_spec
from tests.fakes.jobs import add_job, add_pod, ours, with_condition
from tests.fakes.kubernetes import NAMESPACE, FakeKubernetes

IDENTITY = Identity(dag_id="d", run_id="r", task_id="t", try_number=2)
HANDLE = JobHandle(
    name="j", uid="u", backend="native", framework="jax", leader="worker-0", owner=1, location="native/ml/kube/1"
)
LOCAL_HANDLE = HANDLE.model_copy(update={"backend": "local", "location": "/l"})
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
SUCCEEDED = JobStatus(phase=JobPhase.SUCCEEDED, queued_at=NOW)
FAILED = JobStatus(
    phase=JobPhase.FAILED,
    queued_at=NOW,
    first_failed="worker-0",
    replicas=(ReplicaStatus(group="worker", index=0, exit_code=1, reason="Error", finished_at=NOW),),
)


@pytest.fixture
async def clusters():
    """A cluster, the connections that lead to it, those that were read, and how reading one fails."""
    async with FakeKubernetes() as api:
        case = SimpleNamespace(api=api, connections={"kube": None, "kube/1": None}, read=[], failures=[])

        async def read(conn_id):
            if case.failures:
                raise case.failures.pop()
            if conn_id not in case.connections:
                raise AirflowNotFoundException(conn_id)
            case.read.append(conn_id)
            return replace(api.connection(conn_id), namespace=case.connections[conn_id])

        case.hook = lambda backend, namespace=None: TrainerHook(backend, "kube", namespace, read)
        yield case


def _has_only(clusters, *kinds):
    """Let the cluster have some kinds."""
    resources = {kind.resource for kind in registry.KINDS.values()} - {kind.resource for kind in kinds}
    clusters.api.missing |= {f"{each.plural}.{each.api_version.rpartition('/')[2]}" for each in resources}


def _job(**fields):
    values = {"framework": "pytorch", "num_nodes": 2, "image": "i", "command": ["python", "train.py"]}
    return plan_job(parse_spec({**values, **fields}))


def test_every_backend_of_the_registry_can_be_named():
    assert list(BACKENDS) == [LOCAL, *registry.BACKENDS]


@pytest.mark.parametrize("kinds", [[NATIVE, PYTORCHJOB, TRAINJOB], [NATIVE, PYTORCHJOB], [NATIVE]])
async def test_auto_takes_the_first_that_the_cluster_has_and_says_why(clusters, kinds):
    _has_only(clusters, *kinds)
    names = {TRAINJOB: "trainer", PYTORCHJOB: "training-operator", NATIVE: "native"}

    chosen = await clusters.hook(AUTO).choose(_job())

    assert chosen.backend.name == names[kinds[-1]]
    assert f"took {names[kinds[-1]]}: {kinds[-1].resource.kind} is installed" in chosen.why
    assert ("not trainer: CRD trainjobs.trainer.kubeflow.org is not installed" in chosen.why) == (TRAINJOB not in kinds)


@pytest.mark.parametrize(("kind", "name"), [(MPIJOB_V1, "training-operator"), (MPIJOB_V2BETA1, "mpi-operator")])
async def test_auto_distinguishes_the_two_versions_of_mpijob(clusters, kind, name):
    _has_only(clusters, NATIVE, PYTORCHJOB, kind)

    chosen = await clusters.hook(AUTO).choose(_job(framework="mpi"))

    assert chosen.backend.name == name


async def test_auto_passes_over_what_cannot_express_a_field(clusters):
    _has_only(clusters, NATIVE, PYTORCHJOB)

    chosen = await clusters.hook(AUTO).choose(_job(framework="paddle", num_nodes=2))

    assert chosen.backend.name == "native"
    assert "not mpi-operator: framework: got 'paddle'" in chosen.why


async def test_auto_takes_the_backend_that_has_the_runtime(clusters):
    _has_only(clusters, NATIVE, TRAINJOB)

    chosen = await clusters.hook(AUTO).choose(_job(image=None, runtime_ref="TrainingRuntime/mine"))

    assert chosen.backend.name == "trainer"
    assert "kind: TrainingRuntime" in chosen.backend.render(_job(image=None, runtime_ref="mine"), IDENTITY)


async def test_auto_without_any_that_will_do_says_why_of_each(clusters):
    _has_only(clusters)

    with pytest.raises(BackendUnavailable) as caught:
        await clusters.hook(AUTO).choose(_job())

    assert all(f"not {name}: " in str(caught.value) for name in registry.BACKENDS)


async def test_the_jobs_of_all_backends_are_listed_the_oldest_first(clusters):
    created = {"trainjob": "2026-11-21T07:00:00Z", "jaxjob": "2026-11-21T06:00:00Z"}
    for kind, time in created.items():
        add_job(clusters.api, kind, f"a-{kind}", metadata={"creationTimestamp": time})

    async def listed(backend):
        return [(job.backend, job.name) for job in await clusters.hook(backend, NAMESPACE).overviews()]

    assert await listed(AUTO) == [("training-operator", "a-jaxjob"), ("trainer", "a-trainjob")]
    assert await listed("trainer") == [("trainer", "a-trainjob")]
    assert await listed("native") == []


@pytest.mark.parametrize("backend", [AUTO, "trainer"])
async def test_without_a_connection_the_error_names_the_way_out(clusters, backend):
    clusters.connections.clear()

    with pytest.raises(
        BackendUnavailable, match=rf"backend='{backend}'.*no connection 'kube'.*never chosen silently.*backend='local'"
    ):
        await clusters.hook(backend).choose(_job())


async def test_a_backend_that_is_none_is_an_error(clusters):
    with pytest.raises(SpecError, match="Did you mean 'local'"):
        await clusters.hook("lcoal").choose(_job())


@pytest.mark.parametrize(
    ("operators", "connections", "expected"),
    [("mine", "theirs", "mine"), (None, "theirs", "theirs"), (None, None, "default")],
)
async def test_the_namespace_is_the_operators_or_the_connections_or_the_option(
    clusters, operators, connections, expected
):
    clusters.connections["kube"] = connections

    text = await clusters.hook("training-operator", operators).render(_job(), IDENTITY)

    assert {document["metadata"]["namespace"] for document in yaml.safe_load_all(text)} == {expected}


async def test_a_named_backends_job_is_shown_without_a_cluster_or_a_connection(clusters):
    clusters.connections.clear()

    text = await clusters.hook("training-operator").render(_job(), IDENTITY)

    assert "PyTorchJob" in text
    assert clusters.api.requests == []


async def test_a_handle_alone_leads_to_the_job(clusters):
    backend = await clusters.hook(LOCAL).backend_of(HANDLE)

    assert backend.name == "native"
    assert set(clusters.read) == {"kube/1"}


@pytest.mark.parametrize(
    "error",
    [
        AirflowNotFoundException("kube"),
        ConnectionUnreadable("kube", "503"),
        BackendUnavailable("Connection 'kube': its extra is no JSON object."),
    ],
)
async def test_a_connection_that_cannot_be_read_is_an_outage_for_a_job_that_runs(clusters, monkeypatch, error):
    """Airflow says "not found" where a secrets backend fails as well."""
    monkeypatch.setattr(trainer, "_READ_FIRST", 0.01)
    clusters.failures = [error] * 4
    hook = clusters.hook(AUTO)
    reading = asyncio.ensure_future(hook.backend_of(HANDLE))

    assert (await reading).name == "native"
    assert clusters.failures == []


async def test_a_wait_is_as_patient_with_its_connection_as_with_its_job(clusters, monkeypatch):
    monkeypatch.setattr(trainer, "_READ_FIRST", 0.01)
    clusters.failures = [ConnectionUnreadable("kube", "503")] * 10_000
    deadline = datetime.now(timezone.utc) + timedelta(seconds=0.2)

    with pytest.raises(JobTimeout, match="Connection 'kube' cannot be read at the moment"):
        await clusters.hook(AUTO).wait(HANDLE, emit=print, reader=None, deadline=deadline)


async def test_a_connection_that_stays_unreadable_fails_a_call_so_that_a_retry_can_help(clusters, monkeypatch):
    monkeypatch.setattr(trainer, "_READ_FIRST", 0.01)
    clusters.failures = [ConnectionUnreadable("kube", "503")] * 10_000

    with pytest.raises(ConnectionUnreadable) as caught:
        await clusters.hook(AUTO).backend_of(HANDLE, timeout=0.1)

    assert caught.value.retryable


async def test_a_job_has_one_backend_which_remembers_it(clusters):
    hook = clusters.hook(LOCAL)

    assert await hook.backend_of(HANDLE) is await hook.backend_of(HANDLE)
    assert await hook.backend_of(LOCAL_HANDLE) is not await hook.backend_of(HANDLE)


async def test_a_job_has_one_backend_also_where_several_ask_for_it_at_once(clusters, monkeypatch):
    hook = clusters.hook(LOCAL)
    making, make, all_make = [], hook._make, asyncio.Event()

    async def make_together(*key):
        making.append(key)
        if len(making) == 3:
            all_make.set()
        await all_make.wait()
        return await make(*key)

    monkeypatch.setattr(hook, "_make", make_together)

    assert len({id(each) for each in await asyncio.gather(*(hook.backend_of(HANDLE) for _ in range(3)))}) == 1


@pytest.mark.parametrize(
    ("way", "ends"), [("plugin", "JobLost"), ("token", "JobLost"), ("nothing", "BackendUnavailable")]
)
def test_nothing_large_is_imported_in_the_thread_of_the_event_loop(way, ends):
    """A triggerer has one for all its triggers."""
    script = f"""
import asyncio, json, sys, threading
from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.errors import BackendUnavailable, JobLost
from airflow_trainer_provider.hooks.trainer import TrainerHook
from airflow_trainer_provider.job.handle import JobHandle

VERSION, of_the_loop, found = "client.authentication.k8s.io/v1", threading.get_ident(), []

class Finder:
    def find_spec(self, name, path=None, target=None):
        large = ("aiohttp", "kubernetes_asyncio", "airflow_trainer_provider")
        if threading.get_ident() == of_the_loop and name.split(".")[0] in large:
            found.append(name)

def kubeconfig(port):
    status = {{"token": "t", "expirationTimestamp": "2040-01-01T00:00:00Z"}}
    answer = {{"apiVersion": VERSION, "kind": "ExecCredential", "status": status}}
    plugin = {{"apiVersion": VERSION, "command": "echo", "args": [json.dumps(answer)], "interactiveMode": "Never"}}
    user = {{"exec": plugin}} if {way!r} == "plugin" else {{"token": "t"}}
    return json.dumps({{
        "current-context": "x",
        "clusters": [{{"name": "c", "cluster": {{"server": f"http://127.0.0.1:{{port}}"}}}}],
        "users": [{{"name": "u", "user": user}}],
        "contexts": [{{"name": "x", "context": {{"cluster": "c", "user": "u"}}}}],
    }})

async def not_found(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 404 Not Found\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
    writer.close()

async def main():
    server = await asyncio.start_server(not_found, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def read(conn_id):
        return ClusterConnection(conn_id, kube_config=None if {way!r} == "nothing" else kubeconfig(port))

    sys.meta_path.insert(0, Finder())
    handle = JobHandle.parse(json.loads({HANDLE.model_dump_json()!r}))
    backend = await TrainerHook("native", "kube", None, read).backend_of(handle)
    try:
        await backend.status(handle)
    except (JobLost, BackendUnavailable) as error:
        print(type(error).__name__)
    print(found)
    await backend.close()

asyncio.run(main())
"""
    environment = {**os.environ, "KUBECONFIG": "/dev/null"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)

    assert done.stdout.splitlines()[-2:] == [ends, "[]"], done


async def test_the_option_bounds_how_many_logs_are_followed(clusters, monkeypatch):
    monkeypatch.setattr(LogStreams, "limit", 1)
    monkeypatch.setenv("AIRFLOW__TRAINER__LOG_STREAMS", "7")

    await clusters.hook(LOCAL).backend_of(HANDLE)

    assert LogStreams.limit == 7


@pytest.mark.parametrize(("wanted", "read"), [("all", [0, 1]), ("leader", [0]), ("none", [])])
async def test_the_option_says_whose_lines_are_shown(clusters, monkeypatch, wanted, read):
    monkeypatch.setenv("AIRFLOW__TRAINER__LOG_REPLICAS", wanted)
    api, emitted = clusters.api, []
    metadata = ours("j", **{labels.GROUPS: '{"worker": 2}'})
    main = add_job(api, "jaxjob", "j", metadata=metadata, status=with_condition("Succeeded"))
    for index in (0, 1):
        end = {"exitCode": 0, "containerID": "c", "finishedAt": "2026-11-21T07:00:59Z"}
        api.write_log(add_pod(api, "j", phase="Succeeded", index=index, state={"terminated": end}), "hello")
    handle = JobObject(registry.KINDS["jaxjob"], main).handle("kube")

    await clusters.hook(LOCAL).wait(handle, emit=emitted.append, reader="task", deadline=None)

    assert sorted(line for line in emitted if line.endswith("hello")) == [f"[worker-{index}] hello" for index in read]
    assert any("/log" in request.path for request in api.requests) == (wanted != "none")


class _Backend:
    def __init__(self, fault=None):
        self.fault, self.cancelled, self.released = fault, [], []
        self.tasks = {"another": IDENTITY.model_copy(update={"deployment": "elsewhere", "try_number": 1})}

    async def result(self, handle):
        return b'{"metrics": {"loss": 0.5}}'

    async def log_tail(self, handle, replica, lines):
        if self.fault:
            raise self.fault
        return ["Traceback (most recent call last):", '  File "a", line 1, in a', "ValueError: no"]

    async def find(self, identity):
        return [HANDLE.model_copy(update={"owner": identity.try_number})]

    async def task_of(self, handle):
        if handle.uid not in self.tasks:
            raise JobLost("gone")
        return self.tasks[handle.uid]

    async def is_released(self, handle):
        return handle.uid in self.released

    async def cancel(self, handle, reason):
        self.cancelled.append((handle.owner, reason))


def _with(backend):
    hook = TrainerHook(LOCAL)

    async def backend_of(handle, **_):
        return backend

    hook.backend_of = backend_of
    return hook


async def test_the_outcome_of_a_success_holds_all_that_xcom_gets():
    outcome = await _with(_Backend()).outcome(HANDLE, SUCCEEDED)

    assert outcome.failure is None
    assert (outcome.summary["name"], outcome.summary["metrics"]) == ("j", {"loss": 0.5})


async def test_the_outcome_of_a_failure_holds_the_diagnosis():
    outcome = await _with(_Backend()).outcome(HANDLE, FAILED)

    assert outcome.summary is None
    assert outcome.failure.traceback[-1] == "ValueError: no"
    assert (outcome.figures["restarts"], outcome.figures["run_seconds"]) == (0, None)


async def test_the_option_says_how_many_last_lines_a_failure_has(monkeypatch):
    monkeypatch.setenv("AIRFLOW__TRAINER__FAILURE_LOG_LINES", "1")

    outcome = await _with(_Backend()).outcome(HANDLE, FAILED)

    assert outcome.failure.last_log_lines == ("ValueError: no",)


async def test_a_failure_is_reported_though_its_lines_are_out_of_reach():
    outcome = await _with(_Backend(ApiError("the node is gone"))).outcome(HANDLE, FAILED)

    assert outcome.failure.replica == "worker-0"
    assert outcome.failure.last_log_lines == ()


async def test_a_tasks_jobs_are_ended_where_its_handle_says():
    backend = _Backend()

    await _with(backend).cancel_task(IDENTITY, "why", HANDLE)

    assert backend.cancelled == [(2, "why")]


async def test_a_tasks_job_is_ended_though_it_is_known_by_its_handle_alone():
    """As by a component whose settings make another identity of the task."""
    backend = _Backend()

    await _with(backend).cancel_task(IDENTITY, "why", HANDLE.model_copy(update={"uid": "another"}))

    assert backend.cancelled == [(2, "why"), (1, "why")]


@pytest.mark.parametrize(
    "recorded", [{"task_id": "of another"}, {"map_index": 3}, {"dag_id": "theirs"}, {"run_id": "x"}]
)
async def test_the_job_of_another_task_is_not_ended_whatever_the_handle_says(recorded):
    """XCom can be edited, and so can the handle there."""
    backend = _Backend()
    backend.tasks["another"] = IDENTITY.model_copy(update=recorded)

    await _with(backend).cancel_task(IDENTITY, "why", HANDLE.model_copy(update={"uid": "another"}))

    assert backend.cancelled == [(2, "why")]


@pytest.mark.parametrize("tasks", [{}, {"another": None}])
async def test_a_job_that_is_gone_or_names_no_task_is_not_ended(tasks):
    backend = _Backend()
    backend.tasks = tasks

    await _with(backend).cancel_task(IDENTITY, "why", HANDLE.model_copy(update={"uid": "another"}))

    assert backend.cancelled == [(2, "why")]


@pytest.mark.parametrize(("spare", "cancelled"), [(True, [(1, "why")]), (False, [(2, "why"), (1, "why")])])
async def test_a_job_that_outlives_its_task_is_spared_where_that_is_asked(spare, cancelled):
    backend = _Backend()
    backend.released = [HANDLE.uid]
    other = HANDLE.model_copy(update={"uid": "another"})

    await _with(backend).cancel_task(IDENTITY, "why", other, spare_released=spare)

    assert backend.cancelled == cancelled


@pytest.mark.parametrize(
    ("fields", "backend", "place"),
    [
        (("native", "kube", "ml"), {"name": "native", "namespace": "ml"}, ("native", "kube", "ml")),
        (("auto", "kube", None), {"name": "trainer", "namespace": "it was"}, ("trainer", "kube", "it was")),
        ((LOCAL, "kube", "ml"), {"name": LOCAL}, (LOCAL, None, None)),
        (("theirs", "kube", None), {"name": "theirs", "namespace": None}, ("theirs", "kube", None)),
        (("theirs", "kube", "ml"), {"name": "theirs", "namespace": None}, ("theirs", "kube", "ml")),
    ],
)
def test_a_job_is_found_again_by_its_backend_connection_and_namespace(fields, backend, place):
    assert TrainerHook(*fields).place(SimpleNamespace(**backend)) == place


async def test_what_a_wait_finds_out_leaves_the_process_masked(monkeypatch):
    async def follow(*_, **__):
        return FAILED

    monkeypatch.setattr(trainer, "follow", follow)
    monkeypatch.setattr(masking, "redact", lambda text: text.replace("Error: no", "***"))

    outcome = await _with(_Backend()).wait(HANDLE, emit=print, reader=None, deadline=None)

    assert "Value***" in outcome.failure.traceback
    assert "Error: no" not in str(outcome.failure.message)


async def test_a_result_leaves_the_process_masked(monkeypatch):
    async def follow(*_, **__):
        return SUCCEEDED

    async def result(_):
        return b'{"metrics": {"loss": 0.5}, "model": "https://h/open-sesame"}'

    backend = _Backend()
    monkeypatch.setattr(trainer, "follow", follow)
    monkeypatch.setattr(backend, "result", result)
    monkeypatch.setattr(masking, "redact", lambda text: text.replace("open-sesame", "***"))

    outcome = await _with(backend).wait(HANDLE, emit=print, reader=None, deadline=None)

    assert "https://h/***" in str(outcome.summary)
    assert "open-sesame" not in str(outcome.summary)


async def test_of_a_secret_in_a_line_that_is_cut_no_part_stays(monkeypatch):
    secret = "open-sesame-0123456789"
    monkeypatch.setattr(masking, "redact", lambda text: text.replace(secret, "***"))

    async def follow(*_, **__):
        return FAILED

    async def log_tail(*_):
        return ["x" * 4090 + secret]

    backend = _Backend()
    monkeypatch.setattr(trainer, "follow", follow)
    monkeypatch.setattr(backend, "log_tail", log_tail)

    outcome = await _with(backend).wait(HANDLE, emit=print, reader=None, deadline=None)

    (line,) = outcome.failure.last_log_lines
    assert "x***" in line
    assert "open" not in line
