"""Responses that a browser may cache: each has an ETag, and an unchanged response is a 304 without a body."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from fastapi import Request, Response

from airflow_trainer_provider.plugins.view.model.values import finite

#: Only the page's own scripts may run, and only Airflow may show the page in a frame.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
#: The headers of every response.
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}
#: The headers of pages.
PAGE_HEADERS = {**HEADERS, "Content-Security-Policy": _POLICY}
#: The browser caches the response, and revalidates it at each request.
ASK_AGAIN = "private, no-cache"


def json_answer(request: Request, value: Mapping[str, Any], untagged: Collection[str] = ()) -> Response:
    """A JSON response.

    :param request: the request, which may have the tag of the cached response.
    :param value: JSON values.
    :param untagged: keys that the tag does not cover, such as the time of the data.
    """
    counted = {name: each for name, each in value.items() if name not in untagged}
    weak = "W/" if untagged else ""
    tag = f'{weak}"{digest(_json(counted))}"'
    if is_kept(request, tag):
        return not_modified(tag)
    headers = {**HEADERS, "ETag": tag, "Cache-Control": ASK_AGAIN}
    return Response(_json(value), media_type="application/json", headers=headers)


def not_modified(tag: str, caching: str = ASK_AGAIN) -> Response:
    """The response that the browser's cached response is still valid.

    :param tag: the tag of the cached response.
    :param caching: the value of ``Cache-Control``.
    """
    return Response(status_code=304, headers={**HEADERS, "ETag": tag, "Cache-Control": caching})


def is_kept(request: Request, tag: str) -> bool:
    """Whether the browser has cached the response with a tag.

    :param request: the request, whose header names tags.
    :param tag: the tag of the response.
    """
    wanted = [each.strip() for each in request.headers.get("if-none-match", "").split(",")]
    # A proxy that compresses a response turns its tag into a weak one.
    return "*" in wanted or tag.removeprefix("W/") in [each.removeprefix("W/") for each in wanted]


def digest(content: bytes) -> str:
    """A digest of a response's content.

    :param content: the bytes.
    """
    return hashlib.sha256(content).hexdigest()[:32]


def _json(value: Mapping[str, Any]) -> bytes:
    # ASCII: text in XCom may have a lone surrogate, which UTF-8 cannot encode.
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        # Browsers do not parse NaN.
        return json.dumps(finite(value), allow_nan=False, separators=(",", ":")).encode()
