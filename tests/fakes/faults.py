"""What a fake API server does instead of what it was asked to, or besides."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Respond = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass
class Rule:
    """How some requests are answered.

    :param method: of the requests; a regular expression.
    :param path: part of their path; a regular expression.
    :param respond: what answers; None only delays or runs a callback.
    :param times: how many requests; None for all.
    :param carry_out: whether the request takes effect all the same, and only its answer is lost.
    :param before: called just before the request is carried out.
    :param skip: how many requests pass before it applies.
    :param hits: how many it was applied to.
    :param reached: set once it has been applied.
    """

    method: str
    path: str
    respond: Respond | None = None
    times: int | None = None
    carry_out: bool = False
    before: Callable[[], Any] | None = None
    skip: int = 0
    hits: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    def takes(self, request: web.BaseRequest) -> bool:
        """Whether the rule is about this request."""
        if self.times is not None and self.hits >= self.times:
            return False
        if not (re.fullmatch(self.method, request.method) and re.search(self.path, request.path)):
            return False
        self.skip -= 1
        return self.skip < 0


class Faults:
    """The rules of one API server, each tried in its order."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def answer(
        self, code: int, method: str, path: str, *, times: int | None = None, message: str = "", **headers: str
    ) -> Rule:
        """Answer requests with a Status of this code.

        :param headers: of the answer; ``_`` stands for ``-``.
        """

        async def respond(request: web.BaseRequest) -> web.StreamResponse:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return status_answer(code, _REASONS.get(code, ""), message, named)

        return self._rule(Rule(method, path, respond, times))

    def lose_answer(self, method: str, path: str, *, times: int = 1, code: int | None = None) -> Rule:
        """Carry requests out, and lose the answer.

        :param code: what a gateway answers in its place; None breaks the connection.
        """

        async def respond(request: web.BaseRequest) -> web.StreamResponse:
            return web.Response(status=code or 0, text="a gateway's page")

        return self._rule(Rule(method, path, respond if code else _cut, times, carry_out=True))

    def cut(self, method: str, path: str, *, times: int = 1) -> Rule:
        """Break the connection before requests are carried out."""
        return self._rule(Rule(method, path, _cut, times))

    def hang(self, method: str, path: str) -> Rule:
        """Take requests, and never answer."""

        async def respond(request: web.BaseRequest) -> web.StreamResponse:
            await asyncio.Event().wait()
            raise AssertionError

        return self._rule(Rule(method, path, respond))

    def before(self, method: str, path: str, act: Callable[[], Any], *, times: int | None = 1, skip: int = 0) -> Rule:
        """Let something happen just before requests are carried out: what another client does at that moment.

        :param skip: how many requests pass before that.
        """
        return self._rule(Rule(method, path, None, times, before=act, skip=skip))

    def heal(self) -> None:
        """Forget all rules."""
        self._rules.clear()

    async def apply(self, request: web.BaseRequest, carry_out: Respond) -> web.StreamResponse:
        """Answer a request as the rules say; carry it out where none does."""
        for rule in list(self._rules):
            if not rule.takes(request):
                continue
            rule.hits += 1
            rule.reached.set()
            if rule.before:
                acted = rule.before()
                if asyncio.iscoroutine(acted):
                    await acted
            if rule.carry_out:
                await carry_out(request)
            if rule.respond:
                return await rule.respond(request)
        return await carry_out(request)

    def _rule(self, rule: Rule) -> Rule:
        self._rules.append(rule)
        return rule


def status_answer(code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """A failure, as the API server reports it."""
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code, headers=headers)


async def _cut(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
