"""Encodes what nodes pass on for each other: one frame for many nodes, acknowledgements of many nodes.

A relayed frame has the items of the frames of some nodes, each item once, and a *stop* for each node: the
number of its frame on its link to the origin, and which items are in it. Stops are in the order of the tree,
a forwarder ahead of the nodes behind it. Each node takes its own frame and passes on the rest; the links at
both ends know nothing of it. The first byte of all of these frames is 16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from penstock import limits
from penstock.core.cluster.frames import Natural, Text, data_frame, split_items
from penstock.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.core.cluster.tree import Way

PASSED: Final = bytes((16,))
"""First byte of what is passed on; frames of links begin with others."""


class Stop(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A node that a relayed frame comes to."""

    name: Text
    incarnation: Natural
    number: Natural
    """Number of the node's frame on its link from the origin; 0: there is none, the node only forwards."""
    span: Natural
    """Number of stops in this branch of the tree: this one and all behind it."""
    picks: list[Natural] | None = None
    """Places of the items of its frame; None: all of them."""


class Relayed(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=1):
    """Frames of one origin for several nodes; the first stop is the node that gets it."""

    origin: Text
    incarnation: Natural
    stops: list[Stop]
    items: list[bytes]

    def frame(self, stop: Stop) -> bytes:
        """The frame of one stop, as it would have come directly."""
        items = self.items if stop.picks is None else [self.items[place] for place in stop.picks]
        return data_frame(stop.number, b"".join(items))

    def branches(self) -> Iterator[Relayed]:
        """The frames that the first stop sends on, one for each next node, with the items needed there."""
        at = 1
        while at < len(self.stops):
            span = self.stops[at].span
            yield self._branch(self.stops[at : at + span])
            at += span

    def _branch(self, stops: list[Stop]) -> Relayed:
        if any(stop.picks is None for stop in stops):
            return Relayed(self.origin, self.incarnation, stops, self.items)
        used = sorted({place for stop in stops for place in stop.picks or ()})
        if len(used) == len(self.items):
            return Relayed(self.origin, self.incarnation, stops, self.items)
        places = {place: at for at, place in enumerate(used)}
        stops = [
            msgspec.structs.replace(stop, picks=[places[place] for place in stop.picks or ()])
            for stop in stops
        ]
        return Relayed(self.origin, self.incarnation, stops, [self.items[place] for place in used])


class Receipts(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=2):
    """Acknowledgements of several nodes for one origin."""

    origin: Text
    incarnation: Natural
    acks: list[tuple[Text, Natural, bytes]]
    """Name and incarnation of a node, and its frame."""


class Unreached(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=3):
    """Tells an origin that the sender does not reach these nodes."""

    names: list[Text]


Passed: TypeAlias = Relayed | Receipts | Unreached

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Passed] = msgspec.msgpack.Decoder(Relayed | Receipts | Unreached)


def encode(passed: Passed) -> bytes:
    """Encode what is passed on."""
    return PASSED + _encoder.encode(passed)


def decode(frame: bytes) -> Passed:
    """Decode what was passed on; ClusterError if it is damaged."""
    try:
        found = _decoder.decode(memoryview(frame)[len(PASSED) :])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ClusterError(f"a damaged relay: {error}") from None
    if isinstance(found, Relayed):
        _check(found)
    return found


def _check(relayed: Relayed) -> None:
    """Refuse stops that do not form a tree below the first one, and items that are not there."""
    ends: list[int] = []
    for at, stop in enumerate(relayed.stops):
        while ends and ends[-1] <= at:
            ends.pop()
        end = at + stop.span
        if not stop.span or end > (ends[-1] if ends else len(relayed.stops)):
            raise ClusterError(f"a relay whose stop {at} has {stop.span} stops behind it")
        if stop.picks is not None and max(stop.picks, default=0) >= max(1, len(relayed.items)):
            raise ClusterError(f"a relay whose stop {at} has items that are not in it")
        ends.append(end)
    if not relayed.stops or relayed.stops[0].span != len(relayed.stops):
        raise ClusterError("a relay without a first stop")


class Parcel(NamedTuple):
    """A frame for one node, and how it gets there."""

    name: str
    incarnation: int
    way: Way
    number: int
    body: bytes


def packed(
    origin: str, incarnation: int, parcels: Iterable[Parcel], known: dict[str, int]
) -> Iterator[Relayed]:
    """Put frames whose ways begin with the same node together; `known` has incarnations of forwarders.

    Each node has one frame. Items that several frames have are in a relayed frame once.
    """
    box = _Box()
    for parcel in parcels:
        items = split_items(parcel.body)
        if not box.takes(items):
            yield box.close(origin, incarnation, known)
            box = _Box()
        box.add(parcel, items)
    if box:
        yield box.close(origin, incarnation, known)


class _Branch:
    """A node of the tree while a relayed frame is made."""

    __slots__ = ("below", "parcel", "picks")

    def __init__(self) -> None:
        self.below: dict[str, _Branch] = {}
        self.parcel: Parcel | None = None
        self.picks: list[int] = []


class _Box:
    """A relayed frame while it is made."""

    def __init__(self) -> None:
        self._root = _Branch()
        self._places: dict[bytes, int] = {}
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._places)

    def takes(self, items: list[bytes]) -> bool:
        """Whether there is room for the items that are new."""
        more = sum(len(item) for item in items if item not in self._places)
        return not self._places or self._bytes + more <= limits.CLUSTER_RELAY_BYTES

    def add(self, parcel: Parcel, items: list[bytes]) -> None:
        """Add the frame of a node."""
        for item in items:
            if item not in self._places:
                self._places[item] = len(self._places)
                self._bytes += len(item)
        branch = self._root
        for name in (*parcel.way, parcel.name):
            branch = branch.below.setdefault(name, _Branch())
        branch.parcel = parcel
        branch.picks = [self._places[item] for item in items]

    def close(self, origin: str, incarnation: int, known: dict[str, int]) -> Relayed:
        """Make the frame for the node that all ways begin with."""
        ((name, first),) = self._root.below.items()
        stops: list[Stop] = []
        self._stop(name, first, stops, known, list(range(len(self._places))))
        return Relayed(origin, incarnation, stops, list(self._places))

    def _stop(
        self, name: str, branch: _Branch, stops: list[Stop], known: dict[str, int], everything: list[int]
    ) -> int:
        """Add a node and those behind it; returns how many they are."""
        at = len(stops)
        parcel = branch.parcel
        stops.append(_NOWHERE)
        span = 1
        for child, below in branch.below.items():
            span += self._stop(child, below, stops, known, everything)
        picks = None if branch.picks == everything else branch.picks
        if parcel is None:
            stops[at] = Stop(name, known[name], 0, span, [])
        else:
            stops[at] = Stop(name, parcel.incarnation, parcel.number, span, picks)
        return span


_NOWHERE: Final = Stop("", 0, 0, 0)
