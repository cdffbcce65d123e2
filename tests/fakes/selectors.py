"""Label and field selectors, and JSON merge patches, as the API server understands them."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

Manifest = dict[str, Any]

_REQUIREMENT = re.compile(r"\s*(!?)([^\s=!,()]+)\s*(?:(==|=|!=)\s*([^,()]*)|\s(in|notin)\s*\(([^)]*)\))?\s*(?:,|$)")
#: The fields that can be selected by, beside the name and the namespace, which every resource has.
_FIELDS = {
    "events": {"type", "reason", "involvedObject.kind", "involvedObject.name", "involvedObject.uid"},
    "pods": {"status.phase", "spec.nodeName"},
    "jobs": {"status.successful"},
}


class Refused(Exception):
    """What the API server answers instead of doing what it was asked to.

    :param code: HTTP status.
    :param reason: of the Status object.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message


def check_selectors(plural: str, labels: str, fields: str) -> None:
    """Refuse malformed selectors, and fields that cannot be selected by.

    :raises Refused: there is one.
    """
    list(_requirements(labels))
    for path, equals, _ in _fields(fields):
        if not equals or path not in {"metadata.name", "metadata.namespace", *_FIELDS.get(plural, ())}:
            raise Refused(400, "BadRequest", f"Unable to find {plural} that match field selector {fields!r}")


def matches(manifest: Manifest, labels: str, fields: str) -> bool:
    """Whether an object matches both selectors."""
    own = manifest["metadata"].get("labels") or {}
    return all(_holds(own, *parts) for parts in _requirements(labels)) and all(
        _field(manifest, path) == value for path, _, value in _fields(fields)
    )


def merge(value: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = copy.deepcopy(value) if isinstance(value, dict) else {}
    for name, part in patch.items():
        if part is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), part)
    return merged


def _fields(selector: str) -> list[tuple[str, str, str]]:
    return [part.partition("=") for part in selector.split(",") if part]


def _field(manifest: Manifest, path: str) -> str:
    value: Any = manifest
    for name in path.split("."):
        value = (value or {}).get(name)
    return str(value)


def _requirements(selector: str) -> Iterator[tuple[str, str, str, list[str]]]:
    at = 0
    while at < len(selector):
        match = _REQUIREMENT.match(selector, at)
        if match is None or match.end() == at:
            raise Refused(400, "BadRequest", f"unable to parse requirement: {selector[at:]!r}")
        negated, name, operator, value, word, values = match.groups()
        yield negated, name, operator or word or "", [value] if operator else (values or "").replace(" ", "").split(",")
        at = match.end()


def _holds(own: Manifest, negated: str, name: str, operator: str, values: list[str]) -> bool:
    if not operator:
        return (name in own) != bool(negated)
    if operator in ("!=", "notin"):
        return own.get(name) not in values
    return own.get(name) in values
