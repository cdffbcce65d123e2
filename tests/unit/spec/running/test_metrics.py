"""Validation of the regular expressions that read metrics."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.job.identity import spec_digest
from airflow_trainer_provider.spec import parse_manifest_spec, parse_spec
from airflow_trainer_provider.spec.running.metrics import compiled

NAMES = "a letter and then at most 63 letters, digits"
SYNTAX = "in the syntax of RE2, which has neither lookaround nor back references"
GROUPS = "exactly one group, or one group called 'value'"


def _parse(metrics):
    return parse_spec({"framework": "jax", "command": ["python"], "metrics": metrics})


@pytest.mark.parametrize(
    ("metrics", "field", "value", "allowed", "fix"),
    [
        ("loss=(.*)", "", "str", "a mapping of names to regular expressions", "Write names and expressions"),
        ("{'loss': 'a'}", "", "str", "a mapping of names to regular expressions", "render_template_as_native_obj"),
        ({f"m{at}": "(a)" for at in range(33)}, "", "33 names", "at most 32 names", "Keep those"),
        ({"1a": "(a)"}, "", "1a", NAMES, "Rename it."),
        ({"a" * 65: "(a)"}, "", "a" * 64, NAMES, "Rename it."),
        ({"a b": "(a)"}, "", "a b", NAMES, "Rename it."),
        ({"loss": 5}, "loss", "int", "text", "in quotes"),
        ({"loss": "x" * 501}, "loss", "501 characters", "at most 500 characters", "Shorten it"),
        ({"loss": "loss=.*"}, "loss", "loss=.*", GROUPS, "Put one pair of parentheses"),
        ({"loss": "(a)(b)"}, "loss", "(a)(b)", GROUPS, "write the others as (?:...)"),
        ({"loss": "(?<=loss=)(.*)"}, "loss", "(?<=loss=)(.*)", SYNTAX, "RE2 says"),
        ({"loss": r"(a)\1"}, "loss", r"(a)\1", SYNTAX, "Match the text beside the number"),
        ({"loss": "(a"}, "loss", "(a", SYNTAX, "missing )"),
        ({"loss": "(?:.{0,900})(a)"}, "loss", "(?:.{0,900})(a)", SYNTAX, "the expression is too large"),
    ],
)
def test_what_is_refused(metrics, field, value, allowed, fix):
    with pytest.raises(SpecError) as raised:
        _parse(metrics)

    problem = raised.value.problems[0]
    assert problem.field == ("metrics" + (f".{field}" if field else ""))
    assert problem.value == value
    assert allowed in problem.allowed
    assert fix in problem.fix


@pytest.mark.parametrize("name", ["step", "total_steps", "loss", "eval/loss", "val_acc@1", "a.b:c-d"])
def test_names_and_expressions_that_are_taken(name):
    spec = _parse({name: r"(?i)x=(?P<value>[-+.\deE]+|nan|inf)(;|$)"})

    assert set(spec.metrics) == {name}


def test_other_expressions_are_the_same_job():
    assert spec_digest(_parse({"loss": "(a)"})) == spec_digest(_parse({"lr": "(b)"})) == spec_digest(_parse(None))


def test_a_manifest_has_metrics_too():
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {}}}

    assert parse_manifest_spec({"manifest": manifest, "metrics": {"loss": "(a)"}}).metrics == {"loss": "(a)"}


def test_a_line_that_matches_without_its_value_has_none():
    loss = compiled("loss=([0-9.]+)?")

    assert [loss.find(line) for line in (b"loss=0.5", b"loss=", b"lr=1")] == ["0.5", None, None]
