"""The links to all neighbours: calls them, takes their calls, and connects their links to the core.

`call` opens a connection to a neighbour's listener (TCP or TLS), sends the greeting and reads the answer.
`filter_of` compiles what a neighbour wants over its link: topic filters and a content filter.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from random import Random
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.backoff import pauses_s
from penstock.core.streams import handshake, wire
from penstock.core.streams.handshake import VERSION, Alive, Hello, Offer, Welcome
from penstock.errors import MqttError, PolicyError, StreamError, printable
from penstock.mqtt.topics import check_filter, matches
from penstock.node.broker.background import Background
from penstock.node.config.stream_checks import has_users
from penstock.node.streams.log.records import event_from
from penstock.node.streams.tree.link import Link, LinkState
from penstock.node.streams.tree.offers import NeighbourWants, Offers
from penstock.policy.content import ContentFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.core.streams.handshake import LinkFrame, Sorry
    from penstock.core.streams.messages import Matches
    from penstock.node.config.schema import Config
    from penstock.node.config.streams import Neighbour, StreamListen
    from penstock.node.streams.service import StreamService
    from penstock.node.streams.status import NeighbourRow


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """A greeting, or the answer to one, without its head; StreamError if it is too large or not whole."""
    try:
        return await _frame(reader)
    except asyncio.IncompleteReadError:
        raise StreamError("the connection was closed before everything was said") from None


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(wire.HEAD_BYTES)
    return await reader.readexactly(wire.frame_size(head, most=limits.STREAM_HELLO_BYTES))


async def call(
    neighbour: Neighbour, hello: Hello, *, within_s: float, door: StreamListen
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Welcome]:
    """A connection to a neighbour that has welcomed this node; StreamError says why there is none."""
    place = f"{neighbour.host}:{neighbour.port}"
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(
                neighbour.host, neighbour.port, ssl=_context(neighbour, door)
            )
            writer.write(handshake.encode(hello))
            answer = handshake.decode_answer(await _frame(reader))
        welcome = _checked(answer, neighbour, place)
    except TimeoutError:
        problem = f"{place} does not answer within {within_s:g} s"
    except ssl.SSLCertVerificationError as error:
        problem = f"the certificate of {place} is not accepted: {error.verify_message}"
    except ssl.SSLError as error:
        problem = (
            f"no TLS with {place}: {error.reason or error}; if its door has no certificate, leave out ca"
        )
    except OSError as error:
        problem = f"{place} cannot be reached: {os.strerror(error.errno) if error.errno else error}"
    except StreamError as error:
        problem = str(error)
    except asyncio.IncompleteReadError:
        hint = "" if neighbour.ca else "; if its door has a certificate, this neighbour needs ca"
        problem = f"{place} closes the connection without an answer{hint}"
    else:
        return reader, writer, welcome
    if writer is not None:
        writer.transport.abort()
    raise StreamError(problem)


def _checked(answer: Welcome | Sorry, neighbour: Neighbour, place: str) -> Welcome:
    if isinstance(answer, handshake.Sorry):
        raise StreamError(f"{place} refuses: {printable(answer.reason)}")
    if answer.name != neighbour.name:
        raise StreamError(f"at {place} is node {answer.name!r}, not {neighbour.name!r}")
    return answer


def _context(neighbour: Neighbour, door: StreamListen) -> ssl.SSLContext | None:
    """Of a link with authorities; the certificate of this node's own door is shown where one is asked for."""
    if not neighbour.ca:
        return None
    try:
        made = ssl.create_default_context(cafile=neighbour.ca)
    except (OSError, ValueError) as error:
        raise StreamError(f"ca {neighbour.ca} cannot be used: {error}") from None
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if door.certificate:
        try:
            made.load_cert_chain(door.certificate, door.key or None)
        except (OSError, ValueError) as error:
            raise StreamError(f"certificate {door.certificate} cannot be used: {error}") from None
    return made


def filter_of(only: tuple[str, ...], where: str, *, clock: Callable[[], int]) -> Matches | None:
    """A filter of messages by their bodies; None: everything. StreamError says what is wrong with it."""
    if not only and not where:
        return None
    try:
        for filter_ in only:
            check_filter(filter_, where="only")
        content = ContentFilter(where) if where else None
    except (MqttError, PolicyError) as error:
        raise StreamError(f"its filter cannot be used: {error}") from None

    def wanted(body: bytes) -> bool:
        try:
            one = wire.decode_record(body)
            if only and not any(matches(filter_, one.topic) for filter_ in only):
                return False
            return content is None or content.wants(event_from(one), now_us=clock())
        except (StreamError, MqttError):  # who can read it may judge it
            return True

    return wanted


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
        wanted: NeighbourWants,
        *,
        address: str,
    ) -> None:
        """A neighbour that is not refused has called: serve it until it goes; StreamError, and it is not."""
        neighbour = self._known[name].link.neighbour
        welcome = Welcome(VERSION, self._settings.node, neighbour.only, neighbour.where)
        await self._met(name, reader, writer, wanted, address=address, first=handshake.encode(welcome))

    async def _met(
        self,
        name: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        wanted: NeighbourWants,
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

    def _heard(self, name: str, said: LinkFrame) -> None:
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
            wanted = NeighbourWants(welcome.only, welcome.where)
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
