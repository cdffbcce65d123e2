"""The folder for checkpoints: what is accepted, and what an error says."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.errors import SpecError, UnsupportedField
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.spec import parse_spec


def _spec(checkpoint):
    return {"framework": "jax", "command": ["true"], "checkpoint": checkpoint}


@pytest.mark.parametrize(
    ("checkpoint", "source", "scope"),
    [
        ({"claim": "models"}, "claim", "task"),
        ({"host_path": "/srv/checkpoints/", "scope": "dag"}, "host_path", "dag"),
        ({"claim": "models", "path": "a/b", "scope": "run"}, "claim", "run"),
    ],
)
def test_a_folder(checkpoint, source, scope):
    found = parse_spec(_spec(checkpoint)).checkpoint

    assert (found.source, found.scope) == (source, scope)


@pytest.mark.parametrize(
    ("checkpoint", "field", "value", "allowed", "fix"),
    [
        ({}, "", None, "exactly one of claim, host_path", "Say where the checkpoints are kept."),
        ({"scope": "dag"}, "", None, "exactly one of claim, host_path", "Say where the checkpoints are kept."),
        (
            {"claim": "a", "host_path": "/b"},
            "",
            "claim, host_path",
            "exactly one of claim, host_path",
            "Drop one of them.",
        ),
        ("s3://models/llm", "", "str", 'a mapping, e.g. {"claim": "models"}', "Write a mapping of its fields."),
        ({"uri": "s3://models"}, ".uri", "uri", "claim, host_path, path, scope", "Mount a claim or a host_path"),
        ({"s3": {"uri": "s3://a"}}, ".s3", "s3", "claim, host_path, path, scope", "Mount a claim or a host_path"),
        ({"pvc": "models"}, ".pvc", "pvc", "claim, host_path, path, scope", "Write claim"),
        ({"folder": "/srv"}, ".folder", "folder", "claim, host_path, path, scope", "Write host_path"),
        ({"claim": "My_Claim"}, ".claim", "My_Claim", "1 to 253 lowercase letters", "Write the object's name"),
        ({"claim": {"claimName": "a"}}, ".claim", "dict", "the claim's name alone", "Write the claim's name itself."),
        ({"host_path": "srv"}, ".host_path", "srv", "an absolute path", "Write the whole path."),
        ({"claim": "a", "path": "../b"}, ".path", "../b", "a relative path", "Write the path below it."),
        ({"claim": "a", "scope": "runs"}, ".scope", "runs", "task, run, dag", "Did you mean 'run'?"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(checkpoint, field, value, allowed, fix):
    with pytest.raises(SpecError) as caught:
        parse_spec(_spec(checkpoint))

    problem = next(each for each in caught.value.problems if each.field == f"checkpoint{field}")
    assert problem.value == value
    assert allowed in problem.allowed
    assert problem.fix.startswith(fix)


def test_the_local_backend_has_no_claims(tmp_path):
    backend = LocalBackend(tmp_path, 0.05, None)

    backend.check(plan_job(parse_spec(_spec({"host_path": str(tmp_path)}))))
    with pytest.raises(UnsupportedField) as caught:
        backend.check(plan_job(parse_spec(_spec({"claim": "models"}))))

    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == ("checkpoint.claim", "models")
    assert problem.fix == "Set checkpoint.host_path to a folder of this machine, or use a cluster."
