"""What is asked of a cluster where the user brings a manifest: ours is added, and all else is left as it is."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster.order import manifest_order
from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import Facts
from airflow_trainer_provider.kinds.manifest import manifest_job
from airflow_trainer_provider.kinds.registry import BACKENDS, manifest_kinds
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
        "labels": {"team": "vision", labels.MANAGED_BY: "somebody"},
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
    return manifest_order(manifest_job(parse_manifest_spec({"manifest": manifest, **fields})), "ours", IDENTITY)


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


def test_the_longest_grace_period_of_its_pods_is_waited_for():
    assert _order(PYTORCHJOB).grace == 90
    assert _order(TRAINJOB).grace == 30


@pytest.mark.parametrize(
    ("spec", "groups"),
    [
        ({"completionMode": "Indexed", "completions": 3, "parallelism": 3}, {"worker": 3}),
        ({}, {"worker": 1}),
        ({"backoffLimit": 3, "completions": 1}, {"worker": 1}),
    ],
)
def test_the_pods_of_a_job_that_can_be_told_apart(spec, groups):
    job = manifest_job(
        parse_manifest_spec({"manifest": {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {}, **spec}}})
    )

    assert job.kind.groups(dict(job.spec.manifest)) == groups


@pytest.mark.parametrize("spec", [{"parallelism": 2}, {"completions": 2}])
def test_a_job_whose_pods_cannot_be_told_apart_is_refused(spec):
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {}, **spec}}

    with pytest.raises(SpecError, match="completionMode: Indexed"):
        manifest_job(parse_manifest_spec({"manifest": manifest}))


def test_every_kind_has_one_backend_and_a_service_is_none():
    kinds = [(kind.resource.api_version, kind.resource.kind) for each in BACKENDS for kind in manifest_kinds(each)]

    assert len(kinds) == len(set(kinds)) == 9
    assert ("v1", "Service") not in kinds
