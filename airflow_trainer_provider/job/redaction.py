"""Keeps values that look like secrets out of what people read."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
