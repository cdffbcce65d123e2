"""Settings of pods: valid values, the errors of invalid ones, and how a group's settings override the job's."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.spec import parse_spec

OBJECT = "1 to 253 lowercase letters, digits, '-' and '.'"
KEY = "1 to 63 letters, digits, '-', '_' and '.'"
VALUE = "at most 63 letters, digits, '-', '_' and '.'"
ONE = "either secret or config_map"


@pytest.mark.parametrize(
    ("pod", "field", "value", "allowed", "fix"),
    [
        ([], "", "list", "a mapping of its fields", "Change pod."),
        ({"service_acount": "a"}, "service_acount", "service_acount", "service_account", "Did you mean"),
        ({"service_account": "A B"}, "service_account", "A B", OBJECT, "Write the object's name alone."),
        ({"security": {"run_as_user": -1}}, "security.run_as_user", -1, "a number of at least 0", "Set"),
        ({"security": {"run_as_user": 2**31}}, "security.run_as_user", 2**31, "a number of at most 2147483647", "Set"),
        ({"security": {"run_as_user": "root"}}, "security.run_as_user", "root", "a whole number", "Change"),
        ({"security": {"fs_group": True}}, "security.fs_group", True, "a whole number", "Write the number itself."),
        ({"security": {"supplemental_groups": 7}}, "security.supplemental_groups", 7, "a list", "Change"),
        ({"image_pull": {"policy": "always"}}, "image_pull.policy", "always", "Always, IfNotPresent", "Did you mean"),
        ({"image_pull": {"secrets": "a"}}, "image_pull.secrets", "str", "a list", "Change pod.image_pull.secrets."),
        ({"image_pull": {"secrets": [{"name": "a"}]}}, "image_pull.secrets[0]", "dict", "text", "Change"),
        ({"labels": {"team": "a b"}}, "labels.team", "a b", VALUE, "Shorten it"),
        ({"labels": {"-team": "a"}}, "labels", "-team", KEY, "Rename it."),
        ({"annotations": {"a": {"b": "c"}}}, "annotations.a", "dict", "text or a number", "Write it as text"),
        ({"annotations": {"a b": "c"}}, "annotations", "a b", KEY, "Rename it."),
        ({"env_from": {"secret": "a"}}, "env_from", "dict", "a list", "Change pod.env_from."),
        ({"env_from": ["a"]}, "env_from[0]", "str", "a mapping of its fields", "Change pod.env_from[0]."),
        ({"env_from": [{}]}, "env_from[0]", "neither", ONE, "Write one entry for each object."),
        (
            {"env_from": [{"secret": "a", "config_map": "b"}]},
            "env_from[0]",
            "config_map and secret",
            ONE,
            "Write one entry for each object.",
        ),
        ({"env_from": [{"secret": "a", "prefix": "1_"}]}, "env_from[0].prefix", "1_", "names of letters", "Rename"),
        (
            {"env_from": [{"secret": "a", "prefix": "TRAINER_"}]},
            "env_from[0].prefix",
            "TRAINER_",
            "names that do not begin with TRAINER_",
            "Rename",
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("role", [None, "worker"])
def test_what_is_wrong_is_named(pod, field, value, allowed, fix, role):
    place = f"replicas.{role}.pod" if role else "pod"
    with pytest.raises(SpecError) as caught:
        parse_spec({"framework": "jax", **({"replicas": {role: {"pod": pod}}} if role else {"pod": pod})})

    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == (f"{place}.{field}".rstrip("."), value)
    assert allowed in problem.allowed
    assert problem.fix.startswith(fix.replace("pod", place))


def test_a_groups_settings_are_laid_over_the_jobs():
    job = plan_job(
        parse_spec(
            {
                "framework": "pytorch",
                "num_nodes": 3,
                "pod": {
                    "service_account": "data",
                    "security": {"run_as_user": 5000, "fs_group": 7},
                    "labels": {"team": "vision", "stage": "test"},
                    "env_from": [{"secret": "hub"}],
                },
                "replicas": {
                    "master": {
                        "pod": {"security": {"run_as_user": 0}, "labels": {"stage": "prod"}, "env_from": []},
                    },
                    "worker": {"overrides": [{"index": 1, "pod": {"labels": {"slow": 1}}}]},
                },
            }
        )
    )

    master, worker, other = (replica.pod for replica in job.replicas)
    assert (master.service_account, master.env_from) == ("data", ())
    assert (master.security.run_as_user, master.security.fs_group) == (0, 7)
    assert master.labels == {"team": "vision", "stage": "prod"}
    assert worker == job.spec.pod
    assert (other.service_account, other.labels) == (None, {"slow": "1"})


def test_the_secrets_that_a_job_refers_to():
    fields = {
        "pod": {"image_pull": {"secrets": ["a"]}, "env_from": [{"secret": "b"}, {"config_map": "c"}]},
        "replicas": {"worker": {"pod": {"env_from": [{"secret": "d"}]}}},
    }

    assert parse_spec({"framework": "jax", **fields}).secrets == {"a", "b", "d"}
