"""What is asked of a cluster where the user brings a manifest: ours is added, and all else is left as it is."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from airflow_trainer_provider.cluster.operations.order import manifest_order
from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import Facts, ReplicaRef
from airflow_trainer_provider.kinds.manifest import plan_manifest
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import BACKENDS, KINDS, manifest_kinds
from airflow_trainer_provider.spec import parse_manifest_spec

IDENTITY = Identity(dag_id="nightly", run_id="r", task_id="train", try_number=2)
PYTORCHJOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {
        "name": "from-a-colleague",
        "namespace": "theirs",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"team": "vision", labels.MANAGED_BY: "another"},
        "annotations": {"note": "kept"},
    },
    "spec": {
        "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"terminationGracePeriodSeconds": 90}}}},
        "aFieldOfTomorrow": {"x": 1},
    },
    "status": {"conditions": []},
}
TRAINJOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "a-name-that-is-much-too-long-for-the-pods-of-a-jobset"},
    "spec": {"runtimeRef": {"name": "torch"}},
}
RUNTIME = {"spec": {"mlPolicy": {"numNodes": 4}, "template": {"spec": {"replicatedJobs": [{"name": "node"}]}}}}


def _order(manifest, **fields):
    return manifest_order(plan_manifest(parse_manifest_spec({"manifest": manifest, **fields})), "ours", IDENTITY)


def _main(order, **facts):
    return order.render(order.name, Facts(**facts)).main


def test_everything_of_the_users_is_kept_but_what_the_server_sets():
    main = _main(_order(PYTORCHJOB))

    assert main["spec"] == PYTORCHJOB["spec"]
    assert "status" not in main
    assert set(main["metadata"]) == {"name", "labels", "annotations"}
    assert main["metadata"]["labels"]["team"] == "vision"
    assert main["metadata"]["annotations"]["note"] == "kept"


def test_the_task_finds_its_job_by_our_labels_and_the_name_carries_the_try():
    main = _main(_order(PYTORCHJOB, on_kill_action="suspend", on_finish_action="keep"))

    metadata = main["metadata"]
    assert metadata["name"] == f"from-a-colleague-{IDENTITY.key}-2"
    assert metadata["labels"][labels.MANAGED_BY] == labels.PREFIX
    assert metadata["labels"][labels.TASK] == IDENTITY.key
    assert metadata["annotations"][labels.OWNER] == "2"
    assert metadata["annotations"][labels.FRAMEWORK] == "pytorch"
    assert (metadata["annotations"][labels.ON_KILL], metadata["annotations"][labels.ON_FINISH]) == ("suspend", "keep")


def test_the_users_manifest_is_not_changed():
    before = repr(PYTORCHJOB)
    _main(_order(PYTORCHJOB))

    assert repr(PYTORCHJOB) == before


def test_a_trainjobs_name_leaves_room_for_its_longest_pod():
    name = _main(_order(TRAINJOB))["metadata"]["name"]

    assert len(f"{name}-19-dataset-initializer-0-0-abcde") <= 63


def test_a_trainjob_has_as_many_nodes_as_its_runtime_says():
    order = _order(TRAINJOB)

    assert order.runtime == "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/torch"
    assert _main(order, runtime=RUNTIME)["metadata"]["annotations"][labels.GROUPS] == '{"node": 4}'


@pytest.mark.parametrize(
    ("policy", "groups"),
    [({}, '{"launcher": 1, "node": 4}'), ({"runLauncherAsNode": True}, '{"launcher": 1, "node": 3}')],
)
def test_the_launcher_of_a_trainjob_stands_in_its_runtime(policy, groups):
    steps = [{"name": "launcher"}, {"name": "node"}]
    runtime = {"spec": {"mlPolicy": {"numNodes": 4, "mpi": policy}, "template": {"spec": {"replicatedJobs": steps}}}}

    assert _main(_order(TRAINJOB), runtime=runtime)["metadata"]["annotations"][labels.GROUPS] == groups


def test_the_manifest_itself_decides_what_is_the_same_job():
    changed = {**PYTORCHJOB, "spec": {**PYTORCHJOB["spec"], "aFieldOfTomorrow": {"x": 2}}}
    again = {name: PYTORCHJOB[name] for name in reversed(PYTORCHJOB)}

    assert _order(PYTORCHJOB).digest == _order(again).digest != _order(changed).digest


@pytest.mark.parametrize(
    ("spec", "groups"),
    [
        ({"completionMode": "Indexed", "completions": 3, "parallelism": 3}, {"worker": 3}),
        ({}, {"worker": 1}),
        ({"backoffLimit": 3, "completions": 1}, {"worker": 1}),
    ],
)
def test_the_pods_of_a_job_that_can_be_distinguished(spec, groups):
    job = plan_manifest(
        parse_manifest_spec({"manifest": {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {}, **spec}}})
    )

    assert KINDS[job.kind].groups(dict(job.spec.manifest)) == groups


@pytest.mark.parametrize("spec", [{"parallelism": 2}, {"completions": 2}])
def test_a_job_whose_pods_cannot_be_distinguished_is_refused(spec):
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {}, **spec}}

    with pytest.raises(SpecError, match="completionMode: Indexed"):
        plan_manifest(parse_manifest_spec({"manifest": manifest}))


UIDS = {"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u"}
VISION = {"team": "vision"}


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        # As `kubectl get -o yaml` prints it.
        (
            {
                "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
                "template": {
                    "metadata": {
                        "creationTimestamp": None,
                        "labels": {**UIDS, "job-name": "j", "batch.kubernetes.io/job-name": "j", **VISION},
                    }
                },
            },
            {"template": {"metadata": {"creationTimestamp": None, "labels": VISION}}},
        ),
        (
            {"selector": {"matchLabels": {**UIDS, **VISION}}, "template": {}},
            {"selector": {"matchLabels": VISION}, "template": {}},
        ),
        # The user's own: the API server says what it thinks of it.
        *(
            (spec, spec)
            for spec in (
                {"selector": {"matchLabels": VISION}, "template": {"metadata": {"labels": VISION}}},
                {"selector": {"matchExpressions": []}, "template": {}},
                {"manualSelector": True, "selector": {"matchLabels": UIDS}, "template": {"metadata": {"labels": UIDS}}},
                {"template": {"metadata": {"labels": None}}},
                {"template": "a typing error"},
            )
        ),
    ],
)
def test_a_job_that_was_read_from_a_cluster_is_a_new_one(spec, kept):
    metadata = {"labels": {**UIDS, **VISION}, "ownerReferences": [{"uid": "u"}], "finalizers": ["x/y"]}
    main = _main(_order({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}))

    assert main["spec"] == kept
    assert set(main["metadata"]) == {"name", "labels", "annotations"}
    assert VISION.items() <= main["metadata"]["labels"].items()
    assert spec.get("manualSelector") or not UIDS.keys() & main["metadata"]["labels"].keys()


def test_every_kind_has_one_backend_and_a_service_is_none():
    kinds = [(kind.resource.api_version, kind.resource.kind) for each in BACKENDS for kind in manifest_kinds(each)]

    assert len(kinds) == len(set(kinds)) == 9
    assert ("v1", "Service") not in kinds


JOB = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"ttlSecondsAfterFinished": 30, "template": {"spec": {}}}}


@pytest.mark.parametrize(
    ("manifest", "path"),
    [
        (JOB, ["spec"]),
        (
            {**PYTORCHJOB, "spec": {**PYTORCHJOB["spec"], "runPolicy": {"ttlSecondsAfterFinished": 30}}},
            ["spec", "runPolicy"],
        ),
    ],
)
def test_a_job_that_would_delete_itself_does_so_only_after_its_outcome_is_safe(manifest, path):
    main = _main(_order(manifest))

    where = main
    for name in path:
        where = where[name]
    assert "ttlSecondsAfterFinished" not in where
    assert main["metadata"]["annotations"][labels.TTL] == "30"


def test_the_operators_own_time_until_deletion_wins_over_the_manifests():
    policy = {"ttl_seconds_after_finished": 7}

    main = _main(_order(JOB, run_policy=policy, on_finish_action="keep"))

    assert main["metadata"]["annotations"][labels.TTL] == "7"


def _with_deadline(manifest, seconds, **facts):
    job = plan_manifest(parse_manifest_spec({"manifest": manifest}), deadline=seconds)
    return manifest_order(job, "ours", IDENTITY), _main(manifest_order(job, "ours", IDENTITY), **facts)["spec"]


MPIJOB = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": {"mpiReplicaSpecs": {"Launcher": {}}}}
OLD_TRAINER = {"properties": {"spec": {"properties": {}}}}


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (JOB, {"activeDeadlineSeconds": 60}),
        ({**JOB, "spec": {**JOB["spec"], "activeDeadlineSeconds": 50}}, {"activeDeadlineSeconds": 50}),
        ({**JOB, "spec": {**JOB["spec"], "activeDeadlineSeconds": 70}}, {"activeDeadlineSeconds": 60}),
        (TRAINJOB, {"activeDeadlineSeconds": 60}),
        (MPIJOB, {"runPolicy": {"activeDeadlineSeconds": 60}}),
        (PYTORCHJOB, {"runPolicy": {"activeDeadlineSeconds": 60}}),
    ],
)
def test_a_manifest_of_a_task_with_a_time_has_a_deadline_that_is_no_later(manifest, expected):
    _, spec = _with_deadline(manifest, 59.5)

    assert {name: spec[name] for name in expected} == expected


def test_the_training_operator_needs_the_deadline_on_the_pods_as_well():
    _, spec = _with_deadline(PYTORCHJOB, 60)

    template = spec["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    assert template == {"terminationGracePeriodSeconds": 90, "activeDeadlineSeconds": 60}


def test_a_trainer_without_the_field_gets_no_deadline():
    _, spec = _with_deadline(TRAINJOB, 60, schema=OLD_TRAINER)

    assert "activeDeadlineSeconds" not in spec


def test_a_deadline_does_not_make_it_another_job():
    order, _ = _with_deadline(JOB, 60)

    assert order.digest == _order(JOB).digest


@pytest.mark.parametrize(("ready", "phase"), [(0, JobPhase.STARTING), (1, JobPhase.RUNNING)])
def test_of_a_job_whose_pods_cannot_be_distinguished_only_the_job_itself_is_read(ready, phase):
    main = {"metadata": {}, "spec": {"parallelism": 2, "completions": 2}, "status": {"ready": ready}}
    kind = KINDS["job"]

    assert (kind.groups(main), kind.replica_ref({"metadata": {}}, main)) == ({}, None)
    assert kind.read(main, []).phase is phase


def test_the_time_to_live_of_a_v2beta1_mpijob_is_its_own():
    policy = {"runPolicy": {"ttlSecondsAfterFinished": 30}}

    main = _main(_order({**MPIJOB, "spec": {**MPIJOB["spec"], **policy}}))

    assert main["spec"]["runPolicy"]["ttlSecondsAfterFinished"] == 30
    assert labels.TTL not in main["metadata"]["annotations"]


def _batch_job(*held, **spec):
    """A Job that something else has created, with conditions that hold."""
    since = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": name, "status": "True", "reason": "R", "message": "M", "lastTransitionTime": since} for name in held
    ]
    return {"metadata": {}, "spec": {"completions": 1, **spec}, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("condition", "phase"),
    [
        # Its last Pods are still ending.
        ("SuccessCriteriaMet", JobPhase.SUCCEEDED),
        ("FailureTarget", JobPhase.FAILED),
        ("Complete", JobPhase.SUCCEEDED),
        ("Failed", JobPhase.FAILED),
    ],
)
def test_a_job_has_ended_once_its_end_is_decided(condition, phase):
    found = KINDS["job"].read(_batch_job(condition), [])

    assert (found.phase, found.reason, found.message) == (phase, "R", "M")
    assert found.finished_at == datetime(2026, 1, 1, tzinfo=timezone.utc)


def test_a_job_that_was_suspended_is_suspended_unless_it_has_ended():
    found = KINDS["job"].read(_batch_job(suspend=True), [])

    assert (found.phase, found.reason) == (JobPhase.SUSPENDED, "JobSuspended")
    assert KINDS["job"].read(_batch_job("Complete", suspend=True), []).phase is JobPhase.SUCCEEDED


@pytest.mark.parametrize(("index", "ref"), [("2", ReplicaRef("worker", 2)), ("x", None), (None, None)])
def test_a_pod_of_an_indexed_job_is_the_replica_of_its_index(index, ref):
    main = _batch_job(completionMode="Indexed", completions=3)
    pod_labels = index and {"batch.kubernetes.io/job-completion-index": index}

    assert KINDS["job"].replica_ref({"metadata": {"labels": pod_labels}}, main) == ref
