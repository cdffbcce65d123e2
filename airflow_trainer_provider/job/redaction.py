"""Keeps values that look like secrets out of what people read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_SECRET_NAME = re.compile(
    r"passw(or)?d|_pwd|passphrase|secret|token|credential|api_?key|access_?key|private_?key", re.IGNORECASE
)
#: The password in an address: ``postgres://user:password@host``.
_IN_ADDRESS = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")
_MASK = "***"


def redacted(env: Mapping[str, str]) -> dict[str, str]:
    """Environment variables with those values masked whose names say that they are secret, and passwords in addresses.

    :param env: name -> value.
    """
    return {
        name: _MASK if _SECRET_NAME.search(name) else _IN_ADDRESS.sub(rf"\1{_MASK}@", value)
        for name, value in env.items()
    }


def secrets_in(value: Any) -> Iterator[str]:
    """The values that :func:`redacted` would mask as a whole, of the containers' variables in a manifest.

    :param value: the manifest, or a part of it.
    """
    if isinstance(value, Mapping):
        name, secret = value.get("name"), value.get("value")
        if isinstance(name, str) and isinstance(secret, str) and _SECRET_NAME.search(name):
            yield secret
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from secrets_in(each)
