"""The links to all neighbours: connects to them, accepts their connections, and joins the links to the core.

`call` opens a connection to a neighbour's listener (TCP or TLS), sends the greeting and reads the answer.
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
from penstock.errors import StreamError, printable
from penstock.node.broker.background import Background
from penstock.node.config.stream_checks import has_users
from penstock.node.streams.tree.link import Link, LinkState
from penstock.node.streams.tree.offers import NeighbourWants, Offers, filter_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.streams.handshake import LinkFrame, Sorry
    from penstock.node.config.schema import Config
    from penstock.node.config.streams import Neighbour, StreamListen
    from penstock.node.streams.status import NeighbourRow
    from penstock.node.streams.tree.directory import StreamContext


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Read the body of a greeting or of its answer; StreamError if it is too large or incomplete."""
    try:
        return await _frame(reader)
    except asyncio.IncompleteReadError:
        raise StreamError("the connection was closed in the middle of the greeting") from None


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(wire.HEAD_BYTES)
    return await reader.readexactly(wire.frame_size(head, most=limits.STREAM_HELLO_BYTES))


async def call(
    neighbour: Neighbour, hello: Hello, *, within_s: float, listen: StreamListen
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Welcome]:
    """Connect to a neighbour and exchange greetings; StreamError says why that failed.

    `listen` are the settings of this node's own listener, whose certificate is shown to the neighbour.
    """
    place = f"{neighbour.host}:{neighbour.port}"
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(
                neighbour.host, neighbour.port, ssl=_context(neighbour, listen)
            )
            writer.write(handshake.encode(hello))
            answer = handshake.decode_answer(await _frame(reader))
        welcome = _checked(answer, neighbour, place)
    except TimeoutError:
        problem = f"{place}: no answer within {within_s:g} s"
    except ssl.SSLCertVerificationError as error:
        problem = f"certificate of {place} not accepted: {error.verify_message}"
    except ssl.SSLError as error:
        problem = (
            f"TLS with {place} failed: {error.reason or error}; if its streams.listen has no certificate, "
            "leave out ca"
        )
    except OSError as error:
        problem = f"{place} cannot be reached: {os.strerror(error.errno) if error.errno else error}"
    except StreamError as error:
        problem = str(error)
    except asyncio.IncompleteReadError:
        hint = "" if neighbour.ca else "; if its streams.listen has a certificate, this neighbour needs ca"
        problem = f"{place} closed the connection without an answer{hint}"
    except asyncio.CancelledError:  # the node is being stopped
        if writer is not None:
            writer.transport.abort()
        raise
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


def _context(neighbour: Neighbour, listen: StreamListen) -> ssl.SSLContext | None:
    """TLS settings of a link with `ca`, with this node's own certificate if its listener has one."""
    if not neighbour.ca:
        return None
    try:
        made = ssl.create_default_context(cafile=neighbour.ca)
    except (OSError, ValueError) as error:
        raise StreamError(f"ca {neighbour.ca} cannot be used: {error}") from None
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if listen.certificate:
        try:
            made.load_cert_chain(listen.certificate, listen.key or None)
        except (OSError, ValueError) as error:
            raise StreamError(f"certificate {listen.certificate} cannot be used: {error}") from None
    return made


