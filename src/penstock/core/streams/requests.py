"""Requests of programs to a node after the handshake, and its answers, as bounded frames.

Every request has a number that its answer repeats, so several can be under way; answers come in any order.
Every request may be repeated after a lost connection: what was already done is answered as done.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from penstock import limits
from penstock.core.streams import wire
from penstock.errors import StreamError

Code: TypeAlias = Literal[
    "unknown", "elsewhere", "trimmed", "denied", "refused", "full", "fenced", "gone", "broken"
]
"""Why a request failed: unknown stream, hosted by another node, messages deleted, not allowed, not possible,
no room at the moment, replaced by another writer, staged rows missing, invalid request.
"""


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message to append to a stream."""

    topic: str
    payload: bytes
    ts_us: int = 0
    """0: the time when the node accepts it."""
    content_type: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    """User properties, in order."""


def size_of(row: Row) -> int:
    """Approximate bytes that a row adds to a request."""
    text = (
        len(row.topic) + len(row.content_type) + sum(len(name) + len(value) for name, value in row.properties)
    )
    return len(row.payload) + text


class Figures(msgspec.Struct, frozen=True, array_like=True):
    """A stream as a node knows it."""

    name: str
    topics: tuple[str, ...]
    host: str
    """The node at which it is published."""
    here: bool
    """Whether that is the node asked; if not, the following figures are 0."""
    begin: int = 0
    """Messages before this tick have been deleted."""
    end: int = 0
    """All messages before this tick are present, and none will be added before it."""
    acked: int = 0
    messages: int = 0
    bytes: int = 0
    url: str = ""
    """Address for programs of the hosting node, if the node asked knows it."""

    @property
    def whereabouts(self) -> str:
        """The hosting node, for an error message to a program that asked another node."""
        return f"node '{self.host}'" + (f" ({self.url})" if self.url else "")


# -- requests ------------------------------------------------------------------------------------------------


class Describe(msgspec.Struct, frozen=True, array_like=True, tag=40):
    """List the streams."""

    id: int


class Fetch(msgspec.Struct, frozen=True, array_like=True, tag=41):
    """Read the messages of a span; the same span always returns the same messages until they are deleted."""

    id: int
    stream: str
    since: int
    until: int = limits.STREAM_TICKS
    most: int = limits.STREAM_FETCH
    """Most messages in the answer."""
    most_bytes: int = limits.STREAM_FETCH_BYTES
    """Most bytes of messages in the answer; a single one may be larger."""
    wait_ms: int = 0
    """How long to wait for a message; an empty answer says up to which tick there is none."""
    consumer: str = ""
    """Name of the consumer, whose position is then kept longer."""


class Split(msgspec.Struct, frozen=True, array_like=True, tag=42):
    """Cut a span into parts of at most this number of messages or bytes."""

    id: int
    stream: str
    since: int
    until: int
    rows: int
    bytes: int = 1 << 62
    parts: int = limits.STREAM_PARTS
    """Most parts; the rest of the span is not examined."""


class Place(msgspec.Struct, frozen=True, array_like=True, tag=43):
    """Ask for a consumer's position."""

    id: int
    stream: str
    consumer: str


class Settle(msgspec.Struct, frozen=True, array_like=True, tag=44):
    """Advance a consumer's position; answered once durable. It never goes back."""

    id: int
    stream: str
    consumer: str
    until: int


class Forget(msgspec.Struct, frozen=True, array_like=True, tag=45):
    """Delete a consumer and its position."""

    id: int
    stream: str
    consumer: str


class Begin(msgspec.Struct, frozen=True, array_like=True, tag=46):
    """Start a writer of this name, or continue it over a new connection.

    Any other writer of the name is replaced.
    """

    id: int
    stream: str
    writer: str
    token: str
    """Random text that identifies this instance of the writer."""
    resume: bool = False
    """Continue, unless another instance has replaced it."""


class Leave(msgspec.Struct, frozen=True, array_like=True, tag=51):
    """Delete a writer: its numbers need not be remembered."""

    id: int
    stream: str
    writer: str
    token: str


class Append(msgspec.Struct, frozen=True, array_like=True, tag=47):
    """Append rows with ascending numbers; answered when durable and in order. Known numbers are skipped."""

    id: int
    stream: str
    writer: str
    numbers: tuple[int, ...]
    rows: tuple[Row, ...]


class Stage(msgspec.Struct, frozen=True, array_like=True, tag=48):
    """Stage a part of the rows of a task attempt; kept until committed or aborted."""

    id: int
    stream: str
    attempt: str
    part: int
    """Number of the part, from 0."""
    rows: tuple[Row, ...]


