"""Offers of streams: which streams come from which neighbour, and which neighbours get them from this node.

Every node offers each neighbour all streams that it hosts or gets from others, so that every node of the
tree learns of all streams. A stream comes from one side only: a second neighbour that offers it gets it
from elsewhere, and this node does not send it there. `filter_of` compiles what a neighbour wants over its
link: topic filters and a content filter.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from penstock import limits
from penstock.core.streams import wire
from penstock.core.streams.handshake import Offer, Offered
from penstock.core.streams.ticks import duration_us
from penstock.errors import MqttError, PolicyError, StreamError
from penstock.model.instant import SECOND_US
from penstock.mqtt.topics import check_filter, matches
from penstock.node.config.stream_checks import stream_problem
from penstock.node.streams.log.records import message_from
from penstock.node.streams.log.state import StateTable
from penstock.policy.content import ContentFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.core.streams.messages import Matches
    from penstock.node.streams.tree.directory import KnownStream, StreamContext

log = logging.getLogger(__name__)

FAULTS_SHOWN: Final = 20
"""Faults in the status; the log has all of them. Two nodes may have many streams of the same names."""

OFFERS: Final = "learnt"
"""Table of the state file: (neighbour, stream) → the offer. So a node that starts alone knows its streams."""


@dataclass(frozen=True, slots=True)
class NeighbourWants:
    """Filters that a neighbour has asked for: only messages that match go over the link to it."""

    only: tuple[str, ...] = ()
    where: str = ""


class _Side:
    """The offers to and from one neighbour."""

    __slots__ = ("connected", "fresh", "matches", "offered", "offers", "wanted")

    def __init__(self) -> None:
        self.offers: dict[str, Offered] = {}
        """The last offer of the neighbour, by stream."""
        self.fresh = True
        """Whether the next offer of the neighbour is the first one since it connected."""
        self.connected = False
        self.offered: Offer | None = None
        """The streams that this node has offered the neighbour since it connected."""
        self.wanted = NeighbourWants()
        self.matches: Matches | None = None


def filter_of(only: tuple[str, ...], where: str, *, clock: Callable[[], int]) -> Matches | None:
    """Compile the filters of a link; None if everything passes. StreamError says what is wrong with them."""
    if not only and not where:
        return None
    try:
        for filter_ in only:
            check_filter(filter_, where="only")
        content = ContentFilter(where) if where else None
    except (MqttError, PolicyError) as error:
        raise StreamError(f"filter of the link: {error}") from None

    def wanted(body: bytes) -> bool:
        try:
            one = wire.decode_record(body)
            if only and not any(matches(filter_, one.topic) for filter_ in only):
                return False
            return content is None or content.wants(message_from(one), now_us=clock())
        except (StreamError, MqttError):  # a node that can read the message decides
            return True

    return wanted


class Offers:
    """The offers to and from all neighbours of a node."""

    def __init__(
        self, context: StreamContext, names: Iterable[str], *, send: Callable[[str, Offer], None]
    ) -> None:
        self._directory = context.directory
        self._driver = context.driver
        self._core = context.driver.core
        self._clock = context.clock
        self._table = StateTable(context.state, OFFERS, Offered, width=2)
        self._send = send
        self._sides = {name: _Side() for name in names}
        self._attached: dict[tuple[str, str], NeighbourWants] = {}
        """Neighbours that get a stream from this node, by stream and neighbour."""
        self._complaints: dict[tuple[str, str], str] = {}
        """Why a stream that a neighbour offers is not taken, by neighbour and stream."""
        self._overtaken: dict[str, tuple[int, str]] = {}
        """Streams whose new host is behind the old one: the tick to reach, and the fault until then."""

    def start(self) -> None:
        """Follow the streams known from the last run, and hold the streams hosted here for all neighbours."""
        for (name, stream), offered in self._table.load().items():
            side = self._sides.get(name)
            if side is None or stream in self._directory.hosted:  # the configuration has changed
                self._table.remove((name, stream))
            else:
                side.offers[stream] = offered
        for name, side in self._sides.items():
            self._take(name, side.offers.values())
        self._directory.on_changed.append(self._settle)
        self._settle()

    def connected(self, name: str, wanted: NeighbourWants, matches: Matches | None) -> None:
        """Note that a neighbour has connected and which messages it wants; send it an offer."""
        side = self._sides[name]
        side.wanted, side.matches = wanted, matches
        side.fresh = side.connected = True
        side.offered = None
        self._settle()

    def disconnected(self, name: str) -> None:
        """Note that a neighbour cannot be reached."""
        self._sides[name].connected = False

    def received(self, name: str, offer: Offer) -> None:
        """Take the offer of a neighbour; StreamError if a name or a topic in it is not allowed."""
        for one in offer.streams:
            if problem := stream_problem(one.name, one.topics):
                raise StreamError(f"stream {one.name!r} is offered, but {problem}")
        side = self._sides[name]
        before, side.offers = side.offers, {one.name: one for one in offer.streams}
        self._take(name, side.offers.values())
        for gone in before.keys() - side.offers.keys():
            self._gone(name, gone)
        self._settle()
        for one in side.offers.values():
            if self.comes_from(one.name) == name:
                self._comes(name, one, before.get(one.name), fresh=side.fresh)
        side.fresh = False

    def faults(self) -> list[str]:
        """Present faults of offered streams, for the status."""
        known = self._directory.known
        self._overtaken = {
            stream: (until, why)
            for stream, (until, why) in self._overtaken.items()
            if stream in known and not known[stream].hosted_here and self._core.relay(stream).reached <= until
        }
        faults = chain(self._complaints.values(), (why for _, why in self._overtaken.values()))
        return list(islice(faults, FAULTS_SHOWN))

    def comes_from(self, stream: str) -> str | None:
        """The neighbour that a stream comes from; None if it is hosted here or not known."""
        known = self._directory.known.get(stream)
        return None if known is None or known.hosted_here else known.upstream

    def goes_to(self, stream: str, name: str) -> bool:
        """Whether a neighbour gets a stream from this node."""
        return (stream, name) in self._attached

    def _take(self, name: str, offered: Iterable[Offered]) -> None:
        """Follow the offered streams that are to come from this neighbour, and enter them in the directory.

        The directory tells its listeners once, however many streams there are.
        """
        self._directory.learn([one for one in offered if self._follow(name, one)], name)

    def _follow(self, name: str, one: Offered) -> bool:
        """Have a stream come from a neighbour that offers it; False if it comes from elsewhere."""
        known = self._directory.known.get(one.name)
        if known is None:
            if len(self._core) >= limits.STREAM_OFFERS:
                self._full(name)
                return False
            self._core.follow(one.name, name)
            self._core.begin(one.name, one.at)
        elif known.hosted_here:
            self._complain(name, one, "it is published at this node")
            return False
        elif known.upstream != name:
            if one.name in self._sides[known.upstream].offers:
                self._complain(name, one, f"it comes from {known.upstream!r}")
                return False
            self._core.move(one.name, name)
            self._attached.pop((one.name, name), None)
            log.info("stream %r now comes from %r instead of %r", one.name, name, known.upstream)
        if known is not None and known.host != one.host:
            self._moved(one, known.host)
        return True

    def _moved(self, one: Offered, before: str) -> None:
        """Complain if the new host of a stream gives out ticks that the old host has given out already."""
        reached = self._core.relay(one.name).reached
        behind_us = duration_us(reached - one.at)
        if one.at and behind_us > 0:
            why = (
                f"stream {one.name!r} is now published at {one.host!r}, which is "
                f"{behind_us / SECOND_US:.1f} s behind the old host {before!r}: messages of that time are "
                "discarded as old; copy the log to the new host, wait before publishing, or rename the stream"
            )
            self._overtaken[one.name] = (reached, why)
            log.error("%s", why)

    def _comes(self, name: str, one: Offered, before: Offered | None, *, fresh: bool) -> None:
        """Store the offer of a stream that comes from this neighbour; ask for what was missed meanwhile."""
        known = replace(one, at=0)
        if before is None or known != replace(before, at=0):
            self._table.put((name, one.name), known)
        self._core.begin(one.name, one.at)
        if fresh or before is None:
            self._core.again(one.name, now_us=self._clock())
            self._driver.changed(one.name)

    def _gone(self, name: str, stream: str) -> None:
        """A neighbour no longer offers a stream: take it from another neighbour whose offer was refused."""
        self._complaints.pop((name, stream), None)
        if self.comes_from(stream) != name:
            return
        self._table.remove((name, stream))
        for other, side in self._sides.items():
            one = side.offers.get(stream)
            if one is not None:
                self._complaints.pop((other, stream), None)
                self._take(other, (one,))
                self._comes(other, one, None, fresh=True)
                return
        log.warning(
            "stream %r is no longer offered by %r; messages received so far are kept, and the stream is "
            "forgotten at the next start of this node",
            stream,
            name,
        )

    def _complain(self, name: str, one: Offered, why: str) -> None:
        if (name, one.name) not in self._complaints:
            text = (
                f"stream {one.name!r} of node {one.host!r} is not taken from {name!r}: {why}; the links "
                "between nodes form a ring, or two nodes publish a stream of the same name"
            )
            self._complaints[name, one.name] = text
            log.error("%s", text)

    def _full(self, name: str) -> None:
        if (name, "") not in self._complaints:
            text = (
                f"{name!r} offers more than the {limits.STREAM_OFFERS} streams that a node can know; the "
                "rest is not taken. Streams no longer offered are forgotten at the next start of this node"
            )
            self._complaints[name, ""] = text
            log.error("%s", text)

    def _settle(self) -> None:
        """Attach to every stream the neighbours that get it from this node, and send offers that changed."""
        for known in list(self._directory.known.values()):
            for name, side in self._sides.items():
                self._attach(known, name, side)
        for name, side in self._sides.items():
            if side.connected:
                offer = self._offer(name)
                if offer != side.offered:
                    side.offered = offer
                    self._send(name, Offer(tuple(map(self._dated, offer.streams))))

    def _attach(self, known: KnownStream, name: str, side: _Side) -> None:
        key = (known.name, name)
        if known.upstream == name or known.name in side.offers:
            if self._attached.pop(key, None) is not None:
                self._core.detach(known.name, name)
        elif self._attached.get(key) != side.wanted:
            self._core.attach(known.name, name, side.matches)
            self._attached[key] = side.wanted

    def _offer(self, name: str) -> Offer:
        """List the streams for a neighbour: all but those that come from it or are no longer offered."""
        found = [
            Offered(known.name, known.topics, known.host)
            for known in self._directory.known.values()
            if known.hosted_here
            or (known.upstream != name and known.name in self._sides[known.upstream].offers)
        ]
        return Offer(tuple(sorted(found, key=lambda one: one.name)))

    def _dated(self, one: Offered) -> Offered:
        """The offer with the tick that the stream has reached here."""
        hosted = self._directory.hosted.get(one.name)
        at = self._core.relay(one.name).reached if hosted is None else hosted.end
        return replace(one, at=at)
