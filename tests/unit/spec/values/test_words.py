"""Command lines and variables: what XCom and Jinja bring, and what becomes of it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.spec import TrainJobSpec, parse_spec
from airflow_trainer_provider.spec.values.limits import MOST_WORD_BYTES

#: Each place that takes words, or values of variables: how to put one there, how to read it, and what it is called.
PLACES: dict[str, tuple[Any, Any]] = {
    "args[1]": (lambda x: {"args": ["a", x]}, lambda spec: spec.args[1]),
    "command[1]": (lambda x: {"command": ["a", x]}, lambda spec: spec.command[1]),
    "env.N": (lambda x: {"env": {"N": x}}, lambda spec: spec.env["N"]),
    "replicas.worker.args[0]": (
        lambda x: {"replicas": {"worker": {"args": [x]}}},
        lambda spec: spec.replicas["worker"].args[0],
    ),
    "replicas.worker.env.N": (
        lambda x: {"replicas": {"worker": {"env": {"N": x}}}},
        lambda spec: spec.replicas["worker"].env["N"],
    ),
    "replicas.worker.overrides[0].args[0]": (
        lambda x: {"replicas": {"worker": {"overrides": [{"index": 0, "args": [x]}]}}},
        lambda spec: spec.replicas["worker"].overrides[0].args[0],
    ),
    "replicas.worker.overrides[0].env.N": (
        lambda x: {"replicas": {"worker": {"overrides": [{"index": 0, "env": {"N": x}}]}}},
        lambda spec: spec.replicas["worker"].overrides[0].env["N"],
    ),
    "pod_template.spec.containers[0].env[0].value": (
        lambda x: {"pod_template": {"spec": {"containers": [{"name": "train", "env": [{"name": "N", "value": x}]}]}}},
        lambda spec: spec.pod_template["spec"]["containers"][0]["env"][0]["value"],
    ),
    "pod_template.spec.containers[0].args[0]": (
        lambda x: {"pod_template": {"spec": {"containers": [{"name": "train", "args": [x]}]}}},
        lambda spec: spec.pod_template["spec"]["containers"][0]["args"][0],
    ),
}


class Numpys:
    """A scalar of numpy, which is none of Python's numbers."""

    shape = ()

    def __init__(self, value: Any) -> None:
        self._value = value

    def item(self) -> Any:
        return self._value

    def __repr__(self) -> str:
        return f"numpy({self._value})"


def _parse(**fields: Any) -> TrainJobSpec:
    return parse_spec({"framework": "jax", **fields})


def _only_problem(**fields: Any) -> Problem:
    with pytest.raises(SpecError) as caught:
        _parse(**fields)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("number", "text"),
    [
        (3, "3"),
        (-1, "-1"),
        (0.1, "0.1"),
        (2.0, "2.0"),
        (1e-05, "1e-05"),
        (10**20, "100000000000000000000"),
        (Decimal("0.10"), "0.10"),
        (Decimal("1E+3"), "1000"),
        (Numpys(7), "7"),
        (Numpys(0.5), "0.5"),
    ],
    ids=str,
)
def test_a_number_becomes_its_text(place: str, number: Any, text: str) -> None:
    put, read = PLACES[place]

    assert read(_parse(**put(number))) == text


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("value", "shown", "fix"),
    [
        (True, True, '"true" or "1"'),
        (Numpys(False), False, '"true" or "1"'),
        (["a"], "list", "Write it as text"),
        ({"a": 1}, "dict", ""),
        (b"x", "bytes", "Decode it"),
        ("a\0b", "text with a NUL character", "Remove it"),
        (float("nan"), None, "Correct it"),
        (Decimal("NaN"), "a Decimal", "Correct it"),
    ],
    ids=str,
)
def test_what_has_no_text_is_refused_where_it_stands(place: str, value: Any, shown: Any, fix: str) -> None:
    put, _ = PLACES[place]
    problem = _only_problem(**put(value))

    assert problem.field == place
    assert fix in problem.fix
    assert shown is None or problem.value == shown


@pytest.mark.parametrize("place", [place for place in PLACES if not place.endswith(".value")])
def test_what_was_never_pushed_to_xcom_is_refused_where_it_stands(place: str) -> None:
    put, _ = PLACES[place]
    problem = _only_problem(**put(None))

    assert (problem.field, problem.value) == (place, None)
    assert "A value that was not pushed to XCom is None" in problem.fix


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"args": ["x" * MOST_WORD_BYTES, "x" * (MOST_WORD_BYTES + 1)]}, "args[1]"),
        ({"command": ["ä" * (MOST_WORD_BYTES // 2 + 1)]}, "command[0]"),
        ({"env": {"A": "x" * (MOST_WORD_BYTES - 2), "LONG": "x" * (MOST_WORD_BYTES - 4)}}, "env.LONG"),
    ],
)
def test_what_linux_takes_for_no_argument_or_variable_is_refused(fields: dict[str, Any], field: str) -> None:
    problem = _only_problem(**fields)

    assert problem.field == field
    assert "131071 bytes" in problem.allowed
    assert len(str(problem)) < 1000


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("args", "['--epochs', '4']"),
        ("command", "('python', 'train.py')"),
        ("env", "{'A': 'b'}"),
        ("replicas", '{"worker": {}}'),
        ("pod_template", "{'spec': {}}"),
        ("resources_per_node", "{'cpu': 2}"),
        ("scheduling", "{'node_selector': {'a': 'b'}}"),
        ("pod", "{'labels': {'a': 'b'}}"),
        ("run_policy", "{'backoff_limit': 2}"),
        ("elastic", "{'min_nodes': 1, 'max_nodes': 2}"),
    ],
)
def test_a_list_or_mapping_that_jinja_made_text_of_names_the_way_out(field: str, text: str) -> None:
    problem = _only_problem(**{field: text})

    assert (problem.field, problem.value) == (field, "str")
    assert "render_template_as_native_obj=True" in problem.fix


@pytest.mark.parametrize("field", ["image", "working_dir", "runtime_ref"])
def test_digits_that_became_a_number_are_text_again(field: str) -> None:
    assert getattr(_parse(**{field: 2024}), field) == "2024"


@pytest.mark.parametrize("value", [1.1, True])
def test_what_native_rendering_has_changed_for_good_is_refused(value: Any) -> None:
    problem = _only_problem(image=value)

    assert "two pairs of quotes" in problem.fix


def test_a_list_of_variables_and_a_variable_from_a_secret_name_the_way_out() -> None:
    assert "Write names and values" in _only_problem(env=[{"name": "A", "value": "b"}]).fix
    assert 'Write {"secret": {"name"' in _only_problem(env={"A": {"valueFrom": {}}}).fix


def test_what_stands_behind_the_name_of_a_variable_is_not_shown() -> None:
    problem = _only_problem(env={"TOKEN=hunter2": ""})

    assert "hunter2" not in str(problem)
