"""Connections to the port of the cluster that never became a node: a wrong secret, or no node at all.

Zenoh refuses them and tells nobody. What can be known from outside: it tells which connections it has let in,
and Linux remembers for a minute the connections that this end has closed. One that was closed and not let in
was refused, or has ended before it had said who it was. On other systems nothing is known.
"""

from __future__ import annotations

import asyncio
import logging
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock import limits
from penstock.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger(__name__)

LOOK_S: Final = 5.0
"""How often closed connections are looked at; Linux forgets them after 60 s."""

TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))

CLOSED: Final = b"06"
"""State of a connection that this end has closed (TIME_WAIT)."""

NAMED_MOST: Final = 10
"""Addresses that are named in the log after one look."""

PROOF_LOOKS: Final = 12
"""Within so many looks an address has to come again: a node tries every few seconds."""

AGAIN_LOOKS: Final = 60
"""An address is named in the log again after so many looks: a node with a wrong secret tries on for days."""


class Refusals:
    """Watches the port of the cluster for connections that are closed before they are a node's."""

    def __init__(self, port: int, *, tables: tuple[Path, ...] = TABLES) -> None:
        self._port = port
        self._tables = tables
        self._admitted: dict[str, None] = {}
        """The other ends of connections that were let in, the latest at the end."""
        self._counted: dict[str, None] = {}
        """The other ends of connections that were counted already."""
        self._seen: dict[str, tuple[int, int, int]] = {}
        """Of each address the look at which it last came, connections not counted yet, and the look at which
        it was last named in the log."""
        self._looks = 0
        self.refused = 0
        """Connections that never became a node."""

    def admitted(self, event: Any) -> None:
        """Zenoh has let a connection in, or has ended one; called by a thread of Zenoh."""
        place = str(event.link.dst).rpartition("/")[2].partition("?")[0]
        _remember(self._admitted, place)

    async def watch(self) -> None:
        """Look again and again."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look(await asyncio.to_thread(lambda: list(self._closed())))

    def _closed(self) -> Iterator[str]:
        """The other ends of connections to the port that this end has closed, as far as the system tells."""
        for table in self._tables:
            try:
                lines = table.read_bytes().splitlines()[1:]
            except OSError:
                continue
            mark = b":%04X" % self._port
            for line in lines:
                parts = line.split(None, 4)
                if len(parts) > 3 and parts[1].endswith(mark) and parts[3] == CLOSED:
                    yield _place(parts[2].decode("ascii", "replace"))

    def look(self, closed: list[str]) -> None:
        """Count closed connections that were not let in, and name their addresses in the log.

        One look is no proof: two nodes that connect to each other at the same time close one connection. A
        node that is refused comes again every few seconds.
        """
        self._looks += 1
        news: dict[str, int] = {}
        for place in closed:
            if place and place not in self._admitted and place not in self._counted:
                _remember(self._counted, place)
                host = place.rpartition(":")[0]
                news[host] = news.get(host, 0) + 1
        due = [host for host, count in news.items() if self._proven(host, count)]
        for host in due[:NAMED_MOST]:
            log.warning(
                "cluster: connections from %s do not become a node: its password or certificates differ, or "
                "it is no node of Penstock",
                printable(host),
            )
        if len(due) > NAMED_MOST:
            log.warning("cluster: nor do those from %d other addresses", len(due) - NAMED_MOST)

    def _proven(self, host: str, count: int) -> bool:
        """Count connections of an address that has come before; whether it is to be named in the log."""
        last, before, named = self._seen.get(host, (-PROOF_LOOKS, 0, -AGAIN_LOOKS))
        if self._looks - last >= PROOF_LOOKS:
            _remember(self._seen, host, (self._looks, count, named))
            return False
        self.refused += before + count
        again = self._looks - named >= AGAIN_LOOKS
        _remember(self._seen, host, (self._looks, 0, self._looks if again else named))
        return again


def _remember(into: dict[str, Any], key: str, value: Any = None) -> None:
    into.pop(key, None)
    into[key] = value
    if len(into) > limits.CLUSTER_CONNECTIONS:
        del into[next(iter(into))]


def _place(text: str) -> str:
    """An address and port as Linux writes them, 0100007F:8433, as Zenoh does; empty if it is neither."""
    host, _, port = text.partition(":")
    try:
        words = bytes.fromhex(host)
        number = int(port, 16)
        # Each word of four bytes is in the order of the machine; those we run on have the lowest byte first.
        address = ip_address(b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4)))
    except ValueError:
        return ""
    mapped = getattr(address, "ipv4_mapped", None)
    shown = mapped or address
    return f"[{shown}]:{number}" if shown.version == 6 else f"{shown}:{number}"
