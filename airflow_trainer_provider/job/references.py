"""References to variables, ``$(NAME)``, in a command line and in the values of other variables.

Kubernetes expands a reference in a value only to variables that come before it in the container's list, and leaves any
other reference unchanged:
https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"
_REFERENCE = re.compile(rf"\$(\$\({_NAME}\)|\((?P<name>{_NAME})\))")


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace references by values.

    :param text: a word or a value. ``$$(NAME)`` becomes ``$(NAME)``.
    :param values: the variables; a reference to any other variable is not changed.
    """

    def value(match: re.Match[str]) -> str:
        if match["name"] is None:
            return match[1]
        return values.get(match["name"], match[0])

    return _REFERENCE.sub(value, text)


def literal(text: str) -> str:
    """The text that :func:`expand` turns into the given text, even if the given text contains references.

    :param text: a value.
    """
    return _REFERENCE.sub(lambda match: f"${match[0]}", text)


def in_order(entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Sort variables so that each comes after those that its value refers to.

    The order is kept where no reference requires another one. If variables refer to each other in a circle, one of the
    references is not expanded, in any order.

    :param entries: each with a ``name``, and a ``value`` where that is a string.
    """
    named: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        named.setdefault(entry.get("name", ""), []).append(entry)
    ordered: list[Mapping[str, Any]] = []
    seen: set[int] = set()

    def add(entry: Mapping[str, Any]) -> None:
        if id(entry) in seen:
            return
        seen.add(id(entry))
        for name in _referenced(entry.get("value")):
            for other in named.get(name, ()):
                add(other)
        ordered.append(entry)

    for entry in entries:
        add(entry)
    return ordered


def _referenced(value: Any) -> Iterator[str]:
    for match in _REFERENCE.finditer(value) if isinstance(value, str) else ():
        if match["name"]:
            yield match["name"]
