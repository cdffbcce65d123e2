"""Checks addresses on the web."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

#: Printable ASCII, without what a URL has to encode.
_CHARACTERS = re.compile(r"[!-;=?-z|~]+")
#: The longest URL that browsers and proxies accept, in characters.
LONGEST_URL = 2000


def is_web_url(text: str) -> bool:
    """Whether a text is an http or https URL without user and password, of at most 2000 characters.

    :param text: any text.
    """
    if len(text) > LONGEST_URL or not _CHARACTERS.fullmatch(text):
        return False
    try:
        parts = urlsplit(text)
        has_place = bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        return False
    return has_place and parts.scheme in ("http", "https")