class Staged(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An attempt whose rows are all staged, with its number of parts."""

    attempt: str
    parts: int


class Commit(msgspec.Struct, frozen=True, array_like=True, tag=49):
    """Append the rows of these attempts, in this order: all of them, and each batch only once."""

    id: int
    stream: str
    writer: str
    batch: int
    """A writer's batches ascend; one already committed, or older, is answered as done."""
    attempts: tuple[Staged, ...]
    sender: str = ""
    """Sender of the messages; empty: the writer."""
    once: bool = False
    """Whether this writer has no other batch, so that it need not be remembered for long."""


class Abort(msgspec.Struct, frozen=True, array_like=True, tag=50):
    """Discard these attempts."""

    id: int
    stream: str
    attempts: tuple[str, ...]


Request: TypeAlias = (
    Describe | Fetch | Split | Place | Settle | Forget | Begin | Leave | Append | Stage | Commit | Abort
)


# -- answers -------------------------------------------------------------------------------------------------


class Described(msgspec.Struct, frozen=True, array_like=True, tag=60):
    """All streams that the program may see."""

    id: int
    node: str
    streams: tuple[Figures, ...]
    most_bytes: int
    """Largest payload the node accepts."""


class Fetched(msgspec.Struct, frozen=True, array_like=True, tag=61):
    """All messages from `since` up to, not including, `behind`; the bodies are records."""

    id: int
    since: int
    behind: int
    ticks: tuple[int, ...]
    bodies: tuple[bytes, ...]


class Cuts(msgspec.Struct, frozen=True, array_like=True, tag=62):
    """Ends of the parts, each behind its last message; the last one is `until` if nothing lies behind it."""

    id: int
    ends: tuple[int, ...]
    rows: tuple[int, ...]
    """Messages of each part."""


class Placed(msgspec.Struct, frozen=True, array_like=True, tag=63):
    """Position of a consumer; None if the node does not know the consumer."""

    id: int
    place: int | None


class Begun(msgspec.Struct, frozen=True, array_like=True, tag=64):
    """The writer may write; messages up to this number are in the stream (0: none)."""

    id: int
    last: int
    topics: tuple[str, ...]
    most_bytes: int
    """Largest payload the node accepts."""


class Done(msgspec.Struct, frozen=True, array_like=True, tag=65):
    """The request is done, durably."""

    id: int


class Failed(msgspec.Struct, frozen=True, array_like=True, tag=66):
    """The request failed."""

    id: int
    code: Code
    reason: str
    """Message for the user."""
    first: int = 0
    """First readable tick, if messages have been deleted."""


Answer: TypeAlias = Described | Fetched | Cuts | Placed | Begun | Done | Failed

_encoder = msgspec.msgpack.Encoder()
_requests: Final = msgspec.msgpack.Decoder(Request)
_answers: Final = msgspec.msgpack.Decoder(Answer)


def encode(message: Request | Answer) -> bytes:
    """Encode a frame."""
    return wire.framed(_encoder.encode(message), what=f"a {type(message).__name__}")


def decode_request(body: bytes) -> Request:
    """Decode a request without its frame header; StreamError if invalid."""
    try:
        request: Request = _requests.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise StreamError(f"invalid stream request: {error}") from None
    if problem := _problem(request):
        raise StreamError(f"invalid stream request: {problem}")
    return request


def decode_answer(body: bytes) -> Answer:
    """Decode an answer without its frame header; StreamError if invalid."""
    try:
        answer: Answer = _answers.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise StreamError(f"invalid stream answer: {error}") from None
    if isinstance(answer, Fetched) and len(answer.ticks) != len(answer.bodies):
        raise StreamError("invalid stream answer: ticks and messages differ in number")
    return answer


def _problem(request: Request) -> str:
    names = [
        value
        for field in ("stream", "consumer", "writer", "token", "attempt")
        if isinstance(value := getattr(request, field, None), str)
        and not (field == "consumer" and isinstance(request, Fetch) and not value)
    ]
    match request:
        case Fetch(since=since, until=until):
            wrong = _span_problem(since, until) or _bounds_problem(
                most=request.most, most_bytes=request.most_bytes, wait_ms=request.wait_ms + 1
            )
        case Split(since=since, until=until):
            wrong = _span_problem(since, until) or _bounds_problem(
                rows=request.rows, bytes=request.bytes, parts=request.parts
            )
        case Settle(until=until):
            wrong = _span_problem(0, until)
        case Append(numbers=numbers, rows=rows):
            wrong = _numbers_problem(numbers, rows)
        case Stage(part=part, rows=rows):
            wrong = _bounds_problem(part=part + 1) or ("" if rows else "no rows")
        case Commit(batch=batch, attempts=attempts):
            wrong = _bounds_problem(**{one.attempt[:20]: one.parts + 1 for one in attempts})
            wrong = wrong or ("" if 0 <= batch < 1 << 30 else f"batch {batch}")
            names += [one.attempt for one in attempts]
        case Abort(attempts=attempts):
            wrong = ""
            names += attempts
        case _:
            wrong = ""
    return wrong or _names_problem(names)


def _names_problem(names: list[str]) -> str:
    bad = [name for name in names if not 0 < len(name) <= limits.STREAM_NAME_CHARS]
    return f"a name of {len(bad[0]):,} characters" if bad else ""


def _span_problem(since: int, until: int) -> str:
    return "" if 0 <= since <= until <= limits.STREAM_TICKS else f"ticks from {since} to {until}"


def _bounds_problem(**counts: int) -> str:
    bad = [(name, count) for name, count in counts.items() if not 0 < count <= limits.STREAM_TICKS]
    return f"{bad[0][0]} of {bad[0][1]}" if bad else ""


def _numbers_problem(numbers: tuple[int, ...], rows: tuple[Row, ...]) -> str:
    if not numbers or len(numbers) != len(rows):
        return f"{len(numbers)} numbers for {len(rows)} messages"
    before = 0
    for number in numbers:
        if not before < number < limits.STREAM_TICKS:
            return "numbers that do not grow from 1"
        before = number
    return ""
