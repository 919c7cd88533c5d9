"""How a session comes from one node to another: nothing is lost on the way, and nothing comes twice.

The node that a client comes to asks the root where the session is. It asks the holder for the filters,
becomes interested in them and holds what comes. Then it asks every node for a fence: an answer that says that
the holder has everything which that node published before it knew of the new interest. Now it takes the
session. The holder gives everything that waits, and for each origin the number of the last event it has seen.
What is held is dropped up to these marks and kept above them: an event has the same number on all links.

    client ─CONNECT─► node ─attach─► root
                      node ─read──► holder      filters
                      node ─fence─► everybody   the holder has what was published before
                      node ─take──► holder      what waits, and the marks
                      node ─took──► holder      it is on disk here: forget it there

Nothing here waits by itself: `arrive` awaits what its node awaits.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

import msgspec

from penstock import limits
from penstock.core.cluster.frames import Natural, Text  # noqa: TC001  # msgspec reads annotations at run time
from penstock.core.cluster.seen import Gaps, Marks, below, missed
from penstock.core.cluster.sessions import Record  # noqa: TC001
from penstock.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from penstock.model.event import Event


ATTEMPTS: Final = 3
"""How often a session is asked for whose client subscribes to more meanwhile; then it is taken as it is."""

OWNERS_ASKED: Final = 3
"""Owners of a session that are asked where it is: root and copy, and the one that comes after a lost root."""


class Attach(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """To the root: a client attaches to the node that asks."""

    client: Text
    incarnation: Natural


class Attached(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The root's answer."""

    epoch: Natural
    before: Record | None = None
    also: Record | None = None
    """Where the session is if it is not there: the client was on its way there, and may never have come."""