class Links:
    """The links of a node; created before the listener opens, `start` begins to connect to neighbours."""

    def __init__(self, context: StreamContext, config: Config) -> None:
        self._driver = context.driver
        self._clock = context.clock
        self._settings = config.streams
        self._connect_s = config.bounds.connect_s
        self._guarded = has_users(config)
        self._background = Background()
        self._known = {
            one.name: LinkState(Link(one), clock=context.clock) for one in config.streams.neighbours
        }
        self._offers = Offers(
            context, self._known, send=lambda name, offer: self._known[name].link.send_first(offer)
        )
        self._random = Random()  # noqa: S311  # pauses, no secrets

    def start(self) -> None:
        """Hold the streams for all neighbours, and connect to those whose address is configured."""
        self._offers.start()
        self._background.begin(self._watch(), "dead links are not noticed")
        for known in self._known.values():
            if known.link.neighbour.host:
                self._background.begin(self._call(known), f"{known.name} is not called")

    async def close(self) -> None:
        """End the links that this node has opened; the listener ends the others."""
        await self._background.close()

    def reconfigure(self, config: Config) -> None:
        """Apply changed rates, switches and users; other changes need a restart of the node."""
        self._connect_s = config.bounds.connect_s
        self._guarded = has_users(config)
        for wanted in config.streams.neighbours:
            known = self._known.get(wanted.name)
            if known is None:
                continue
            link = known.link
            link.change(bytes_per_s=wanted.bytes_per_s, enabled=wanted.enabled, user=wanted.user)
            if not wanted.enabled and known.state != "off":
                link.end("switched off in the configuration")
                known.enter("off", "switched off in the configuration")
            elif wanted.enabled and known.state == "off":
                known.enter("down")
            known.changed.set()

    def figures(self) -> list[NeighbourRow]:
        """The status of all neighbours."""
        return [known.row() for _, known in sorted(self._known.items())]

    def faults(self) -> list[str]:
        """Faults of the streams that neighbours offer."""
        return self._offers.faults()

    # -- a neighbour is connected ----------------------------------------------------------------------------

    def refusal(self, hello: Hello, user: str) -> str:
        """Why a node that has connected is refused, as it is told; empty if it is accepted."""
        known = self._known.get(hello.name)
        if hello.name == self._settings.node:
            return f"{hello.name!r} is the name of this node itself"
        if known is None:
            return f"{self._settings.node!r} has no neighbour {hello.name!r}; see its streams.neighbours"
        neighbour = known.link.neighbour
        if not neighbour.enabled:
            return f"the link to {hello.name!r} is switched off at {self._settings.node!r}"
        if self._guarded and not neighbour.user:
            return f"{hello.name!r} must log in as the user named for it in streams.neighbours"
        if (self._guarded or not neighbour.host) and neighbour.user and neighbour.user != user:
            return f"{hello.name!r} must log in as user {neighbour.user!r}"
        if known.link.up:
            if time.monotonic() - known.link.heard_s < 2 * limits.STREAM_ALIVE_S:
                return f"{hello.name!r} is connected already; every node needs a name of its own"
            known.link.end("replaced by a new connection")
            return "the previous connection was dead and has been closed; connect again"
        if neighbour.host and self._settings.node < hello.name:
            return f"{self._settings.node!r} connects to {hello.name!r} itself; one connection is enough"
        return ""

    async def accept(
        self, hello: Hello, user: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve a neighbour that has connected, until its connection ends; StreamError if it is refused."""
        problem = self.refusal(hello, user)
        if problem:
            raise StreamError(problem)
        host, port = writer.get_extra_info("peername")[:2]
        wanted = NeighbourWants(hello.only, hello.where)
        neighbour = self._known[hello.name].link.neighbour
        welcome = handshake.encode(Welcome(VERSION, self._settings.node, neighbour.only, neighbour.where))
        await self._serve(hello.name, reader, writer, wanted, address=f"{host}:{port}", first=welcome)

    async def _serve(
        self,
        name: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        wanted: NeighbourWants,
        *,
        address: str,
        first: bytes = b"",
    ) -> str:
        """Serve the connection to a neighbour; returns why it ended. StreamError if its filters are wrong."""
        known = self._known[name]
        link, driver = known.link, self._driver
        matches = filter_of(wanted.only, wanted.where, clock=self._clock)
        known.address = address
        link.open(writer)
        try:
            writer.write(first)
            known.enter("up")
            self._offers.connected(name, wanted, matches)
            driver.links[name] = link.send
            why = await link.run(reader, received=lambda frame: self._received(name, frame))
        finally:
            driver.links.pop(name, None)
            self._offers.disconnected(name)
            link.close()
        if known.state == "up":
            known.enter("down", why)
        return why

    def _received(self, name: str, frame: LinkFrame) -> None:
        match frame:
            case Offer():
                self._offers.received(name, frame)
            case Alive():
                pass
            case _:
                offers = self._offers
                if offers.comes_from(frame.pubend) == name or offers.goes_to(frame.pubend, name):
                    self._driver.receive(frame, peer=name)
                else:
                    self._known[name].link.ignored += 1

    # -- connecting ------------------------------------------------------------------------------------------

    async def _call(self, known: LinkState) -> None:
        """Connect to a neighbour whenever there is no link; pauses grow while links do not last."""
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
        return pauses_s(self._random, least_s=limits.STREAM_CALL_LEAST_S, most_s=limits.STREAM_CALL_MOST_S)

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
                neighbour, hello, within_s=self._connect_s, listen=self._settings.listen
            )
        except StreamError as error:
            return str(error)
        try:
            # The neighbour has connected meanwhile, or was switched off.
            if known.link.up or not known.link.neighbour.enabled:
                return ""
            wanted = NeighbourWants(welcome.only, welcome.where)
            return await self._serve(neighbour.name, reader, writer, wanted, address=known.address)
        except StreamError as error:
            return str(error)
        finally:
            writer.transport.abort()

    # -- watching --------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Send `Alive` on links that are silent, and end links on which nothing was received for too long."""
        while True:
            await asyncio.sleep(limits.STREAM_ALIVE_S / 3)
            now_s = time.monotonic()
            for known in self._known.values():
                link = known.link
                if not link.up:
                    continue
                if now_s - link.heard_s > limits.STREAM_DEAD_S:
                    link.end(f"nothing received for {limits.STREAM_DEAD_S:g} s")
                elif now_s - link.wrote_s > limits.STREAM_ALIVE_S:
                    link.send_first(Alive())
