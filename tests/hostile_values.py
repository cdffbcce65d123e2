"""Random values some of whose parts neither a database nor a serializer keeps."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
from airflow.sdk.bases.xcom import BaseXCom
from airflow.serialization.serialized_objects import BaseSerialization

from airflow_trainer_provider.text.storable import DEEPEST, RESERVED_KEYS

_TEXTS = ["", "a", "loss", "\x00", "a\x00b", "\ud800", "\udfff\ud800", "\ufffd", "\x1b[1m"]
_TEXTS += ["\x7f", "é", "\U0001f600", " \n\r\t", "__x"]
_NUMBERS: list[Any] = [0, -1, 1.5, True, None, 2**63, 2**64, -(2**63) - 1, float("nan"), float("inf"), 1e308]


def nested(levels: int, kind: type = list) -> Any:
    """A value of lists or mappings, one in the other."""
    value: Any = 1
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


def hostile(source: random.Random, depth: int = 0) -> Any:
    """A random JSON value, some of whose parts are such that nothing keeps them."""
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


def kept(value: Any) -> Any:
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
