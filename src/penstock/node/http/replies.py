"""Reads parameters and JSON bodies of requests, and writes JSON answers, for every handler."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

import msgspec
from aiohttp import web

from penstock import limits
from penstock.errors import MqttError, PolicyError, RequestRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def bad_policy(error: PolicyError, *, where: str) -> RequestRefused:
    """Return the refusal of a request with an invalid policy."""
    return RequestRefused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error), where=where, policy=error.facts())


_Asked = TypeVar("_Asked", bound=msgspec.Struct)
_Read = TypeVar("_Read")
_Checked = TypeVar("_Checked")


def json_answer(found: object) -> web.Response:
    """Answer with a value as JSON."""
    return web.Response(body=msgspec.json.encode(found), content_type="application/json")


def page_of(request: web.Request) -> tuple[int, int]:
    """Return the parameters `offset` and `limit`: rows to skip, and rows to return."""
    offset = number_of(request, "offset", default=0, most=2**31)
    return offset, number_of(request, "limit", default=100, most=limits.HTTP_ROWS)


def number_of(request: web.Request, name: str, *, default: int, most: int) -> int:
    """Return a whole number of the query, or the default."""
    found = request.query.get(name)
    if found is None:
        return default
    if not (found.isascii() and found.isdecimal()) or len(found) > 19 or int(found) > most:
        raise RequestRefused(
            HTTPStatus.BAD_REQUEST, f"expected a whole number from 0 to {most}, found '{found}'", where=name
        )
    return int(found)


async def in_time(body: Awaitable[_Read]) -> _Read:
    """Wait for the body of a request; RequestRefused if it is not complete in time."""
    try:
        async with asyncio.timeout(limits.HTTP_BODY_S):
            return await body
    except TimeoutError:
        raise RequestRefused(
            HTTPStatus.REQUEST_TIMEOUT, f"not complete within {limits.HTTP_BODY_S} s", where="body"
        ) from None


async def body_of(request: web.Request, kind: type[_Asked]) -> _Asked:
    """Decode the body of a request; RequestRefused if it is not JSON, or a field is wrong."""
    data = await in_time(request.read())
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at ")
        where = path.strip("`").removeprefix("$").removeprefix(".")  # msgspec: `$.filter`
        raise RequestRefused(HTTPStatus.UNPROCESSABLE_ENTITY, what, where=where or "body") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, f"not JSON: {error}", where="body") from None


def checked(check: Callable[..., _Checked], text: str, *, where: str) -> _Checked:
    """Check a topic or a topic filter; RequestRefused if MQTT does not allow it."""
    try:
        return check(text, where=where)
    except MqttError as error:
        raise RequestRefused(HTTPStatus.UNPROCESSABLE_ENTITY, error.problem, where=where) from None
