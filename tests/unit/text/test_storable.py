"""What Airflow's serializers and databases keep, and what becomes of the rest."""

from __future__ import annotations

import json
import os
import random

import pytest

from airflow_trainer_provider.text.storable import DEEPEST, storable, storable_text, why_not_storable
from tests.hostile_values import hostile, kept, nested

_VALUES = int(os.environ.get("FUZZ_VALUES", "300"))


def test_what_is_storable_comes_back_and_the_rest_does_once_it_is_made_storable():
    seed = random.randrange(2**32)
    source = random.Random(seed)

    for number in range(_VALUES):
        value = hostile(source)
        case = f"seed {seed}, value {number}: {value!r}"
        if why_not_storable(value) is None:
            assert kept(value) == value, case
            assert storable(value) == value, case
        cleaned = storable({"summary": {"result": value}})["summary"]["result"]
        assert kept(cleaned) == cleaned, case


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("a\x00b", "has the character U+0000"),
        ({"a": ["\ud800"]}, "has the character U+D800"),
        ({"a\x00": 1}, "has the character U+0000"),
        ([float("inf")], "has the number Infinity"),
        ({"a": 2**64}, "has a whole number of more than 64 bits"),
        ({"a": {"__classname__": "x"}}, "has the key '__classname__'"),
        (nested(DEEPEST + 1), "has more than 50 levels"),
        (nested(100_000), "has more than 50 levels"),
    ],
)
def test_why_a_value_is_not_stored(value, why):
    assert why_not_storable(value).startswith(why)


@pytest.mark.parametrize(
    "value", [None, 1, "é\n\x1b", {"a": [1.5, {"b": None}]}, nested(DEEPEST), nested(DEEPEST, dict)]
)
def test_what_is_stored_stays_as_it_is(value):
    assert why_not_storable(value) is None
    assert storable(value) == value


def test_what_cannot_be_stored_is_replaced():
    assert storable_text("a\x00\ud800b") == "a\ufffd\ufffdb"
    assert storable({"__type": float("nan"), "a\x00": (2**64,)}) == {"__type_": "NaN", "a\ufffd": [str(2**64)]}
    assert "too deep" in json.dumps(storable(nested(100)))
