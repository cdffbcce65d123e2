"""Random and hostile values for the fields of operators: whatever XCom, Jinja and DAG authors can put there.

All of them follow from a field's name, a number and a seed, so that a failure can be seen again.
"""

from __future__ import annotations

import copy
import enum
import json
import pathlib
import random
import uuid
from collections import UserDict, UserString, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pydantic import BaseModel

#: Stands for a value that no error may show. It stands where secrets do, and in the errors of nasty objects.
SECRET = "s3cr3t-hunter2"


class Nasty:
    """Raises whatever is done with it."""

    def __init__(self, error: type[Exception] = RuntimeError) -> None:
        object.__setattr__(self, "error", error)

    def _raise(self, *_: Any) -> Any:
        raise object.__getattribute__(self, "error")(SECRET)

    __repr__ = __str__ = __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __getattr__ = _raise
    __int__ = __float__ = __index__ = __contains__ = __getitem__ = __lt__ = __gt__ = __format__ = _raise


class NastyText(str):
    __slots__ = ()

    def _raise(self, *_: Any) -> Any:
        raise RuntimeError(SECRET)

    __repr__ = __str__ = __eq__ = __len__ = encode = strip = lower = startswith = __contains__ = _raise
    __hash__ = str.__hash__


class NastyDict(dict):
    def _raise(self, *_: Any) -> Any:
        raise RuntimeError(SECRET)

    __repr__ = items = keys = values = __iter__ = get = __getitem__ = _raise


class NastyNumber(int):
    def _raise(self, *_: Any) -> Any:
        raise RuntimeError(SECRET)

    __repr__ = __str__ = __int__ = __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __format__ = _raise
    __hash__ = int.__hash__