class About(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """To the holder: `read`, `end` or `took` the session of a client."""

    client: Text
    epoch: Natural


class Filters(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The holder's answer to `read`."""

    found: bool
    filters: list[Text] = []
    at: Text = ""
    """The node that has taken the session from the one that answers; empty: it is there."""


class Fence(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """To everybody: answer when this node has what was sent to it so far."""

    node: Text


class Fenced(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The answer to `fence`."""

    handed: bool
    """Whether that node has everything; else it is away, or takes too long."""
    number: Natural = 0
    """The last event that the node which answers had published when it was asked."""


class Take(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """To the holder: give the session, from a position in its bytes on."""

    client: Text
    epoch: Natural
    position: Natural = 0
    fenced: list[Text] | None = None
    """Nodes that have sent the holder everything; what comes from others is too late. None: nothing is."""
    filters: list[Text] | None = None
    """Filters for which the node that asks holds what comes: the session must have no others, if given."""


class Given(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The holder's answer to `take`: a part of the session."""

    size: Natural
    """Bytes of the whole session; 0: there is none, it has ended."""
    part: bytes = b""
    marks: Marks = {}
    """Number of the last event of each origin that the session has seen."""
    partial: bool = False
    """Whether the holder, too, never got what waited at the one before."""
    gaps: Gaps = {}
    changed: bool = False
    """Whether the client has subscribed to more meanwhile: nothing is given; `read` tells the filters."""


class Keep(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """To the owners: sessions that the node which asks has, and clients whose sessions have ended there."""

    records: list[Record] = []
    ended: list[tuple[Text, Natural]] = []


class Kept(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The owner's answer: the records that count in the place of those told."""

    stale: list[Record] = []


B = TypeVar("B")

_encoder = msgspec.msgpack.Encoder()


def body_of(said: object) -> bytes:
    """Encode the body of a question or an answer."""
    return _encoder.encode(said)


def read_body(data: bytes, kind: type[B]) -> B:
    """Decode a body; ClusterError if it is damaged."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ClusterError(f"a damaged question or answer: {error}") from None


class HeldEvent(NamedTuple):
    """An event that waits for a session on its way."""

    origin: str
    incarnation: int
    number: int
    event: Event


class Held:
    """Events for a session that is on its way to this node."""

    def __init__(self, *, most: int = limits.CLUSTER_HELD_EVENTS) -> None:
        self._events: deque[HeldEvent] = deque()
        self._most = most
        self.dropped = 0
        """Events that did not fit."""

    def __len__(self) -> int:
        return len(self._events)

    def add(self, origin: str, incarnation: int, number: int, event: Event) -> None:
        """Hold an event; the oldest goes if it does not fit."""
        self._events.append(HeldEvent(origin, incarnation, number, event))
        if len(self._events) > self._most:
            self._events.popleft()
            self.dropped += 1

    def follow(self, earlier: Held) -> None:
        """Put what was held earlier for the same session in front; what both have is there once."""
        mine = {each[:3] for each in self._events}
        self._events.extendleft(each for each in reversed(earlier._events) if each[:3] not in mine)
        self.dropped += earlier.dropped

    def above(self, marks: Marks) -> Iterator[HeldEvent]:
        """The events that the session had not seen at its holder, in order."""
        return (each for each in self._events if not below(marks, each.origin, each.incarnation, each.number))

    def missed(self, marks: Marks, gaps: Gaps) -> int:
        """How many of them came too late to follow what the session has seen since."""
        return sum(missed(marks, gaps, each.origin, each.incarnation, each.number) for each in self._events)


class Outcome(Enum):
    """How a client has come to this node."""

    NEW = "new"
    """The client has no session at another node."""
    MOVED = "moved"
    """The session of the client has come from another node, complete."""
    ENDED = "ended"
    """The client asked for a new session; its session at another node has ended."""
    RECALLED = "recalled"
    """The holder does not answer: subscriptions and policies are those that the root knows."""
    ALONE = "alone"
    """Nobody who could know of a session answers."""


class MovingNode(Protocol):
    """The node that a client comes to."""

    name: str
    incarnation: int

    def owners_of(self, client: str) -> tuple[str, ...]:
        """The root of a client and the next owner: nodes in view now, or this one."""
        ...

    def ask(self, node: str, kind: str, body: bytes) -> Awaitable[bytes]:
        """Ask a node, also this one; ClusterError if there is no answer in time."""
        ...

    def fences(self, node: str) -> Awaitable[list[str]]:
        """Ask everybody for a fence, this node included; those whose events that node has."""
        ...

    def placed(self, client: str, epoch: int) -> None:
        """Note the epoch of a client that comes; what is done for an earlier one is void."""
        ...

    def hold(self, client: str, filters: list[str]) -> None:
        """Become interested, and hold what comes; what was held before is forgotten."""
        ...

    def let_go(self, client: str) -> None:
        """Hold nothing more: the session does not come."""
        ...

    def take_in(self, client: str, data: bytes, given: Given, *, fenced: list[str]) -> Awaitable[None]:
        """Continue the session; what is held above the marks comes behind what waited. ClusterError if the
        bytes are damaged. Done when it is on disk. `fenced` are the nodes that had sent the holder
        everything."""
        ...

    def is_member(self, node: str, incarnation: int) -> bool:
        """Whether this incarnation of a node is there, or may come back."""
        ...

    def taken(self, client: str, holder: str, about: bytes) -> None:
        """Say `took` to the holder, again and again if it does not answer."""
        ...

    def recall(self, record: Record) -> bool:
        """Continue a session of which only the root's record is known, because its holder is silent; False:
        it is here by now, since the holder was about to take it from this node."""
        ...


async def arrive(node: MovingNode, client: str, *, clean: bool) -> Outcome:
    """Have the session of a client come to this node, or end if the client begins anew."""
    attached = await _attach(node, client)
    if attached is None:
        return Outcome.ALONE
    node.placed(client, attached.epoch)
    outcome = Outcome.NEW
    for before in (attached.before, attached.also):
        if before is not None and (before.holder, before.incarnation) != (node.name, node.incarnation):
            outcome = await _arrive_from(node, client, attached.epoch, before, clean=clean)
            if outcome is not Outcome.NEW:
                break
    return outcome


async def _attach(node: MovingNode, client: str) -> Attached | None:
    """Ask the root where a session is; None: nobody who could know answers.

    If the root is killed or frozen meanwhile, the next owner knows, which may be the root by then.
    """
    body = body_of(Attach(client, node.incarnation))
    asked: list[str] = []
    while len(asked) < OWNERS_ASKED:
        owner = next((each for each in node.owners_of(client) if each not in asked), None)
        if owner is None:
            break
        asked.append(owner)
        try:
            return read_body(await node.ask(owner, "attach", body), Attached)
        except ClusterError:
            continue
    return None


async def _arrive_from(node: MovingNode, client: str, epoch: int, before: Record, *, clean: bool) -> Outcome:
    """Have a session come from where it may be; NEW: it is not there."""
    if before.holder == node.name:  # it was here before this node was started anew, and is not on its disk
        return Outcome.NEW if clean else _recall(node, before)
    about = body_of(About(client, epoch))
    try:
        if clean:
            await node.ask(before.holder, "end", about)
            return Outcome.ENDED
        outcome = await _move(node, client, epoch, before, about)
        if outcome is Outcome.NEW and not node.is_member(before.holder, before.incarnation):
            return _recall(node, before)  # it was in the memory of a node that was started anew
    except ClusterError:
        if clean or not before.facts:
            return Outcome.ALONE
        return Outcome.RECALLED if node.recall(before) else Outcome.NEW
    return outcome


def _recall(node: MovingNode, before: Record) -> Outcome:
    """Continue a session that its holder does not have any more, unless it never came there."""
    if not before.facts or before.coming:
        return Outcome.NEW
    return Outcome.RECALLED if node.recall(before) else Outcome.NEW


async def take(
    node: MovingNode,
    client: str,
    epoch: int,
    holder: str,
    *,
    fenced: list[str] | None = None,
    filters: list[str] | None = None,
) -> tuple[Given, bytes]:
    """Take the bytes of a session from its holder, part by part."""
    given = read_body(await node.ask(holder, "take", body_of(Take(client, epoch, 0, fenced, filters))), Given)
    data = given.part
    while len(data) < given.size:
        rest = read_body(await node.ask(holder, "take", body_of(Take(client, epoch, len(data)))), Given)
        if not rest.part or rest.size != given.size:
            raise ClusterError(f"the session of '{client}' has changed on its way")
        data += rest.part
    return given, data


async def _move(node: MovingNode, client: str, epoch: int, before: Record, about: bytes) -> Outcome:
    holder = before.holder
    try:
        for attempt in range(1, ATTEMPTS + 1):
            found = read_body(await node.ask(holder, "read", about), Filters)
            if not found.found:
                return Outcome.NEW
            holder = found.at or holder
            node.hold(client, found.filters)
            fenced = await node.fences(holder)
            filters = found.filters if attempt < ATTEMPTS else None
            given, data = await take(node, client, epoch, holder, fenced=fenced, filters=filters)
            if not given.changed:
                break
        if not given.size:
            return Outcome.NEW
        await node.take_in(client, data, given, fenced=fenced)
    finally:
        node.let_go(client)
    node.taken(client, holder, about)
    return Outcome.MOVED
