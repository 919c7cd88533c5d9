"""The links to all neighbours: who is called, who calls, what is done when a link comes or goes."""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import TYPE_CHECKING

from penstock import limits
from penstock.client.backoff import pauses_s
from penstock.core.streams import meeting
from penstock.core.streams.meeting import VERSION, Alive, Hello, Offer, Welcome
from penstock.errors import StreamError
from penstock.node.background import Background
from penstock.node.streams.checks import has_users
from penstock.node.streams.link import Link
from penstock.node.streams.links_call import call
from penstock.node.streams.links_filter import filter_of
from penstock.node.streams.links_state import LinkState
from penstock.node.streams.offers import Offers, Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.streams.meeting import Said
    from penstock.node.config import Config
    from penstock.node.streams.service import StreamService
    from penstock.node.streams.status import NeighbourRow


class Links:
    """Made before the streams' door opens; `start` begins to call."""

    def __init__(self, service: StreamService, config: Config) -> None:
        self._service = service
        self._settings = config.streams
        self._connect_s = config.bounds.connect_s
        self._guarded = has_users(config)
        self._background = Background()
        self._known = {
            one.name: LinkState(Link(one), clock=service.broker.clock) for one in config.streams.neighbours
        }
        self._offers = Offers(service, self._known, say=lambda name, offer: self._known[name].link.say(offer))
        self._dice = Random()  # noqa: S311  # pauses, no secrets

    def start(self) -> None:
        """Hold the streams for all neighbours, and call those whose place is known."""
        self._offers.start()
        self._background.begin(self._watch(), "dead links are not noticed")
        for known in self._known.values():
            if known.link.neighbour.host:
                self._background.begin(self._call(known), f"{known.name} is not called")

    async def close(self) -> None:
        """End all links that were called from here; the door ends the others."""
        await self._background.close()

    def reconfigure(self, config: Config) -> None:
        """Take other rates, switches and users; what else has changed waits for the next start."""
        self._connect_s = config.bounds.connect_s
        self._guarded = has_users(config)
        for wanted in config.streams.neighbours:
            known = self._known.get(wanted.name)
            if known is None:
                continue
            link = known.link
            link.change(bytes_per_s=wanted.bytes_per_s, enabled=wanted.enabled, user=wanted.user)
            if not wanted.enabled and known.state != "off":
                link.end("it was switched off")
                known.enter("off", "switched off in the configuration")
            elif wanted.enabled and known.state == "off":
                known.enter("down")
            known.changed.set()

    def figures(self) -> list[NeighbourRow]:
        """All neighbours at this moment."""
        return [known.row() for _, known in sorted(self._known.items())]

    def faults(self) -> list[str]:
        """What is wrong with the streams that they offer."""
        return self._offers.faults()

    # -- meeting ---------------------------------------------------------------------------------------------

    def refusal(self, hello: Hello, user: str) -> str:
        """Why a caller cannot be met, fit to be told to it; empty: it can."""
        known = self._known.get(hello.name)
        if hello.name == self._settings.node:
            return f"{hello.name!r} is this node's own name"
        if known is None:
            return f"{self._settings.node!r} has no neighbour {hello.name!r}; see its streams.neighbours"
        neighbour = known.link.neighbour
        if not neighbour.enabled:
            return f"the link to {hello.name!r} is switched off at {self._settings.node!r}"
        if self._guarded and not neighbour.user:
            return f"{hello.name!r} must come as a user who is named for it in streams.neighbours"
        if (self._guarded or not neighbour.host) and neighbour.user and neighbour.user != user:
            return f"{hello.name!r} must come as user {neighbour.user!r}"
        if known.link.up:
            if time.monotonic() - known.link.heard_s < 2 * limits.STREAM_ALIVE_S:
                return f"{hello.name!r} is connected already; no two nodes have the same name"
            known.link.end("it calls anew")
            return "the connection before this one was dead and has been given up; call again"
        if neighbour.host and self._settings.node < hello.name:
            return f"{self._settings.node!r} calls {hello.name!r} itself; one of the two is enough"
        return ""

    async def called(
        self,
        name: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        wanted: Wanted,
        *,
        address: str,
    ) -> None:
        """A neighbour that is not refused has called: serve it until it goes; StreamError, and it is not."""
        neighbour = self._known[name].link.neighbour
        welcome = Welcome(VERSION, self._settings.node, neighbour.only, neighbour.where)
        await self._met(name, reader, writer, wanted, address=address, first=meeting.encode(welcome))

    async def _met(
        self,
        name: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        wanted: Wanted,
        *,
        address: str,
        first: bytes = b"",
    ) -> str:
        """Serve the connection to a neighbour until it ends; why it did. StreamError: its filter is wrong."""
        known = self._known[name]
        link, hub = known.link, self._service.hub
        matches = filter_of(wanted.only, wanted.where, clock=self._service.broker.clock)
        known.address = address
        link.open(writer)
        try:
            writer.write(first)
            known.enter("up")
            self._offers.met(name, wanted, matches)
            hub.links[name] = link.send
            why = await link.run(reader, heard=lambda said: self._heard(name, said))
        finally:
            hub.links.pop(name, None)
            self._offers.parted(name)
            link.close()
        if known.state == "up":
            known.enter("down", why)
        return why

    def _heard(self, name: str, said: Said) -> None:
        match said:
            case Offer():
                self._offers.heard(name, said)
            case Alive():
                pass
            case _:
                offers = self._offers
                if offers.comes_from(said.pubend) == name or offers.goes_to(said.pubend, name):
                    self._service.hub.receive(said, peer=name)
                else:
                    self._known[name].link.ignored += 1

    # -- calling ---------------------------------------------------------------------------------------------

    async def _call(self, known: LinkState) -> None:
        """Call a neighbour, again and again; less often one whose links do not last."""
        pauses = self._pauses()
        pause_s = 0.0
        link = known.link
        while True:
            known.changed.clear()
            if not link.neighbour.enabled or link.up:
                await self._pause(known, limits.STREAM_CALL_MOST_S)
                continue
            before, began_s = known.connections, time.monotonic()
            why = await self._call_once(known)
            if known.state == "down":
                known.enter("down", why)
            if known.connections > before and time.monotonic() - began_s > pause_s:
                pauses = self._pauses()
            pause_s = next(pauses)
            await self._pause(known, pause_s)

    def _pauses(self) -> Iterator[float]:
        return pauses_s(self._dice, least_s=limits.STREAM_CALL_LEAST_S, most_s=limits.STREAM_CALL_MOST_S)

    async def _pause(self, known: LinkState, most_s: float) -> None:
        try:
            async with asyncio.timeout(most_s):
                await known.changed.wait()
        except TimeoutError:
            pass

    async def _call_once(self, known: LinkState) -> str:
        neighbour = known.link.neighbour
        hello = Hello(
            VERSION,
            "node",
            self._settings.node,
            neighbour.user,
            neighbour.password,
            neighbour.only,
            neighbour.where,
        )
        try:
            reader, writer, welcome = await call(
                neighbour, hello, within_s=self._connect_s, door=self._settings.listen
            )
        except StreamError as error:
            return str(error)
        try:
            if known.link.up or not known.link.neighbour.enabled:  # it has called, or was switched off
                return ""
            wanted = Wanted(welcome.only, welcome.where)
            return await self._met(neighbour.name, reader, writer, wanted, address=known.address)
        except StreamError as error:
            return str(error)
        finally:
            writer.transport.abort()

    # -- watching --------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Say that links are alive, and end those on which nothing is heard."""
        while True:
            await asyncio.sleep(limits.STREAM_ALIVE_S / 3)
            now_s = time.monotonic()
            for known in self._known.values():
                link = known.link
                if not link.up:
                    continue
                if now_s - link.heard_s > limits.STREAM_DEAD_S:
                    link.end(f"nothing was heard of it for {limits.STREAM_DEAD_S:g} s")
                elif now_s - link.wrote_s > limits.STREAM_ALIVE_S:
                    link.say(Alive())
