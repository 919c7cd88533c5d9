"""Refusals: raised by handlers, answered as problem objects (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web

from penstock.errors import PenstockError, PolicyError, printable
from penstock.node.http.answers import Problem


class Refused(PenstockError):
    """A request that is not answered; `status` is the HTTP status that says so."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        where: str = "",
        policy: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.status = status
        self.headers = headers or {}
        self.problem = Problem(
            title=status.phrase, status=status.value, detail=printable(detail), where=where, policy=policy
        )
        super().__init__(self.problem.detail)


def bad_policy(error: PolicyError, *, where: str) -> Refused:
    """A policy that cannot be understood."""
    return Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error), where=where, policy=error.facts())


def answer(refused: Refused) -> web.Response:
    """The problem object."""
    return web.Response(
        status=refused.status,
        body=msgspec.json.encode(refused.problem),
        content_type="application/problem+json",
        headers=refused.headers,
    )
