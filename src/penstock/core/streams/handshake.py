"""The handshake of two nodes: who they are, and which streams each can give to the other."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from penstock import limits
from penstock.core.streams import messages, wire
from penstock.errors import StreamError

VERSION: Final = 1
"""Of what is said after the meeting; another one is refused."""


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=32):
    """The first frame of whoever calls."""

    version: int
    kind: Literal["node", "program"]
    name: str
    """Of the node, or of the program for the log."""
    user: str = ""
    password: str = ""
    only: tuple[str, ...] = ()
    """Topic filters: a node wants nothing else over this link; none: everything."""
    where: str = ""
    """Content filter: nor what does not pass it."""


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=33):
    """The answer, if the caller may stay; `only` and `where` as in Hello, for the other direction."""

    version: int
    name: str
    only: tuple[str, ...] = ()
    where: str = ""


class Sorry(msgspec.Struct, frozen=True, array_like=True, tag=34):
    """The answer if not, and the last frame."""

    reason: str


class Offered(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stream that can be had from whoever says so."""

    name: str
    topics: tuple[str, ...]
    host: str
    """The node that it is published at."""
    at: int = 0
    """Behind the newest tick that is known there: who has nothing of it yet starts here; 0: not known."""


class Offer(msgspec.Struct, frozen=True, array_like=True, tag=35):
    """All streams a node can give over a link; told after the meeting and whenever they change."""

    streams: tuple[Offered, ...]


class Alive(msgspec.Struct, frozen=True, array_like=True, tag=36, gc=False):
    """Said over a link on which nothing else was for a while."""


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
"""What one node may say to another after the meeting."""

_encoder = msgspec.msgpack.Encoder()
_hello = msgspec.msgpack.Decoder(Hello)
_answer = msgspec.msgpack.Decoder(Welcome | Sorry)
_said = msgspec.msgpack.Decoder(LinkFrame)


def encode(one: Hello | Welcome | Sorry | Offer | Alive) -> bytes:
    """A frame."""
    return wire.framed(_encoder.encode(one), what="an offer" if isinstance(one, Offer) else "a greeting")


def decode_hello(body: bytes) -> Hello:
    """A caller's first frame without its head; StreamError if it is none, or another version."""
    try:
        hello = _hello.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise StreamError("this is no greeting of a node or a program of streams") from None
    if hello.version != VERSION:
        raise StreamError(f"version {hello.version} of streams is spoken there, {VERSION} here")
    if not 0 < len(hello.name) <= limits.STREAM_NAME_CHARS:
        raise StreamError(f"a name has 1 to {limits.STREAM_NAME_CHARS} characters, not {len(hello.name)}")
    return hello


def decode_answer(body: bytes) -> Welcome | Sorry:
    """The answer to a Hello without its head; StreamError if it is none, or another version."""
    try:
        answer: Welcome | Sorry = _answer.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise StreamError("this is no answer of a node's door for streams") from None
    if isinstance(answer, Welcome) and answer.version != VERSION:
        raise StreamError(f"version {answer.version} of streams is spoken there, {VERSION} here")
    return answer


def decode_said(body: bytes) -> LinkFrame:
    """What a neighbour says, without its head; StreamError if it says what cannot be."""
    try:
        said: LinkFrame = _said.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise StreamError(f"this is nothing that nodes say to each other: {error}") from None
    if isinstance(said, Alive):
        return said
    if not isinstance(said, Offer):
        return wire.checked(said)
    if len(said.streams) > limits.STREAM_OFFERS:
        raise StreamError(
            f"an offer of {len(said.streams):,} streams: up to {limits.STREAM_OFFERS:,} are taken"
        )
    for one in said.streams:
        if not 0 < len(one.name) <= limits.STREAM_NAME_CHARS or len(one.host) > limits.STREAM_NAME_CHARS:
            raise StreamError("an offer of a stream whose name, or whose host's, is empty or too long")
        if not 0 <= one.at <= limits.STREAM_TICKS:
            raise StreamError(f"stream {one.name!r} is offered from tick {one.at} on")
        if not 0 < len(one.topics) <= limits.STREAM_TOPICS:
            raise StreamError(f"stream {one.name!r} is offered with {len(one.topics):,} topic filters")
    return said
