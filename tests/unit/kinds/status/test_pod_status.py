"""Replicas read from pods as a real cluster had them: pods/*.json, without the fields that are not read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_trainer_provider.job.status import ReplicaStatus
from airflow_trainer_provider.kinds.status.deletion import FIRST_DELETION
from airflow_trainer_provider.kinds.status.pod_status import failed_container, read_pod

_PODS = Path(__file__).parent / "pods"


def pod(name, **status):
    manifest = json.loads((_PODS / f"{name}.json").read_text())
    manifest["status"] |= status
    return manifest


def _read(manifest, *, index=0, rank=0, name="", gone=False):
    blank = ReplicaStatus(group="worker", index=index, rank=rank)
    return read_pod(manifest, blank, name or manifest["spec"]["containers"][0]["name"], gone=gone)


def _terminated(name, **changes):
    manifest = pod(name)
    manifest["status"]["containerStatuses"][0]["state"]["terminated"] |= changes
    return manifest


@pytest.mark.parametrize(
    ("name", "stage", "code", "signal", "reason", "said"),
    [
        ("running", "running", None, None, None, None),
        ("restarted", "running", None, None, None, None),
        ("succeeded", "ended", 0, None, "Completed", None),
        ("exit-3", "ended", 3, None, "Error", "Traceback\nValueError: no"),
        ("sigkill", "ended", None, "SIGKILL", "Error", None),
        ("oom", "ended", None, "SIGKILL", "OOMKilled", None),
        ("no-command", "ended", 128, None, "StartError", "/no/such/program"),
        ("crash-loop", "waiting", 1, None, "CrashLoopBackOff", "restarting failed container"),
        ("invalid-image", "waiting", None, None, "InvalidImageName", "Not A Name"),
        ("missing-image", "waiting", None, None, "ErrImagePull", "registry.invalid/train:1"),
        ("never-pull", "waiting", None, None, "ErrImageNeverPull", "registry.invalid/train:2"),
        ("missing-key", "waiting", None, None, "CreateContainerConfigError", 'secret "nowhere" not found'),
        ("unschedulable", "waiting", None, None, "Unschedulable", "Insufficient cpu"),
        ("gated", "waiting", None, None, "SchedulingGated", "scheduling gates"),
        ("init-failed", "ended", 2, None, "Init:Error", "init container prepare ended with exit code 2: no data"),
        ("init-image", "waiting", None, None, "Init:ImagePullBackOff", "init container prepare: Back-off"),
        ("deadline", "ended", None, "SIGKILL", "DeadlineExceeded", "longer than the specified deadline"),
        ("evicted-api", "ended", None, "SIGKILL", "EvictionByEvictionAPI", "Eviction API"),
        ("deleted", "ended", None, "SIGKILL", "Stopped", None),
        ("out-of-cpu", "ended", None, None, "OutOfcpu", "requested: 1000000"),
        ("node-affinity", "ended", None, None, "NodeAffinity", "affinity/selector"),
    ],
)
def test_what_a_pod_says(name, stage, code, signal, reason, said):
    state = _read(pod(name), index=2, rank=3)
    status = state.status

    assert (status.name, status.rank, state.stage) == ("worker-2", 3, stage)
    assert (status.exit_code, status.signal, status.reason) == (code, signal, reason)
    assert (status.message is None) if said is None else (said in status.message)
    assert (status.finished_at is not None) == (stage == "ended")
    assert state.scheduled == (name not in ("unschedulable", "gated"))


def test_a_container_that_was_started_again_shows_how_it_ended_before():
    state = _read(pod("restarted"))

    assert state.status.restarts == 1
    assert (state.last_end.exit_code, state.last_end.reason, state.last_end.failed) == (4, "Error", True)


def test_an_injected_container_stands_first():
    manifest = pod("exit-3")
    proxy = {"name": "proxy", "state": {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:00Z"}}}
    manifest["spec"]["containers"].insert(0, {"name": "proxy"})
    manifest["status"]["containerStatuses"].insert(0, proxy)

    assert _read(manifest, name="train") == _read(pod("exit-3"))


@pytest.mark.parametrize(
    ("code", "reason", "said"),
    [
        (3, "Sidecar:Error", "sidecar shipper ended with exit code 3: disk is full"),
        (137, "Sidecar:Error", "sidecar shipper was ended by SIGKILL: disk is full"),
    ],
)
def test_a_sidecar_that_has_failed_the_pod_of_a_training_that_succeeded(code, reason, said):
    state = _read(_beside("Failed", code))

    assert (state.stage, state.status.exit_code, state.status.reason) == ("ended", 0, reason)
    assert state.status.message == said
    assert state.status.failed


@pytest.mark.parametrize(("phase", "code"), [("Running", 3), ("Succeeded", 0), ("Failed", 0)])
def test_a_sidecar_that_has_not_failed_the_pod(phase, code):
    status = _read(_beside(phase, code)).status

    assert (status.exit_code, status.reason, status.failed) == (0, "Completed", False)


def test_a_sidecar_that_was_ended_with_its_pod_has_not_failed_it():
    manifest = _beside("Failed", 143)
    own, sidecar = (each["state"]["terminated"] for each in manifest["status"]["containerStatuses"])
    end, own["finishedAt"] = sidecar["finishedAt"], "2026-01-01T00:00:00Z"
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drained"}
    manifest["status"].setdefault("conditions", []).append(target | {"lastTransitionTime": end})

    assert _read(manifest).status.reason == "EvictionByEvictionAPI"


def test_who_was_taken_away_while_only_its_sidecar_ran_was_not_cut_short():
    manifest = _beside("Failed", 143)
    own, sidecar = (each["state"]["terminated"] for each in manifest["status"]["containerStatuses"])
    own["finishedAt"], sidecar["finishedAt"] = "2026-11-21T07:00:00Z", "2026-11-21T07:05:00Z"
    at = {"deletionTimestamp": "2026-11-21T07:05:20Z", "deletionGracePeriodSeconds": 30}
    manifest["metadata"] |= at

    state = _read(manifest)

    assert (state.status.reason, state.status.exit_code, state.disrupted_at) == ("Stopped", 0, None)


def test_a_sidecar_fails_its_pod_when_it_ends():
    manifest = _beside("Failed", 3)
    manifest["status"]["containerStatuses"][1]["state"]["terminated"]["finishedAt"] = "2026-12-01T00:00:00Z"

    assert _read(manifest).status.finished_at.isoformat() == "2026-12-01T00:00:00+00:00"


def test_a_sidecar_that_its_node_lost_is_the_nodes_failure():
    manifest = _beside("Failed", 137)
    lost = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "could not be located"}
    manifest["status"]["containerStatuses"][1]["state"] = {"terminated": lost}

    state = _read(manifest)

    assert (state.status.reason, state.status.finished_at is not None) == ("ContainerStatusUnknown", True)


def test_of_two_sidecars_the_first_to_fail_is_named_also_beside_one_that_was_lost():
    manifest = _beside("Failed", 3)
    lost = {"exitCode": 137, "reason": "ContainerStatusUnknown", "finishedAt": None}
    manifest["status"]["containerStatuses"].append({"name": "lost", "state": {"terminated": lost}})

    assert _read(manifest).status.message.startswith("sidecar shipper ended with exit code 3")


def test_of_many_lines_of_a_sidecar_the_one_that_explains_its_end_is_kept():
    manifest = _beside("Failed", 3)
    end = manifest["status"]["containerStatuses"][1]["state"]["terminated"]
    end["message"] = "starting\nOSError: disk is full\nbye\n"

    assert _read(manifest).status.message == "sidecar shipper ended with exit code 3: OSError: disk is full"


@pytest.mark.parametrize(
    ("reason", "stage", "said"),
    [
        ("ImagePullBackOff", "waiting", ("Sidecar:ImagePullBackOff", "sidecar shipper: so it is")),
        ("ContainerCreating", "ended", ("Completed", None)),
    ],
)
def test_a_sidecar_that_cannot_start_keeps_its_pod_from_the_end(reason, stage, said):
    manifest = _beside("Pending", 0)
    waiting = {"waiting": {"reason": reason, "message": "so it is"}}
    manifest["status"]["containerStatuses"][1]["state"] = waiting

    state = _read(manifest)

    assert (state.stage, (state.status.reason, state.status.message)) == (stage, said)
    assert (state.status.finished_at is None) == (stage == "waiting")


_FETCHED = {
    "name": "fetch",
    "state": {"terminated": {"exitCode": 0}},
    "lastState": {"terminated": {"exitCode": 128}},
}


@pytest.mark.parametrize(
    ("fixture", "changes", "expected"),
    [
        ("exit-3", {}, "train"),
        ("succeeded", {}, "train"),
        ("init-failed", {}, "prepare"),
        ("init-image", {}, "prepare"),
        # An init container that failed once, and succeeded then, has let the training run.
        ("crash-loop", {"initContainerStatuses": [_FETCHED]}, "train"),
        ("evicted-api", {}, "train"),
    ],
)
def test_whose_log_says_why_a_pod_has_failed(fixture, changes, expected):
    manifest = pod(fixture, **changes)
    manifest["spec"]["containers"].append({"name": "shipper"})
    end = {"exitCode": 143, "finishedAt": "2026-12-01T00:00:00Z"}
    manifest["status"].setdefault("containerStatuses", []).append({"name": "shipper", "state": {"terminated": end}})

    assert failed_container(manifest, "train") == expected


def test_the_log_of_a_sidecar_says_why_it_has_failed_the_pod():
    assert failed_container(_beside("Failed", 3), "train") == "shipper"


def _beside(phase, code):
    manifest = pod("succeeded", phase=phase)
    [own] = manifest["status"]["containerStatuses"]
    end = {"exitCode": code, "message": "disk is full", "finishedAt": own["state"]["terminated"]["finishedAt"]}
    manifest["spec"]["containers"].append({"name": "shipper"})
    manifest["status"]["containerStatuses"] = [own, {"name": "shipper", "state": {"terminated": end}}]
    return manifest


@pytest.mark.parametrize(
    ("code", "exit_code", "signal"), [(1, 1, None), (128, 128, None), (143, None, "SIGTERM"), (255, 255, None)]
)
def test_codes_above_128_are_signals_where_there_is_such_a_signal(code, exit_code, signal):
    status = _read(_terminated("exit-3", exitCode=code)).status

    assert (status.exit_code, status.signal) == (exit_code, signal)


@pytest.mark.parametrize("code", [137, 1])
def test_the_exit_code_of_a_container_that_its_node_lost_is_not_reported(code):
    never = {"startedAt": None, "finishedAt": None, "exitCode": code}
    unknown = _terminated("sigkill", reason="ContainerStatusUnknown", message="could not be located", **never)
    status = _read(unknown).status

    assert (status.exit_code, status.signal, status.reason) == (None, None, "ContainerStatusUnknown")
    assert status.failed


@pytest.mark.parametrize(
    ("finished", "reason"), [("06:58:40", "Error"), ("06:58:41", "Stopped"), ("06:58:45", "Stopped")]
)
def test_a_pod_that_failed_before_it_was_deleted_was_not_stopped(finished, reason):
    manifest = _terminated("deleted", finishedAt=f"2026-11-21T{finished}Z")
    manifest["metadata"] |= {"deletionTimestamp": "2026-11-21T06:59:11Z", "deletionGracePeriodSeconds": 30}

    assert _read(manifest).status.reason == reason


def test_in_the_second_of_the_deletion_an_exit_code_is_the_replicas_own_unless_it_ran_on():
    manifest = _terminated("deleted", finishedAt="2026-11-21T06:58:41Z", exitCode=1)
    manifest["metadata"] |= {"deletionTimestamp": "2026-11-21T06:59:11Z", "deletionGracePeriodSeconds": 30}

    assert _read(manifest).status.reason == "Error"
    # The watch has seen the pod run after the deletion.
    manifest["metadata"][FIRST_DELETION] = dict(manifest["metadata"])
    assert _read(manifest).status.reason == "Stopped"


_ASKED = {"deletionTimestamp": "2026-11-21T06:58:11Z", "deletionGracePeriodSeconds": 30}


@pytest.mark.parametrize(
    ("deletion", "finished", "reason"),
    [
        # It had not ended when its deletion was asked for at 06:57:41: only such a pod is given time to end.
        (_ASKED, "06:57:45", "Stopped"),
        (_ASKED, "06:57:41", "Stopped"),
        (_ASKED, "06:57:40", "Completed"),
        # It had.
        ({"deletionTimestamp": "2026-11-21T06:57:46Z", "deletionGracePeriodSeconds": 0}, "06:57:45", "Completed"),
        # The kubelet's own request after the end covers up the first one, unless that was seen.
        (
            {"deletionTimestamp": "2026-11-21T06:57:46Z", "deletionGracePeriodSeconds": 0, FIRST_DELETION: _ASKED},
            "06:57:45",
            "Stopped",
        ),
    ],
)
def test_a_training_that_exits_with_0_when_its_pod_is_deleted_is_not_complete(deletion, finished, reason):
    manifest = _terminated("succeeded", finishedAt=f"2026-11-21T{finished}Z")
    manifest["metadata"] |= deletion

    state = _read(manifest)

    assert (state.stage, state.status.exit_code, state.status.reason) == ("ended", 0, reason)
    assert (state.disrupted_at is not None) == (reason == "Stopped")
    assert not state.status.failed


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ('{"trainer_function": "train", "value": 1}', "Completed"),
        ('{"trainer_function": "train", "error": "it has left by sys.exit()"}', "Stopped"),
        ('{"loss": 1}', "Stopped"),
    ],
)
def test_a_function_that_returns_in_its_grace_period_is_complete(message, reason):
    manifest = _terminated("succeeded", message=message)
    manifest["metadata"] |= _ASKED

    assert _read(manifest).status.reason == reason


@pytest.mark.parametrize(("since", "reason"), [("45", "EvictionByEvictionAPI"), ("46", "Completed")])
def test_a_training_that_exits_with_0_when_it_is_evicted_is_not_complete(since, reason):
    manifest = _terminated("succeeded", finishedAt="2026-11-21T06:57:45Z")
    why = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}
    manifest["status"]["conditions"].append(why | {"lastTransitionTime": f"2026-11-21T06:57:{since}Z"})

    state = _read(manifest)

    assert (state.status.reason, state.status.failed) == (reason, reason != "Completed")


def test_a_node_that_evicts_a_training_that_then_exits_with_0_says_why():
    manifest = _terminated("succeeded")
    manifest["status"] |= {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}

    status = _read(manifest).status

    assert (status.reason, status.exit_code, status.failed) == ("Evicted", 0, True)


def test_a_failure_before_the_eviction_stays_one():
    early = _terminated("evicted-api", finishedAt="2026-11-21T06:58:40Z", exitCode=1)

    assert _read(early).status.reason == "Error"


def test_a_pod_that_its_node_evicts_says_why():
    # As the kubelet's eviction manager leaves it: pkg/kubelet/eviction.
    why = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}

    status = _read(pod("running", **why, containerStatuses=[])).status

    assert (status.reason, status.message, status.failed) == (why["reason"], why["message"], True)


@pytest.mark.parametrize("reason", ["PreemptionByScheduler", "DeletionByTaintManager", "DeletionByPodGC"])
def test_a_pod_that_goes_with_its_node_was_not_stopped(reason):
    manifest = pod("running")
    taken = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "so it is"}
    manifest["status"]["conditions"].append(taken | {"lastTransitionTime": "2026-11-21T07:00:00Z"})

    assert _read(manifest).stage == "running"
    state = _read(manifest, gone=True)

    assert (state.stage, state.status.reason, state.status.failed) == ("ended", reason, True)


def test_a_pod_that_went_before_its_end_was_reported_was_stopped():
    state = _read(pod("running"), gone=True)

    assert (state.stage, state.status.reason, state.status.failed) == ("ended", "Stopped", False)


@pytest.mark.parametrize(("fixture", "on_failure"), [("exit-3", "waiting"), ("succeeded", "ended")])
def test_the_kubelet_starts_it_again_only_where_the_policy_says_so(fixture, on_failure):
    manifest = _terminated(fixture)
    manifest["status"]["phase"] = "Running"

    stages = {}
    for policy in ("Never", "OnFailure", "Always"):
        manifest["spec"]["restartPolicy"] = policy
        stages[policy] = _read(manifest).stage

    assert stages == {"Never": "ended", "OnFailure": on_failure, "Always": "waiting"}


def test_an_init_container_that_waits_for_its_restart_says_how_it_ended():
    manifest = pod("init-failed")
    manifest["status"]["phase"] = "Pending"
    (init,) = manifest["status"]["initContainerStatuses"]
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}}
    init |= {"state": waiting, "lastState": init["state"]}

    status = _read(manifest).status

    assert (status.reason, status.finished_at) == ("Init:CrashLoopBackOff", None)
    assert status.message == "init container prepare ended with exit code 2: no data"


def test_an_init_container_that_stays_is_not_waited_for():
    manifest = pod("init-image")
    manifest["status"]["initContainerStatuses"][0] |= {
        "state": {"running": {"startedAt": "2026-11-21T06:57:46Z"}},
        "started": True,
    }
    assert _read(manifest).status.message == "init container prepare runs"

    manifest["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    assert _read(manifest).status.message is None


def test_a_pod_without_a_status_says_nothing():
    fresh = {"metadata": pod("running")["metadata"], "spec": {"containers": [{"name": "train"}]}}

    state = _read(fresh)

    assert (state.stage, state.status.reason, state.scheduled) == ("waiting", None, False)
