"""Answers that a browser may keep: each has a tag, and one that has not changed is 304 without a body."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from fastapi import Request, Response

from airflow_trainer_provider.plugins.view.model.values import finite

#: Only what the page itself brings runs, and only Airflow may frame it.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
#: Of every answer.
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}
#: Of pages.
PAGE_HEADERS = {**HEADERS, "Content-Security-Policy": _POLICY}
#: The browser keeps the answer, and asks each time whether it is still right.
ASK_AGAIN = "private, no-cache"


def json_answer(request: Request, value: Mapping[str, Any], untagged: Collection[str] = ()) -> Response:
    """A value as JSON.

    :param request: it may name the tag of what the browser has.
    :param value: JSON values.
    :param untagged: keys whose values alone make no new answer: when it was known last.
    """
    counted = {name: each for name, each in value.items() if name not in untagged}
    weak = "W/" if untagged else ""
    tag = f'{weak}"{digest(_json(counted))}"'
    if is_kept(request, tag):
        return not_modified(tag)
    headers = {**HEADERS, "ETag": tag, "Cache-Control": ASK_AGAIN}
    return Response(_json(value), media_type="application/json", headers=headers)


def not_modified(tag: str, caching: str = ASK_AGAIN) -> Response:
    """The answer that the browser's own is still right.

    :param tag: of that.
    :param caching: how long it may keep it.
    """
    return Response(status_code=304, headers={**HEADERS, "ETag": tag, "Cache-Control": caching})


def is_kept(request: Request, tag: str) -> bool:
    """Whether the browser has what the tag says.

    :param request: its header names the tags.
    :param tag: of the answer.
    """
    wanted = [each.strip() for each in request.headers.get("if-none-match", "").split(",")]
    # Proxies that compress an answer make its tag a weak one.
    return "*" in wanted or tag.removeprefix("W/") in [each.removeprefix("W/") for each in wanted]


def digest(content: bytes) -> str:
    """What distinguishes a content from any other.

    :param content: the bytes.
    """
    return hashlib.sha256(content).hexdigest()[:32]


def _json(value: Mapping[str, Any]) -> bytes:
    # ASCII: a text of an XCom may have half a character, which UTF-8 has no bytes for.
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        # No browser reads NaN.
        return json.dumps(finite(value), allow_nan=False, separators=(",", ":")).encode()
