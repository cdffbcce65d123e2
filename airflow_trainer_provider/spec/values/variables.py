"""Environment variables: names, texts, and the sources in the cluster that a value may come from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Discriminator, Tag

from airflow_trainer_provider.errors import Problem
from airflow_trainer_provider.spec.values.base import SpecModel, all_wrong, wrong
from airflow_trainer_provider.spec.values.labels import is_key
from airflow_trainer_provider.spec.values.names import ObjectName
from airflow_trainer_provider.spec.values.words import Text, as_text, bounded, rendered_hint, without_problems

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
#: The prefix of the variables that the provider sets itself.
RESERVED_ENV = "TRAINER_"
_DATA_KEY = re.compile(r"[A-Za-z0-9._-]{1,253}")
#: The fields of a pod that Kubernetes supports as the value of a variable.
_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_ENTRY = re.compile(r"metadata\.(?:labels|annotations)\['(?P<key>[^']*)'\]")
_SOURCES = frozenset({"secret", "config_map", "field"})
_ALLOWED = "text, a number, or a mapping with one of secret, config_map and field"
_SHAPES = (
    'Write {"secret": {"name": ..., "key": ...}}, {"config_map": {"name": ..., "key": ...}} or {"field": '
    '"metadata.name"}.'
)


def variable_problem(name: str) -> Problem | None:
    """The problem of the name of a variable of the training; None for a valid name.

    :param name: any text.
    """
    # Text after "=" may be a secret, as in `env={"TOKEN=abc": ""}`, and is not shown.
    shown = name.partition("=")[0][:63]
    if not _ENV_NAME.fullmatch(name):
        allowed = "names of letters, digits, '_', '.' and '-' that do not begin with a digit"
        return Problem("", shown, allowed, f"Rename {shown!r}.")
    if name.startswith(RESERVED_ENV):
        allowed = f"names that do not begin with {RESERVED_ENV}, which the provider sets itself"
        return Problem("", shown, allowed, f"Rename {shown!r}.")
    return None


def _key(value: str) -> str:
    if not _DATA_KEY.fullmatch(value):
        raise wrong("1 to 253 letters, digits, '-', '_' and '.'", "Write the key alone.")
    return value


def _field(value: str) -> str:
    entry = _ENTRY.fullmatch(value)
    if value in _FIELDS or (entry and is_key(entry["key"])):
        return value
    raise wrong(f"{', '.join(_FIELDS)}, metadata.labels['KEY'] or metadata.annotations['KEY']", "Use one of these.")


class KeyOf(SpecModel):
    """A key of a Secret or a ConfigMap.

    :param name: the object's name.
    :param key: the key in the object's data.
    """

    name: ObjectName
    key: Annotated[Text, AfterValidator(_key)]


class VariableSource(SpecModel):
    """The source of a variable's value in the cluster. Exactly one of the three fields is set.

    :param secret: a key of a Secret.
    :param config_map: a key of a ConfigMap.
    :param field: a field of the pod, e.g. ``status.podIP``.
    """

    secret: KeyOf | None = None
    config_map: KeyOf | None = None
    field: Annotated[Text, AfterValidator(_field)] | None = None


def _variable(name: str, value: Any) -> Any:
    if isinstance(value, VariableSource):
        return value
    if isinstance(value, Mapping):
        given = [each for each in value if value[each] is not None]
        is_one = len(given) == 1 and _SOURCES.issuperset(value)
        return value if is_one else Problem(name, "dict", _ALLOWED, _SHAPES)
    return bounded(as_text(value, name), name, "variable", len(f"{name}=".encode()))


def _env(value: Any) -> Any:
    if not isinstance(value, Mapping):
        hint = rendered_hint(value) if isinstance(value, str) else None
        raise wrong('a mapping, e.g. {"EPOCHS": "4"}', hint or "Write names and values.", value=type(value).__name__)
    problems = [problem for name in value if (problem := variable_problem(name))]
    if problems:
        raise all_wrong(problems)
    return dict(zip(value, without_problems([_variable(name, each) for name, each in value.items()]), strict=True))


def _tag(value: Any) -> str:
    return "(text)" if isinstance(value, str) else "(source)"


#: The value of a variable, or the source of the value.
Variable = Annotated[
    Annotated[str, Tag("(text)")] | Annotated[VariableSource, Tag("(source)")],
    Discriminator(_tag),
]
#: Environment variables: each value may also be a number.
Env = Annotated[dict[str, Variable], BeforeValidator(_env)]
