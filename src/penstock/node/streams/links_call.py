"""Calls a neighbour's door for streams: TCP or TLS, a greeting, its answer."""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.streams import meeting, wire
from penstock.errors import StreamError, printable

if TYPE_CHECKING:
    from penstock.core.streams.meeting import Hello, Sorry, Welcome
    from penstock.node.streams.settings import Neighbour, StreamDoor


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """A greeting, or the answer to one, without its head; StreamError if it is too large or not whole."""
    try:
        return await _frame(reader)
    except asyncio.IncompleteReadError:
        raise StreamError("the connection was closed before everything was said") from None


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(wire.HEAD_BYTES)
    return await reader.readexactly(wire.frame_size(head, most=limits.STREAM_HELLO_BYTES))


async def call(
    neighbour: Neighbour, hello: Hello, *, within_s: float, door: StreamDoor
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Welcome]:
    """A connection to a neighbour that has welcomed this node; StreamError says why there is none."""
    place = f"{neighbour.host}:{neighbour.port}"
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(
                neighbour.host, neighbour.port, ssl=_context(neighbour, door)
            )
            writer.write(meeting.encode(hello))
            answer = meeting.decode_answer(await _frame(reader))
        welcome = _checked(answer, neighbour, place)
    except TimeoutError:
        problem = f"{place} does not answer within {within_s:g} s"
    except ssl.SSLCertVerificationError as error:
        problem = f"the certificate of {place} is not accepted: {error.verify_message}"
    except ssl.SSLError as error:
        problem = (
            f"no TLS with {place}: {error.reason or error}; if its door has no certificate, leave out ca"
        )
    except OSError as error:
        problem = f"{place} cannot be reached: {os.strerror(error.errno) if error.errno else error}"
    except StreamError as error:
        problem = str(error)
    except asyncio.IncompleteReadError:
        hint = "" if neighbour.ca else "; if its door has a certificate, this neighbour needs ca"
        problem = f"{place} closes the connection without an answer{hint}"
    else:
        return reader, writer, welcome
    if writer is not None:
        writer.transport.abort()
    raise StreamError(problem)


def _checked(answer: Welcome | Sorry, neighbour: Neighbour, place: str) -> Welcome:
    if isinstance(answer, meeting.Sorry):
        raise StreamError(f"{place} refuses: {printable(answer.reason)}")
    if answer.name != neighbour.name:
        raise StreamError(f"at {place} is node {answer.name!r}, not {neighbour.name!r}")
    return answer


def _context(neighbour: Neighbour, door: StreamDoor) -> ssl.SSLContext | None:
    """Of a link with authorities; the certificate of this node's own door is shown where one is asked for."""
    if not neighbour.ca:
        return None
    try:
        made = ssl.create_default_context(cafile=neighbour.ca)
    except (OSError, ValueError) as error:
        raise StreamError(f"ca {neighbour.ca} cannot be used: {error}") from None
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if door.certificate:
        try:
            made.load_cert_chain(door.certificate, door.key or None)
        except (OSError, ValueError) as error:
            raise StreamError(f"certificate {door.certificate} cannot be used: {error}") from None
    return made
