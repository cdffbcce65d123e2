"""What is kept of an object that is watched."""

from __future__ import annotations

import copy

from airflow_trainer_provider.kinds.trimmed import trimmed

LONG = [{"name": "A", "value": "1"}, {"name": "A_TOKEN", "value": "hunter2-x"}]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "uid": "u",
        "resourceVersion": "1",
        "labels": {"a": "b"},
        "annotations": {
            "kept": "yes",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "airflow-trainer-provider/log-0123": "{}",
        },
        "managedFields": [{"manager": "x"}],
    },
    "spec": {
        "containers": [{"name": "main", "image": "i", "env": LONG}],
        "initContainers": [{"name": "before", "restartPolicy": "Always", "image": "i"}],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 3,
        "nodeName": "n",
        "volumes": [{"name": "v"}],
        "tolerations": [{"key": "k"}],
    },
    "status": {
        "phase": "Running",
        "containerStatuses": [{"name": "main", "state": {"running": {}}, "restartCount": 1, "imageID": "i@sha"}],
    },
}


def test_of_a_pod_what_shows_its_status():
    before = copy.deepcopy(POD)

    found = trimmed(POD)

    assert before == POD
    assert found["metadata"] == {
        "name": "p",
        "uid": "u",
        "resourceVersion": "1",
        "labels": {"a": "b"},
        "annotations": {"kept": "yes"},
    }
    assert found["spec"] == {
        "containers": [{"name": "main"}],
        "initContainers": [{"name": "before", "restartPolicy": "Always"}],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 3,
        "nodeName": "n",
        # What it writes is masked by them.
        "secrets": {"hunter2-x"},
    }
    assert found["status"] == {
        "phase": "Running",
        "containerStatuses": [{"name": "main", "state": {"running": {}}, "restartCount": 1}],
    }


def test_of_a_job_all_but_what_its_pods_are_made_from():
    replicas = {"replicas": 2, "restartPolicy": "Never", "template": {"metadata": {}, "spec": POD["spec"]}}
    job = {
        "metadata": {"name": "j"},
        "spec": {"pytorchReplicaSpecs": {"Worker": replicas}, "trainer": {"numNodes": 2, "env": LONG, "args": ["a"]}},
        "status": {"conditions": [{"type": "Running", "status": "True"}]},
    }

    found = trimmed(job)

    assert found["spec"]["pytorchReplicaSpecs"]["Worker"] == {
        "replicas": 2,
        "restartPolicy": "Never",
        "template": {"spec": {"containers": [{"name": "main"}]}},
    }
    assert found["spec"]["trainer"] == {"numNodes": 2}
    assert found["status"] == job["status"]


def test_words_that_repeat_are_one_object():
    one, other = (trimmed({"metadata": {"name": f"{number}", "labels": {"k" * 50: "v" * 50}}}) for number in (1, 2))

    (key, value), (same_key, same_value) = (*one["metadata"]["labels"].items(), *other["metadata"]["labels"].items())
    assert key is same_key
    assert value is same_value
