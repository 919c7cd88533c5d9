"""What went wrong on the way to a page, as sentences for people."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import aiohttp

from penstock.errors import ChannelError
from penstock.node.web.body import BadBody
from penstock.node.web.guard import AddressRefused

if TYPE_CHECKING:
    from penstock.node.web.settings import Polling

CAUGHT = (
    aiohttp.ClientError,
    aiohttp.http.HttpProcessingError,
    OSError,
    ValueError,
    BadBody,
    ChannelError,
)
"""Everything that a network, a server or an address can do wrong."""

_HUNG_UP = (errno.ECONNRESET, errno.EPIPE)


def sentence(problem: Exception, options: Polling) -> str:
    """What went wrong."""
    match problem:
        case BadBody() | ChannelError() | AddressRefused():
            return str(problem)
        case aiohttp.ClientConnectorError():
            return unconnected(problem)
        case TimeoutError():
            return _late(problem, options)
        case aiohttp.ClientPayloadError():
            return "The answer was broken off."
        case aiohttp.ClientResponseError() | aiohttp.http.HttpProcessingError():
            return f"The answer is not valid HTTP: {_line(problem.message)}."
        case aiohttp.ServerDisconnectedError():
            return "The server closed the connection without an answer."
        case OSError() if problem.errno in _HUNG_UP:
            return "The server closed the connection without an answer."
        case _:
            return f"The fetch failed: {brief(problem)}."


def unconnected(problem: aiohttp.ClientConnectorError) -> str:
    """Why there is no connection."""
    match problem:
        case aiohttp.ClientConnectorCertificateError():
            return f"The certificate of {problem.host} is not valid: {brief(problem.certificate_error)}."
        case aiohttp.ClientConnectorDNSError() if isinstance(problem.os_error, AddressRefused):
            return str(problem.os_error)
        case aiohttp.ClientConnectorDNSError():
            return f"The name {problem.host} is not known (DNS)."
        case _:
            number = problem.os_error.errno or 0
            why = os.strerror(number) if number > 0 else brief(problem.os_error)
            return f"{problem.host} does not take connections: {why}."


def _late(problem: TimeoutError, options: Polling) -> str:
    match problem:
        case aiohttp.ConnectionTimeoutError():
            return f"The server did not take the connection within {options.connect_s:g} s."
        case aiohttp.SocketTimeoutError():
            return f"The server was silent for {options.silence_s:g} s."
        case _:
            return f"The fetch was not complete after {options.fetch_s:g} s."


def brief(problem: BaseException) -> str:
    """The text of an error, in one short line."""
    return _line(str(getattr(problem, "strerror", "") or problem)) or type(problem).__name__


def _line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip(":. ")[:200]
