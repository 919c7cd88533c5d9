"""Cursors: the durable position of each session in each stream, one row of the state file for each pair."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.streams.log.state import StateFile

log = logging.getLogger(__name__)

TABLE: Final = "cursors"


class Flight(msgspec.Struct, array_like=True, gc=False):
    """A QoS 2 message that its client has not completed."""

    tick: int
    packet_id: int
    released: bool = False
    """The client has it, its PUBCOMP is missing."""


class Cursor(msgspec.Struct, array_like=True):
    """A session's place in a stream."""

    born_us: int
    """Tells its session from an earlier one of the same client."""
    acked: int
    """The client has, or does not want, everything before this tick; below 0: it waits for the first one."""
    starts: dict[str, int] = {}
    """Where its subscriptions began, by filter."""
    given: int = 0
    """Messages before this tick were given out; those neither in `flight` nor `lesser` are done with."""
    flight: list[Flight] = []
    """In the order of ticks."""
    rewound: dict[str, int] = {}
    """Subscriptions that are to begin at an earlier tick as soon as nothing is in flight."""
    lesser: list[int] = []
    """Messages before `given` that were given out with QoS 1 and not acknowledged."""


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Cursor)


class Cursors:
    """All rows; what is put in one turn of the loop is durable together."""

    def __init__(self, state: StateFile) -> None:
        self._state = state

    def load(self) -> dict[tuple[str, str], Cursor]:
        """By client identifier and stream; what cannot be read is told and left out."""
        found = {}
        for key, value in self._state.load(TABLE):
            try:
                client_id, stream = key
                found[client_id, stream] = _decoder.decode(value)
            except (ValueError, msgspec.MsgspecError) as error:
                log.error("a session's place in a stream, %r, cannot be read: %s", key, error)  # noqa: TRY400
        return found

    def put(self, client_id: str, stream: str, cursor: Cursor) -> None:
        """Write a row."""
        self._state.put(TABLE, (client_id, stream), _encoder.encode(cursor))

    def remove(self, client_id: str, stream: str) -> None:
        """It is needed no more."""
        self._state.remove(TABLE, (client_id, stream))

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Call back when all that was put and removed is on disk."""
        self._state.when_durable(callback)
