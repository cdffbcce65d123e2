"""Exit codes are written as numbers and ranges, and mean the same however they are written."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.job.identity import spec_digest
from airflow_trainer_provider.spec import parse_spec
from airflow_trainer_provider.spec.running.exit_codes import ExitCodes


def spec(codes):
    return parse_spec({"framework": "jax", "run_policy": {"exit_codes": codes}})


@pytest.mark.parametrize(
    ("codes", "permanent", "retryable"),
    [
        ({"fail": [3]}, [3], [1, 2, 4, 137, 255]),
        ({"fail": ["1-127"]}, [1, 127], [128, 255]),
        ({"restart": [75, "128-255"]}, [1, 74, 76, 127], [75, 128, 137, 255]),
    ],
)
def test_codes_that_are_not_listed_are_of_the_other_kind(codes, permanent, retryable):
    found = ExitCodes.model_validate(codes)

    assert [code for code in permanent + retryable if found.is_permanent(code)] == permanent


def test_the_same_codes_are_the_same_spec_however_they_are_written():
    written = [{"fail": [3, 1, 2, "70-80", 75]}, {"fail": ["70-80", "1-3"]}, {"fail": ("1", "2-3", "70-75", "74-80")}]

    assert len({spec_digest(spec(codes)) for codes in written}) == 1
    found = spec(written[0]).run_policy.exit_codes
    assert found.fail == ("1-3", "70-80")
    assert found.listed == (1, 2, 3, *range(70, 81))
    assert ExitCodes.model_validate_json(found.model_dump_json(exclude_none=True)) == found


@pytest.mark.parametrize(
    ("codes", "field", "value", "fix"),
    [
        ({}, "fail", None, "Name the codes of one kind."),
        ({"fail": [1], "restart": [2]}, "fail", "a value", "Name the codes of one kind."),
        ({"fail": []}, "fail", [], "At least one is needed."),
        ({"fail": 3}, "fail", "int", "List them"),
        ({"fail": "1-3"}, "fail", "str", "List them"),
        ({"fail": [0]}, "fail[0]", 0, "Write a number, or a range"),
        ({"restart": [1, 256]}, "restart[1]", 256, "Write a number, or a range"),
        ({"restart": ["9-3"]}, "restart[0]", "9-3", "Write a number, or a range"),
        ({"restart": [True]}, "restart[0]", True, "Write a number, or a range"),
        ({"restart": [{}]}, "restart[0]", "dict", "Write a number, or a range"),
        ({"fail": ["130-140"]}, "fail", 137, "Leave them out"),
        ({"fail": [143]}, "fail", 143, "Leave them out"),
    ],
)
def test_what_is_wrong_is_named(codes, field, value, fix):
    with pytest.raises(SpecError) as caught:
        spec(codes)

    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == (f"run_policy.exit_codes.{field}", value)
    assert fix in problem.fix
