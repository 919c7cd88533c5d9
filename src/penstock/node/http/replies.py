"""Reading JSON requests, and writing JSON answers and problem objects (RFC 9457), for every handler."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from penstock import limits
from penstock.errors import PenstockError, PolicyError, printable
from penstock.node.http.answers import Problem


class RequestRefused(PenstockError):
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


def bad_policy(error: PolicyError, *, where: str) -> RequestRefused:
    """A policy that cannot be understood."""
    return RequestRefused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error), where=where, policy=error.facts())


def answer(refused: RequestRefused) -> web.Response:
    """The problem object."""
    return web.Response(
        status=refused.status,
        body=msgspec.json.encode(refused.problem),
        content_type="application/problem+json",
        headers=refused.headers,
    )


_Asked = TypeVar("_Asked", bound=msgspec.Struct)


def json_answer(found: object) -> web.Response:
    """A value as JSON."""
    return web.Response(body=msgspec.json.encode(found), content_type="application/json")


def page_of(request: web.Request) -> tuple[int, int]:
    """Rows to leave out, and rows to answer with."""
    offset = number_of(request, "offset", default=0, most=2**31)
    return offset, number_of(request, "limit", default=100, most=limits.HTTP_ROWS)


def number_of(request: web.Request, name: str, *, default: int, most: int) -> int:
    """A whole number of the query."""
    found = request.query.get(name)
    if found is None:
        return default
    if not (found.isascii() and found.isdecimal()) or len(found) > 19 or int(found) > most:
        raise RequestRefused(
            HTTPStatus.BAD_REQUEST, f"a whole number from 0 to {most}, not '{found}'", where=name
        )
    return int(found)


async def body_of(request: web.Request, kind: type[_Asked]) -> _Asked:
    """The body, as what it should be."""
    data = await request.read()
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at ")
        where = path.strip("`").removeprefix("$").removeprefix(".")  # msgspec: `$.filter`
        raise RequestRefused(HTTPStatus.UNPROCESSABLE_ENTITY, what, where=where or "body") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, f"not JSON: {error}", where="body") from None
