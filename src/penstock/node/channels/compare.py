"""Compares the body of a page with the stored version of the page.

Pages come from strangers, so this runs in a process of its own, which a node starts, limits and kills
(`reader.py`): `python -m penstock.node.channels.compare`. Requests come on standard input, a socket, as
MessagePack after their length, and are answered there one after the other. Nothing else may be imported here:
the process is as small as reading pages allows.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import traceback
import zlib
from contextlib import suppress
from math import ceil
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec

from penstock import limits
from penstock.core.channels.delta import Delta  # noqa: TC001  # msgspec reads the annotations
from penstock.core.channels.difference import (
    Content,
    FeedItem,
    Look,
    MutedPlace,
    Rules,
    Versions,
    VersionsState,
    read,
    shortened,
)
from penstock.core.channels.difference.content import library
from penstock.errors import ChannelError

try:
    import resource
except ImportError:  # not on Windows: there, only the time of an answer is bounded
    resource = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Sequence

log = logging.getLogger(__name__)

SOCKET: Final = 0
"""File descriptor by which the node and this process talk."""
HEAD_BYTES: Final = 4
"""Length of a message, in front of it."""


class PageBody(msgspec.Struct, frozen=True):
    """Body of a page as it was fetched or pushed."""

    data: bytes
    content_type: str
    partial: bool = False
    """Whether it holds only the new items of a feed; items that are missing still exist."""
    link: str | None = None
    """Link header of the answer; None: the body does not come from the page's own server."""


class CompareRequest(msgspec.Struct, frozen=True, array_like=True):
    """One body to be compared."""

    url: str
    rules: Rules
    now_us: int
    body: PageBody
    beside: PageBody | None = None
    """Fetched at the same time: what differs is noise."""
    stored: bytes | None = None
    """The version to compare with, as `squeezed` left it; None: none."""
    alone: bool = False
    """Whether there can be no second fetch."""


class Comparison(msgspec.Struct, frozen=True, array_like=True):
    """Result of comparing a body with the stored version."""

    rules: Rules
    """Rules by which the body was read."""
    content: Content
    """The page's statements about itself; without its lines and items."""
    state: bytes
    """The next version to compare with, squeezed."""
    version: int
    delta: Delta | None
    """The change as it is published; None: no change."""
    first: bool
    """Whether this is the first version, with which nothing could be compared."""
    again: bool = False
    """Whether the page should be fetched again and both bodies compared; nothing is to be stored."""
    unsettled: bool = False
    """Whether the next look only teaches, or a change waits to be told: the page is fetched in full then."""
    withheld: bool = False
    """Whether a change waits to be told."""
    muted: int = 0
    """Parts of the page that are not told because they keep changing."""


class CompareAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The reader process' answer to a request: a comparison, or one of three kinds of failure."""

    found: Comparison | None = None
    problem: str = ""
    """Why the body cannot be read, as a sentence for the watcher."""
    damage: str = ""
    """Why the stored version cannot be used."""
    bug: str = ""
    """Trace of an exception that nobody expected."""


def squeezed(value: object) -> bytes:
    """Pack and compress a value: text shrinks to a fourth or less, at 100 MB a second."""
    return zlib.compress(msgspec.msgpack.encode(value), level=1)


def compare(asked: CompareRequest) -> CompareAnswer:
    """Compare one body; never raises but for a lack of memory."""
    try:
        state = _stored(asked.stored)
    except (msgspec.DecodeError, zlib.error) as error:
        return CompareAnswer(damage=str(error))
    try:
        return CompareAnswer(_compared(asked, state))
    except ChannelError as error:
        return CompareAnswer(problem=str(error))
    except MemoryError:
        raise
    except Exception:  # a bug in reading one page must not end the reading of others
        return CompareAnswer(bug=traceback.format_exc(limit=-8))


def _stored(data: bytes | None) -> VersionsState | None:
    if data is None:
        return None
    return msgspec.msgpack.decode(zlib.decompress(data), type=VersionsState)


def _compared(asked: CompareRequest, state: VersionsState | None) -> Comparison:
    def content_of(found: PageBody) -> Content:
        return read(found.data, content_type=found.content_type, url=asked.url, rules=asked.rules)

    content = content_of(asked.body)
    if asked.body.partial and state is not None:
        content = _completed(content, state)
    versions = Versions(asked.url, asked.rules, state=state)
    beside = None
    if asked.beside is not None:
        try:
            beside = content_of(asked.beside)
        except ChannelError as error:
            log.debug("%s: a second fetch cannot be read: %s", asked.url, error)
    first = versions.version == 0
    if asked.body.link is None:  # pushed: there is nothing to fetch again
        look = Look(versions.receive(content, now_us=asked.now_us))
    else:
        look = versions.look(content, now_us=asked.now_us, beside=beside, alone=asked.alone)
    return Comparison(
        asked.rules,
        msgspec.structs.replace(content, lines=(), places=(), linked=(), items=()),
        squeezed(versions.state()),
        versions.version,
        None if first or look.delta is None else shortened(look.delta),
        first,
        look.again,
        versions.teaching or look.withheld or look.unproven,
        look.withheld,
        len(versions.muted(now_us=asked.now_us)),
    )


