"""Keeps values that look like secrets out of what people read."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(r"passw(or)?d|passphrase|secret|token|credential|api_?key|access_?key|private_?key", re.I)
_MASK = "***"


def redacted(env: Mapping[str, str]) -> dict[str, str]:
    """Environment variables with the values masked whose names say that they are secret.

    :param env: name -> value.
    """
    return {name: _MASK if _SECRET_NAME.search(name) else value for name, value in env.items()}
