"""Offers of streams: which streams come from which neighbour, and which neighbours get them from this node.

Every node offers each neighbour all streams that it hosts or gets from others, so that every node of the
tree learns of all streams. A stream comes from one side only: a second neighbour that offers it gets it
from elsewhere, and this node does not send it there.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.core.streams.handshake import Offer, Offered
from penstock.core.streams.ticks import duration_us
from penstock.errors import StreamError
from penstock.model.instant import SECOND_US
from penstock.node.config.stream_checks import stream_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.core.streams.messages import Matches
    from penstock.node.streams.service import KnownStream, StreamService

log = logging.getLogger(__name__)

FAULTS_SHOWN: Final = 20
"""The log has all of them: two nodes may have many streams of the same names."""

TABLE: Final = "learnt"
"""In the state file: streams by neighbour and name, so that a node that starts alone knows them."""


@dataclass(frozen=True, slots=True)
class NeighbourWants:
    """What a neighbour wants over its link, as it told it."""

    only: tuple[str, ...] = ()
    where: str = ""


class _Side:
    """One neighbour."""

    __slots__ = ("fresh", "matches", "offers", "there", "told", "wanted")

    def __init__(self) -> None:
        self.offers: dict[str, Offered] = {}
        """What it offered last."""
        self.fresh = True
        """Whether its next offer is the first since it was met."""
        self.there = False
        self.told: Offer | None = None
        """What it was told since it was met."""
        self.wanted = NeighbourWants()
        self.matches: Matches | None = None


class Offers:
    """The same for all neighbours."""

    def __init__(
        self, service: StreamService, names: Iterable[str], *, say: Callable[[str, Offer], None]
    ) -> None:
        self._service = service
        self._say = say
        self._sides = {name: _Side() for name in names}
        self._attached: dict[tuple[str, str], NeighbourWants] = {}
        """By stream and neighbour below."""
        self._complaints: dict[tuple[str, str], str] = {}
        """What is wrong with a stream that a neighbour offers."""
        self._overtaken: dict[str, tuple[int, str]] = {}
        """Streams whose new host is behind: where it is not any more, and what is wrong."""

    def start(self) -> None:
        """Follow the streams that are remembered, and hold those hosted here for neighbours to come."""
        for (name, stream), value in self._service.state.load(TABLE):
            side = self._sides.get(name)
            if side is None or stream in self._service.hosted:  # it was so before the configuration changed
                self._service.state.remove(TABLE, (name, stream))
            else:
                side.offers[stream] = msgspec.msgpack.decode(value, type=Offered)
        for name, side in self._sides.items():
            self._take(name, side.offers.values())
        self._service.on_known_changed.append(self._settle)
        self._settle()

    def met(self, name: str, wanted: NeighbourWants, matches: Matches | None) -> None:
        """A neighbour is there, and wants this; it is told what it can have."""
        side = self._sides[name]
        side.wanted, side.matches = wanted, matches
        side.fresh = side.there = True
        side.told = None
        self._settle()

    def parted(self, name: str) -> None:
        """A neighbour cannot be reached."""
        self._sides[name].there = False

    def heard(self, name: str, offer: Offer) -> None:
        """A neighbour tells what it can give; StreamError if nobody can have that."""
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
        """What is wrong with what is offered, as long as it is."""
        core, known = self._service.hub.core, self._service.known
        self._overtaken = {
            stream: (until, why)
            for stream, (until, why) in self._overtaken.items()
            if stream in known and not known[stream].hosted_here and core.relay(stream).reached <= until
        }
        faults = chain(self._complaints.values(), (why for _, why in self._overtaken.values()))
        return list(islice(faults, FAULTS_SHOWN))

    def comes_from(self, stream: str) -> str | None:
        """The neighbour that a stream comes from; None: it is hosted here, or not known."""
        known = self._service.known.get(stream)
        return None if known is None or known.hosted_here else known.upstream

    def goes_to(self, stream: str, name: str) -> bool:
        """Whether a neighbour gets a stream from here."""
        return (stream, name) in self._attached

    def _take(self, name: str, offered: Iterable[Offered]) -> None:
        """Follow what is new from there; all else is told once, however many streams there are."""
        self._service.learnt([one for one in offered if self._follow(name, one)], name)

    def _follow(self, name: str, one: Offered) -> bool:
        """Whether a stream comes from a neighbour that offers it."""
        service = self._service
        known = service.known.get(one.name)
        if known is None:
            if len(service.hub.core) >= limits.STREAM_OFFERS:
                self._full(name)
                return False
            service.hub.core.follow(one.name, name)
            service.hub.core.begin(one.name, one.at)
        elif known.hosted_here:
            self._complain(name, one, "it is published at this node")
            return False
        elif known.upstream != name:
            if one.name in self._sides[known.upstream].offers:
                self._complain(name, one, f"it comes from {known.upstream!r}")
                return False
            service.hub.core.move(one.name, name)
            self._attached.pop((one.name, name), None)
            log.info("stream %r comes from %r now, not from %r", one.name, name, known.upstream)
        if known is not None and known.host != one.host:
            self._moved(one, known.host)
        return True

    def _moved(self, one: Offered, before: str) -> None:
        """Another node publishes a stream: ticks go on, unless its clock is behind."""
        reached = self._service.hub.core.relay(one.name).reached
        behind_us = duration_us(reached - one.at)
        if one.at and behind_us > 0:
            why = (
                f"stream {one.name!r} is published at {one.host!r} now, which is "
                f"{behind_us / SECOND_US:.1f} s behind what came from {before!r}: its messages of that time "
                "are taken for old ones; take the log along, let it begin later, or give it another name"
            )
            self._overtaken[one.name] = (reached, why)
            log.error("%s", why)

    def _comes(self, name: str, one: Offered, before: Offered | None, *, fresh: bool) -> None:
        """A stream that comes from a neighbour is remembered, and asked for again if that was away."""
        service = self._service
        known = msgspec.structs.replace(one, at=0)
        if before is None or known != msgspec.structs.replace(before, at=0):
            service.state.put(TABLE, (name, one.name), msgspec.msgpack.encode(known))
        service.hub.core.begin(one.name, one.at)
        if fresh or before is None:
            service.hub.core.again(one.name, now_us=service.broker.clock())
            service.hub.changed(one.name)

    def _gone(self, name: str, stream: str) -> None:
        """A neighbour offers a stream no more; another may do so, and was not believed before."""
        self._complaints.pop((name, stream), None)
        if self.comes_from(stream) != name:
            return
        self._service.state.remove(TABLE, (name, stream))
        for other, side in self._sides.items():
            one = side.offers.get(stream)
            if one is not None:
                self._complaints.pop((other, stream), None)
                self._take(other, (one,))
                self._comes(other, one, None, fresh=True)
                return
        log.warning(
            "stream %r: %r offers it no more; what has come of it stays, and this node forgets it at its "
            "next start",
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
                f"{name!r} offers more streams than the {limits.STREAM_OFFERS} that a node knows; others are "
                "not taken, and those that are offered no more are forgotten at its next start"
            )
            self._complaints[name, ""] = text
            log.error("%s", text)

    def _settle(self) -> None:
        """Pass every stream on to those that want it from here, and tell them so."""
        for known in list(self._service.known.values()):
            for name, side in self._sides.items():
                self._attach(known, name, side)
        for name, side in self._sides.items():
            if side.there:
                offer = self._offer(name)
                if offer != side.told:
                    side.told = offer
                    self._say(name, Offer(tuple(map(self._dated, offer.streams))))

    def _attach(self, known: KnownStream, name: str, side: _Side) -> None:
        key = (known.name, name)
        core = self._service.hub.core
        if known.upstream == name or known.name in side.offers:
            if self._attached.pop(key, None) is not None:
                core.detach(known.name, name)
        elif self._attached.get(key) != side.wanted:
            core.attach(known.name, name, side.matches)
            self._attached[key] = side.wanted

    def _offer(self, name: str) -> Offer:
        """What a neighbour can have: all but what comes from there, and what its source gives no more."""
        found = [
            Offered(known.name, known.topics, known.host)
            for known in self._service.known.values()
            if known.hosted_here
            or (known.upstream != name and known.name in self._sides[known.upstream].offers)
        ]
        return Offer(tuple(sorted(found, key=lambda one: one.name)))

    def _dated(self, one: Offered) -> Offered:
        """With the place that it has reached."""
        hosted = self._service.hosted.get(one.name)
        core = self._service.hub.core
        at = core.relay(one.name).reached if hosted is None else hosted.end
        return msgspec.structs.replace(one, at=at)