class Endless(Sequence):
    """A list that never ends."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, at: Any) -> Any:
        return "x"


class EndlessMapping(Mapping):
    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        at = 0
        while True:
            at += 1
            yield f"key{at}"

    def __getitem__(self, key: str) -> Any:
        return key


class Scalar:
    """A scalar as numpy and torch have them."""

    dtype, shape = "int64", ()

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        return self.value


class KubernetesModel:
    """A model of the Kubernetes client, e.g. V1PodTemplateSpec."""

    attribute_map: Mapping[str, str] = {"service_account_name": "serviceAccountName"}

    def to_dict(self) -> dict[str, Any]:
        return {"spec": {"service_account_name": None, "containers": [{"name": "train", "image_pull_policy": None}]}}


class Model(BaseModel):
    name: str = SECRET


class Colour(enum.Enum):
    RED = "red"


class Word(str, enum.Enum):
    TRAIN = "train"


def _nested(levels: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = wrap(value)
    return value


def _self_list() -> Any:
    value: list[Any] = [1]
    value += [value, value]
    return value


def _self_dict() -> Any:
    value: dict[str, Any] = {"name": "x"}
    value["spec"] = value
    return value


def _bomb() -> Any:
    value: Any = ["x" * 10]
    for _ in range(40):
        value = [value] * 10
    return value


_LONG = "x" * 100_000
_HUGE = "x" * 3_200_000
#: Values of every sort.
_VALUES: tuple[Any, ...] = (
    *(True, False, 0, 1, -1, 2, 3, 255, 2**31, 10**9, 10**30, 10**5000, -(10**5000)),
    *(0.0, -0.0, 0.1, 2.0, 2.5, 1e22, 1e308, -1e-308, float("nan"), float("inf"), float("-inf")),
    *(Decimal("0.10"), Decimal("NaN"), Decimal("1E+999999"), Fraction(1, 3), 1j),
    *("", " ", "x", "2", "2.0", "1e3", "-1", "nan", "inf", "None", "True", "0x10", "٣", "auto", "none"),
    *("a b", "a/b", "../..", "..", ".", "a/../../kube-system?x=", "%2e%2e", "{{ x }}", "{x}", "{0}", "$(X)", "%s"),
    *("\0", "a\0b", "\n", "a\nb", "\x1b[31m", "\u202e", "\u2028", "\ud800", "🚂", "ä", "İ", "\ufeff", "A" * 64),
    *("['python', 'train.py']", "{'a': 1}", '{"a": 1}', "(1, 2)", "[", "{", "- a\n- b", "a: 1\nb: [", "&a [*a]"),
    *("TOKEN=abc", _LONG, _HUGE, "[" * 3000, "- " * 3000, '{"a":' * 3000, "1" * 5000),
    *(b"x", bytearray(b"x"), memoryview(b"x"), object(), object, print, Ellipsis, NotImplemented),
    *(datetime(2026, 11, 21, tzinfo=timezone.utc), timedelta(days=1), uuid.UUID(int=1), pathlib.Path("/x")),
    *(Colour.RED, Word.TRAIN, Model(), KubernetesModel(), UserString("x"), UserDict({"a": "b"}), deque([1])),
    *(set(), {1}, frozenset({"a"}), range(3), range(10**9), Endless(), EndlessMapping()),
    *(Scalar(3), Scalar(0.5), Scalar(True), Scalar([1]), Scalar(Nasty())),
    *(Nasty(), Nasty(RecursionError), Nasty(MemoryError), Nasty(KeyError), NastyText("x"), NastyNumber(3)),
    *([], {}, [None], [[]], {"": ""}, {"a": None}, {1: 2}, {None: 1}, {("a",): 1}, {"a\nb": 1}, {"x" * 300: 1}),
    NastyDict(a=1),
    _nested(60, lambda value: [value]),
    _nested(60, lambda value: {"spec": value}),
    _nested(20_000, lambda value: [value]),
    _nested(20_000, lambda value: {"a": value}),
    _self_list(),
    _self_dict(),
    _bomb(),
    ["x"] * 60_000,
    [1] * 300,
    {f"k{at}": "v" for at in range(60_000)},
    {f"k{at}": "v" for at in range(300)},
)
#: Those that can be used only once.
_ITERATORS: tuple[Callable[[], Any], ...] = (lambda: (word for word in ("a", "b")), lambda: iter([1]))
#: Names that people write into the wrong place.
_KEYS = (
    *("name", "image", "env", "args", "command", "replicas", "overrides", "index", "resources", "cpu", "memory", "gpu"),
    *("requests", "limits", "tolerations", "nodeSelector", "node_selector", "volumes", "volumeMounts", "affinity"),
    *("serviceAccountName", "nvidia.com/gpu", "rdma/hca", "metadata", "spec", "containers", "initContainers", "labels"),
    *("annotations", "restartPolicy", "terminationGracePeriodSeconds", "backoffLimit", "worker", "master", "chief"),
    *("int", "CpuAmount", "a[b", "apiVersion", "kind", "template", "min_nodes", "max_nodes", "train", "value"),
)


def atom(chance: random.Random) -> Any:
    """A value of any sort."""
    return chance.choice(_VALUES) if chance.random() < 0.98 else chance.choice(_ITERATORS)()


def tree(chance: random.Random, levels: int = 4) -> Any:
    """Lists and mappings of such values."""
    if levels == 0 or chance.random() < 0.3:
        return atom(chance)
    size = chance.randrange(4)
    if chance.random() < 0.4:
        return [tree(chance, levels - 1) for _ in range(size)]
    return {chance.choice(_KEYS): tree(chance, levels - 1) for _ in range(size)}


def near_miss(chance: random.Random, samples: Sequence[Any]) -> Any:
    """A right value, changed in one or a few places."""
    value = copy.deepcopy(chance.choice(samples))
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        try:
            value = _changed(chance, value)
        except Exception:  # an atom that went in before cannot even be looked at
            return value
    return value


def _changed(chance: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.8:
        return _changed_dict(chance, value)
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        return [*value[:at], *chance.choice(([], [value[at]] * 2, [_changed(chance, value[at])])), *value[at + 1 :]]
    return chance.choice((_other_text, _wrapped, lambda chance, _: atom(chance), _other_number))(chance, value)


def _changed_dict(chance: random.Random, value: dict[Any, Any]) -> dict[Any, Any]:
    key = chance.choice(list(value))
    kind = chance.randrange(5)
    if kind == 0:
        return {**value, chance.choice(_KEYS): tree(chance, 2)}
    rest = {name: each for name, each in value.items() if name != key}
    if kind == 1:
        return rest
    if kind == 2 and isinstance(key, str):
        return {**rest, _other_text(chance, key): value[key]}
    return {**value, key: _changed(chance, value[key])}


def _is_small(value: Any) -> bool:
    """Whether a value can be written out; one that repeats itself would fill the memory."""
    left = [value]
    for _ in range(200):
        if not left:
            return True
        each = left.pop()
        if type(each) in (list, tuple):
            left += each
        elif type(each) is dict:
            left += each.values()
        elif type(each) not in (str, int, float, bool, type(None)) or (type(each) is str and len(each) > 1000):
            return False
    return False


def _other_text(chance: random.Random, value: Any) -> Any:
    text = str(value)[:200] if _is_small(value) else "x"
    at = chance.randrange(len(text) + 1)
    return chance.choice(
        (
            text.upper(),
            text[:at] + text[at + 1 :],
            text[:at] + chance.choice("aZ09-_./ \n\0é$") + text[at:],
            f" {text} ",
            text * chance.choice((2, 100)),
            f"'{text}'",
        )
    )


def _wrapped(chance: random.Random, value: Any) -> Any:
    texts = (str(value), json.dumps(value)) if _is_small(value) else ("[", "{")
    return chance.choice(([value], {"a": value}, (value,), {"worker": value}, *texts))


def _other_number(chance: random.Random, value: Any) -> Any:
    number = value if isinstance(value, (int, float)) else 1
    return chance.choice(
        (-number, number + 1, number * 1000, number + 0.5, str(number), f"{number}GB", f"{number} GiB")
    )
