"""Sends exchanges to the doors of a subject, and reads whatever comes back."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from time import thread_time
from typing import TYPE_CHECKING, Final

from penstock.errors import PolicyError
from penstock.policy.text.forms import FORMS, parse

if TYPE_CHECKING:
    from penstock_lab.experiments.fuzz.exchange import Door, Exchange

HOST: Final = "127.0.0.1"
LONGEST_S: Final = 5.0
"""Longest exchange; then the player closes the connection."""
WAIT_S: Final = 0.02
"""How long `wait` and `half` leave the connection open."""
POLICY_S: Final = 1.0
"""Processor time that reading one policy may take."""
_RESET: Final = struct.pack("ii", 1, 0)


async def play(exchange: Exchange, ports: dict[Door, int]) -> str:
    """Send one exchange; returns what was wrong inside this process, if the exchange is played there."""
    if exchange.door == "process":
        return read_policy(b"".join(piece.data for piece in exchange.pieces))
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(LONGEST_S):
            await _send(exchange, ports[exchange.door])
    return ""


class _Deaf(asyncio.Protocol):
    """Drops what is received, and knows when the connection has ended."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.ended.set()


async def _send(exchange: Exchange, port: int) -> None:
    loop = asyncio.get_running_loop()
    transport, deaf = await loop.create_connection(_Deaf, HOST, port)
    try:
        for piece in exchange.pieces:
            if transport.is_closing():
                return
            transport.write(piece.data)
            if piece.pause_ms:
                await asyncio.sleep(piece.pause_ms / 1000)
        while transport.get_write_buffer_size() and not transport.is_closing():
            await asyncio.sleep(WAIT_S)
        if exchange.ending in ("half", "wait"):
            if exchange.ending == "half":
                transport.write_eof()
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_S):
                    await deaf.ended.wait()
    finally:
        if exchange.ending == "reset":
            sock = transport.get_extra_info("socket")
            with suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.abort()


def read_policy(text: bytes) -> str:
    """Read a policy in this process; returns what is wrong if it is neither read nor properly refused."""
    began = thread_time()
    try:
        policy = parse(text)
    except PolicyError as error:
        problem = "" if str(error) else "a policy was refused without a word"
    except Exception as error:  # that is the judgement
        problem = f"reading a policy raised {error!r}"
    else:
        problem = _written_again(policy)
    took = thread_time() - began
    return problem or (f"reading a policy took {took:.1f} s" if took > POLICY_S else "")


def _written_again(policy: object) -> str:
    for name, write in FORMS.items():
        try:
            again = parse(write(policy))  # type: ignore[arg-type]
        except PolicyError:
            continue  # too long in this form
        except Exception as error:  # that is the judgement
            return f"writing a policy as {name} and reading it again raised {error!r}"
        if again != policy:
            return f"a policy written as {name} is read as another policy"
    return ""