def muted(stored: bytes | None, rules: Rules, *, url: str, now_us: int) -> list[MutedPlace]:
    """List the places of a stored version whose changes are not told because they keep changing."""
    return Versions(url, rules, state=_stored(stored)).muted(now_us=now_us)


def lines_of(stored: bytes | None) -> list[tuple[str, str]]:
    """The lines of a stored version, each with its place."""
    state = _stored(stored)
    if state is None:
        return []
    names = state.place_names
    places = (names[each] if each < len(names) else "" for each in state.places)
    return list(zip(state.lines, places, strict=False))


def unmuted(stored: bytes | None, rules: Rules, place: str, *, url: str) -> bytes:
    """The version after a person asked to hear of a place; ChannelError if there is no such place."""
    versions = Versions(url, rules, state=_stored(stored))
    versions.unmute(place)
    return squeezed(versions.state())


def restored(
    stored: bytes | None, rules: Rules, version: int, deltas: Sequence[Delta], *, url: str, now_us: int
) -> tuple[bytes, Delta]:
    """The version after a person restored an older one, and its delta; ChannelError if that fails."""
    versions = Versions(url, rules, state=_stored(stored))
    if not versions.version:
        raise ChannelError(f"{url} has not been read by its present rules yet, so no version can be restored")
    delta = versions.restore(version, deltas, now_us=now_us)
    return squeezed(versions.state()), shortened(delta)


def _completed(content: Content, state: VersionsState) -> Content:
    """Append the known items of a feed to its new items, as if the whole feed had been fetched."""
    come = {item.id for item in content.items}
    rest = [
        FeedItem(mark.id, mark.title, mark.link, tuple(mark.lines(state.lines)), mark.published_us)
        for mark in state.marks
        if mark.id not in come
    ]
    items = (*content.items, *rest)[: limits.PARTIAL_ITEMS]
    lines = tuple(line for item in items for line in item.lines)
    return msgspec.structs.replace(content, items=items, lines=lines, places=("item",) * len(lines))


# -- the process -------------------------------------------------------------------------------------------


def main() -> NoReturn:
    """Answer requests until the node closes the socket, or one needs more memory than is allowed.

    The argument is the computing time for one request, in seconds.
    """
    cpu_s = int(sys.argv[1])
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # they are for the node, which closes the socket
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    sys.dont_write_bytecode = True
    library("lxml.etree"), library("rapidfuzz.distance")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # lxml writes much when memory is short; answers say enough
    if resource is not None:
        _limit_memory()
    decode = msgspec.msgpack.Decoder(CompareRequest).decode
    while True:
        _limit_time(cpu_s)
        try:
            answer = compare(decode(_received()))
        except MemoryError:
            _send(
                CompareAnswer(problem=f"reading it takes more than {limits.READER_BYTES >> 20} MB of memory")
            )
            sys.exit(0)  # the next process begins with a memory that is not in pieces
        _send(answer)


def _limit_memory() -> None:
    with suppress(OSError):  # not on macOS, which has neither this file nor the limit
        with open("/proc/self/statm") as file:  # noqa: PTH123  # pathlib would be one more import
            pages = int(file.read().split()[0])
        most = pages * resource.getpagesize() + limits.READER_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for limit in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
        resource.setrlimit(limit, (0, 0))


def _limit_time(cpu_s: int) -> None:
    """The kernel ends the process when the next request takes longer; it counts whole seconds."""
    if resource is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (ceil(time.process_time()) + cpu_s, hard))


def _received() -> bytearray:
    size = int.from_bytes(_read(HEAD_BYTES))
    return _read(size)


def _read(size: int) -> bytearray:
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        got = os.readv(SOCKET, [rest])
        if not got:
            sys.exit(0)  # the node has ended, or needs no pages for now
        rest = rest[got:]
    return data


def _send(answer: CompareAnswer) -> None:
    data = msgspec.msgpack.encode(answer)
    for rest in (memoryview(len(data).to_bytes(HEAD_BYTES)), memoryview(data)):
        while rest:
            rest = rest[os.write(SOCKET, rest) :]  # noqa: PLW2901


if __name__ == "__main__":
    main()
