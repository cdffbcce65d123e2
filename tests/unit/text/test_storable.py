"""What Airflow's serializers and databases keep, and what becomes of the rest."""

from __future__ import annotations

import json
import os
import random

import msgspec
import pytest
from airflow.sdk.bases.xcom import BaseXCom
from airflow.serialization.serialized_objects import BaseSerialization

from airflow_trainer_provider.text.storable import DEEPEST, RESERVED_KEYS, storable, storable_text, why_not_storable

_VALUES = int(os.environ.get("FUZZ_VALUES", "300"))
_TEXTS = ["", "a", "loss", "\x00", "a\x00b", "\ud800", "\udfff\ud800", "\ufffd", "\x1b[1m"]
_TEXTS += ["\x7f", "é", "\U0001f600", " \n\r\t", "__x"]
_NUMBERS = [0, -1, 1.5, True, None, 2**63, 2**64, -(2**63) - 1, float("nan"), float("inf"), 1e308]


def nested(levels, kind=list):
    value = 1
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


def hostile(source, depth=0):
    """A random value, some of whose parts are such that nothing keeps them."""
    kind = source.choice(["text", "number", "list", "dict", "deep"] if depth < 4 else ["text", "number"])
    if kind == "text":
        return "".join(source.choices(_TEXTS, k=source.randint(0, 3)))
    if kind == "number":
        return source.choice(_NUMBERS)
    if kind == "deep":
        return nested(source.choice([3, DEEPEST - 5, DEEPEST, DEEPEST + 1, 300]), source.choice([list, dict]))
    parts = [hostile(source, depth + 1) for _ in range(source.randint(0, 4))]
    keys = [*_TEXTS, *sorted(RESERVED_KEYS)] if source.random() < 0.3 else ["a", "b", "c", "d"]
    return parts if kind == "list" else {source.choice(keys): part for part in parts}


def kept(value):
    """The value as it comes back from all that a result passes: MessagePack, both serializers, a database."""
    value = msgspec.msgpack.decode(msgspec.msgpack.encode(value))
    event = BaseSerialization.deserialize(BaseSerialization.serialize({"summary": {"result": value}}))
    stored = json.dumps(event, allow_nan=False)
    # PostgreSQL refuses it in a column of JSON, and in one of text.
    assert "\\u0000" not in stored
    row = type("Row", (), {"value": BaseXCom.serialize_value(json.loads(stored))})
    stored = json.dumps(row.value)
    stored.encode()
    return BaseXCom.deserialize_value(row)["summary"]["result"]


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
