"""Requests of programs to a node after the handshake, and its answers, as bounded frames.

Every request has a number that its answer repeats, so several can be under way; answers come in any order.
All requests may be sent again after a lost connection: what was done already is answered as done.
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
"""Why a request failed: no such stream, hosted by another node, messages gone, not allowed, not possible,
no room at the moment, another writer has taken over, staged rows are not there, a request that is none."""


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message to be put into a stream."""

    topic: str
    payload: bytes
    ts_us: int = 0
    """0: when the node accepts it."""
    content_type: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    """User properties, in order."""


def size_of(row: Row) -> int:
    """About how many bytes a request grows by a row."""
    text = (
        len(row.topic) + len(row.content_type) + sum(len(name) + len(value) for name, value in row.properties)
    )
    return len(row.payload) + text


class Figures(msgspec.Struct, frozen=True, array_like=True):
    """A stream as a node knows it."""

    name: str
    topics: tuple[str, ...]
    host: str
    """The node it is published at."""
    here: bool
    """Whether that is the node asked; if not, the figures that follow are 0."""
    begin: int = 0
    """Messages before this tick are gone."""
    end: int = 0
    """All messages before this tick are there, and none will be added among them."""
    acked: int = 0
    messages: int = 0
    bytes: int = 0
    door: str = ""
    """Where programs reach the node that hosts it, if the node asked knows that."""

    @property
    def whereabouts(self) -> str:
        """The node that hosts it, as it is told to whoever came to another."""
        return f"node '{self.host}'" + (f" ({self.door})" if self.door else "")


# -- requests ------------------------------------------------------------------------------------------------


class Describe(msgspec.Struct, frozen=True, array_like=True, tag=40):
    """Which streams are there?"""

    id: int


class Fetch(msgspec.Struct, frozen=True, array_like=True, tag=41):
    """The messages of a span; the same span always has the same messages, until the log lets them go."""

    id: int
    stream: str
    since: int
    until: int = limits.STREAM_TICKS
    most: int = limits.STREAM_FETCH
    """Messages in the answer."""
    most_bytes: int = limits.STREAM_FETCH_BYTES
    """Of messages in the answer; a single one may be larger."""
    wait_ms: int = 0
    """How long to wait if there is no message; an answer without any says how far that is certain."""
    consumer: str = ""
    """Who asks, so that its place is kept for it longer."""


class Split(msgspec.Struct, frozen=True, array_like=True, tag=42):
    """Where a span can be cut into parts of so many messages, or bytes of them."""

    id: int
    stream: str
    since: int
    until: int
    rows: int
    bytes: int = 1 << 62
    parts: int = limits.STREAM_PARTS
    """At most so many; what lies behind them is not looked at."""


class Place(msgspec.Struct, frozen=True, array_like=True, tag=43):
    """How far has this consumer come?"""

    id: int
    stream: str
    consumer: str


class Settle(msgspec.Struct, frozen=True, array_like=True, tag=44):
    """This consumer needs nothing before a tick; answered once durable. It never goes back."""

    id: int
    stream: str
    consumer: str
    until: int


class Forget(msgspec.Struct, frozen=True, array_like=True, tag=45):
    """This consumer is no more; nothing is kept for it."""

    id: int
    stream: str
    consumer: str


class Begin(msgspec.Struct, frozen=True, array_like=True, tag=46):
    """A writer of this name starts, or goes on over a new connection; whoever wrote under the name is out."""

    id: int
    stream: str
    writer: str
    token: str
    """Chosen at random by each writer that starts."""
    resume: bool = False
    """Go on, unless another has taken over."""


class Leave(msgspec.Struct, frozen=True, array_like=True, tag=51):
    """Nobody will write under this name again: its numbers need not be known."""

    id: int
    stream: str
    writer: str
    token: str


class Append(msgspec.Struct, frozen=True, array_like=True, tag=47):
    """Rows with growing numbers; answered when durable and in their turn. Known numbers are passed over."""

    id: int
    stream: str
    writer: str
    numbers: tuple[int, ...]
    rows: tuple[Row, ...]


class Stage(msgspec.Struct, frozen=True, array_like=True, tag=48):
    """A part of the rows that an attempt at a task has made; kept until they are committed or aborted."""

    id: int
    stream: str
    attempt: str
    part: int
    """From 0."""
    rows: tuple[Row, ...]


class Staged(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A complete attempt."""

    attempt: str
    parts: int


class Commit(msgspec.Struct, frozen=True, array_like=True, tag=49):
    """Put the rows of these attempts into the stream, in this order: all of them, and a batch only once."""

    id: int
    stream: str
    writer: str
    batch: int
    """Batches of a writer grow; one that was committed, or is older, is answered as done."""
    attempts: tuple[Staged, ...]
    sender: str = ""
    """Whom the messages name as their sender; empty: the writer."""
    once: bool = False
    """Whether this writer has no other batch, and need not be known for long."""


class Abort(msgspec.Struct, frozen=True, array_like=True, tag=50):
    """These attempts are not wanted."""

    id: int
    stream: str
    attempts: tuple[str, ...]


Request: TypeAlias = (
    Describe | Fetch | Split | Place | Settle | Forget | Begin | Leave | Append | Stage | Commit | Abort
)


# -- answers -------------------------------------------------------------------------------------------------


class Described(msgspec.Struct, frozen=True, array_like=True, tag=60):
    """All streams that the program may know."""

    id: int
    node: str
    streams: tuple[Figures, ...]
    most_bytes: int
    """Of a payload that the node takes."""


class Fetched(msgspec.Struct, frozen=True, array_like=True, tag=61):
    """All messages from `since` up to before `behind`; the bodies are records."""

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
    """How far a consumer has come; None: it is not known."""

    id: int
    place: int | None


class Begun(msgspec.Struct, frozen=True, array_like=True, tag=64):
    """The writer may write; messages up to this number are in the stream (0: none)."""

    id: int
    last: int
    topics: tuple[str, ...]
    most_bytes: int
    """Of a payload that the node takes."""


class Done(msgspec.Struct, frozen=True, array_like=True, tag=65):
    """So it is, durably."""

    id: int


class Failed(msgspec.Struct, frozen=True, array_like=True, tag=66):
    """It was not done."""

    id: int
    code: Code
    reason: str
    """Fit to be shown."""
    first: int = 0
    """The first tick that can be had, if messages are gone."""


Answer: TypeAlias = Described | Fetched | Cuts | Placed | Begun | Done | Failed

_encoder = msgspec.msgpack.Encoder()
_requests: Final = msgspec.msgpack.Decoder(Request)
_answers: Final = msgspec.msgpack.Decoder(Answer)


def encode(message: Request | Answer) -> bytes:
    """A frame."""
    return wire.framed(_encoder.encode(message), what=f"a {type(message).__name__}")


def decode_request(body: bytes) -> Request:
    """The request of a frame without its head; StreamError if it is none."""
    try:
        request: Request = _requests.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise StreamError(f"this is no request about streams: {error}") from None
    if problem := _problem(request):
        raise StreamError(f"this is no request about streams: {problem}")
    return request


def decode_answer(body: bytes) -> Answer:
    """The answer of a frame without its head; StreamError if it is none."""
    try:
        answer: Answer = _answers.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise StreamError(f"this is no answer about streams: {error}") from None
    if isinstance(answer, Fetched) and len(answer.ticks) != len(answer.bodies):
        raise StreamError("this is no answer about streams: ticks and messages differ in number")
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
