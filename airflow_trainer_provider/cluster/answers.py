"""Interprets answers of the API server: the error in them, and whether another attempt can help."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from airflow_trainer_provider.errors import ApiError

#: Reason of an error where the request was never sent, so that it can have had no effect.
NOT_SENT = "NotSent"
#: Reason of an error where no answer came, or only a part of one.
NO_ANSWER = "NoAnswer"
#: Reason of an error where the server's certificate is not trusted.
BAD_CERTIFICATE = "BadCertificate"
#: Reason of an error where a connection was silent for too long.
SILENT = "Silent"

_LONGEST_ANSWER = 2000
_UNAUTHORIZED = 401
#: The message of etcd about a request that is too large, and that of etcd's client, which does not even send it.
_TOO_LARGE = ("etcdserver: request is too large", "trying to send message larger than max")
_TRANSIENT = {408, 429, 500, 502, 503, 504}


def api_error(what: str, status: int, body: bytes, headers: Mapping[str, str]) -> ApiError:
    """The error for an answer.

    :param what: the request, e.g. ``GET /api/v1/namespaces/default/pods``.
    :param status: its HTTP status.
    :param body: a Status object, or the text of a proxy.
    :param headers: of the answer; a lookup ignores the case of a name.
    """
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and answer.get("kind") == "Status":
        return from_status(what, answer, status=status, retry_after=_seconds(headers.get("Retry-After")))
    text = body[:_LONGEST_ANSWER].decode(errors="replace").strip()
    return ApiError(
        f"{what}: {status} {text}".rstrip(),
        status=status,
        retry_after=_seconds(headers.get("Retry-After")),
        answer=text,
    )


def from_status(
    what: str, answer: Mapping[str, Any], *, status: int | None = None, retry_after: float | None = None
) -> ApiError:
    """The error for a Status object, which answers and the ERROR events of watches carry.

    :param what: the request.
    :param answer: the Status object.
    :param status: HTTP status of the answer; None takes the object's own.
    :param retry_after: from the answer's header; None takes the object's own.
    """
    details = answer.get("details") or {}
    causes = [(str(cause.get("field", "")), str(cause.get("message", ""))) for cause in details.get("causes") or ()]
    words = str(answer.get("message") or "")[:_LONGEST_ANSWER]
    code = status if status is not None else answer.get("code")
    reason = str(answer.get("reason") or "")
    if retry_after is None and details.get("retryAfterSeconds"):
        retry_after = float(details["retryAfterSeconds"])
    return ApiError(
        f"{what}: {code} {reason}: {words}",
        status=code,
        reason=reason,
        retry_after=retry_after,
        answer=words,
        causes=causes,
    )


def is_transient(error: ApiError) -> bool:
    """Whether the same request may have another result a while later."""
    if error.status is None:
        return error.reason != BAD_CERTIFICATE
    return (error.status in _TRANSIENT and not is_too_large(error)) or is_quota_race(error)


def is_refusal(error: ApiError) -> bool:
    """Whether one side does not trust the other: the API server the credentials, or the client the certificate."""
    return error.status == _UNAUTHORIZED or error.reason == BAD_CERTIFICATE


def changed_nothing(error: ApiError) -> bool:
    """Whether the error proves that the request had no effect."""
    if error.status is None or error.status == 503:
        # Other 503 answers come from a proxy, which may have passed the request on.
        return error.reason in (NOT_SENT, BAD_CERTIFICATE, "ServiceUnavailable")
    if error.status == 500:
        # Objects are stored only after the webhooks have accepted them.
        return "failed calling webhook" in error.answer or is_too_large(error)
    return error.status < 500


def is_quota_race(error: ApiError) -> bool:
    """Whether the request failed because other requests used the same quota at the same moment."""
    if error.status == 409:
        return "Operation cannot be fulfilled on resourcequotas" in error.answer
    return error.status == 403 and "status unknown for quota" in error.answer


def is_too_large(error: ApiError) -> bool:
    """Whether an object is larger than what the API server reads, or than what etcd accepts.

    Where etcd does not accept a Job, the API server tries again with another uid, and then finds that the labels have
    the first one.
    """
    if error.status == 422:
        return any("labels[controller-uid]" in field and "must be" in words for field, words in error.causes)
    return error.status == 413 or (error.status == 500 and any(words in error.answer for words in _TOO_LARGE))


def is_port_taken(error: ApiError) -> bool:
    """Whether another Service has the node port that a Service requests."""
    return error.status == 422 and "provided port is already allocated" in error.answer


def _seconds(retry_after: str | None) -> float | None:
    if not retry_after:
        return None
    try:
        return max(float(retry_after), 0)
    except ValueError:
        pass
    try:
        # HTTP allows a date as well, and gateways send it.
        return max((parsedate_to_datetime(retry_after) - datetime.now(timezone.utc)).total_seconds(), 0)
    except (TypeError, ValueError):
        return None
