"""The handshake of two nodes, or of a program and a node: names, and the streams each can offer."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from penstock import limits
from penstock.core.streams import messages, wire
from penstock.errors import StreamError

VERSION: Final = 1
"""Version of the protocol after the handshake; any other is refused."""


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=32):
    """First frame of the caller."""

    version: int
    kind: Literal["node", "program"]
    name: str
    """Name of the node, or of the program (for the log)."""
    user: str = ""
    password: str = ""
    only: tuple[str, ...] = ()
    """Topic filters: the node wants only these over this link; empty: everything."""
    where: str = ""
    """Content filter: the node wants only messages that pass it."""


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=33):
    """Accepts the caller; `only` and `where` as in Hello, for the other direction."""

    version: int
    name: str
    only: tuple[str, ...] = ()
    where: str = ""


class Sorry(msgspec.Struct, frozen=True, array_like=True, tag=34):
    """Refuses the caller; the last frame."""

    reason: str


class Offered(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stream that the sender can provide."""

    name: str
    topics: tuple[str, ...]
    host: str
    """The node at which it is published."""
    at: int = 0
    """Tick behind the newest one known there: a new follower starts here; 0: unknown."""


class Offer(msgspec.Struct, frozen=True, array_like=True, tag=35):
    """All streams a node can provide over a link; sent after the handshake and whenever they change."""

    streams: tuple[Offered, ...]


class Alive(msgspec.Struct, frozen=True, array_like=True, tag=36, gc=False):
    """Keep-alive of a link without other traffic."""


LinkFrame: TypeAlias = (
    Offer
    | Alive
    | messages.Data
    | messages.Silence
    | messages.FinalTicks
    | messages.Query
    | messages.Nack
    | messages.Ack
    | messages.Alert
)
"""Frames between nodes after the handshake."""

_encoder = msgspec.msgpack.Encoder()
_hello = msgspec.msgpack.Decoder(Hello)
_answer = msgspec.msgpack.Decoder(Welcome | Sorry)
_said = msgspec.msgpack.Decoder(LinkFrame)


def encode(one: Hello | Welcome | Sorry | Offer | Alive) -> bytes:
    """Encode a frame."""
    return wire.framed(_encoder.encode(one), what="an offer" if isinstance(one, Offer) else "a greeting")


def decode_hello(body: bytes) -> Hello:
    """Decode a caller's first frame without its header; StreamError if invalid or of another version."""
    try:
        hello = _hello.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise StreamError("not a stream handshake") from None
    if hello.version != VERSION:
        raise StreamError(f"unsupported stream protocol version {hello.version}; supported: {VERSION}")
    if not 0 < len(hello.name) <= limits.STREAM_NAME_CHARS:
        raise StreamError(f"a name of {len(hello.name)} characters; allowed: 1 to {limits.STREAM_NAME_CHARS}")
    return hello


def decode_answer(body: bytes) -> Welcome | Sorry:
    """Decode the answer to a Hello without its header; StreamError if invalid or of another version."""
    try:
        answer: Welcome | Sorry = _answer.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise StreamError("not the answer of a stream listener") from None
    if isinstance(answer, Welcome) and answer.version != VERSION:
        raise StreamError(f"unsupported stream protocol version {answer.version}; supported: {VERSION}")
    return answer


def decode_said(body: bytes) -> LinkFrame:
    """Decode a neighbour's frame without its header; StreamError if invalid."""
    try:
        said: LinkFrame = _said.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise StreamError(f"not a frame between nodes: {error}") from None
    if isinstance(said, Alive):
        return said
    if not isinstance(said, Offer):
        return wire.checked(said)
    if len(said.streams) > limits.STREAM_OFFERS:
        raise StreamError(f"offer of {len(said.streams):,} streams; at most {limits.STREAM_OFFERS:,}")
    for one in said.streams:
        if not 0 < len(one.name) <= limits.STREAM_NAME_CHARS or len(one.host) > limits.STREAM_NAME_CHARS:
            raise StreamError("offer of a stream with an empty or too long name or host")
        if not 0 <= one.at <= limits.STREAM_TICKS:
            raise StreamError(f"stream {one.name!r} is offered from tick {one.at} on")
        if not 0 < len(one.topics) <= limits.STREAM_TOPICS:
            raise StreamError(f"stream {one.name!r} is offered with {len(one.topics):,} topic filters")
    return said
