"""The nodes that a client may connect to: those of its list, and those that a node has named.

    mqtt://a:1883,b:1884,c        penstock://a,b        mqtts://a,mqtts://b:8884        ws://a:8080/mqtt,b:8080

A client keeps to the node that has answered. If that one is down or refuses, it tries the others in the order
of the list. A node may name others (*server reference* of MQTT 5): these are tried first, a bounded number of
times, none twice in a row, and never without TLS by a client that came with TLS.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.client.transport import read_address
from penstock.errors import ClientError, ConnectRefused, InputError, Unreachable, printable
from penstock.mqtt.codes import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.client.transport import Address

log = logging.getLogger(__name__)

FINAL: Final = frozenset(
    {
        Reason.UNSUPPORTED_VERSION,
        Reason.CLIENT_ID_NOT_VALID,
        Reason.BAD_USER_NAME_OR_PASSWORD,
        Reason.NOT_AUTHORIZED,
        Reason.BANNED,
        Reason.BAD_AUTHENTICATION_METHOD,
        Reason.SERVER_MOVED,
        Reason.SESSION_TAKEN_OVER,
    }
)
"""Reason codes after which connecting again to the same node would fail in the same way."""

ELSEWHERE: Final = frozenset({Reason.USE_ANOTHER_SERVER, Reason.SERVER_MOVED})
"""Reason codes that send a client to another node."""


def read_addresses(url: str) -> tuple[Address, ...]:
    """Read a list of addresses; raises InputError that says what is wrong with it.

    An address without a scheme has that of the one before it.
    """
    parts = [part.strip() for part in url.split(",")]
    if not all(parts):
        raise InputError(f"'{url}': there is nothing before, after or between two commas")
    if len(parts) > limits.CLIENT_NODES:
        raise InputError(f"a list of {len(parts)} addresses; at most {limits.CLIENT_NODES} are allowed")
    found: dict[Address, None] = {}
    scheme = ""
    for part in parts:
        head, is_url, _ = part.partition("://")
        scheme = head if is_url else scheme
        found[read_address(part if is_url or not scheme else f"{scheme}://{part}")] = None
    if len({address.secure for address in found}) > 1:
        raise InputError(
            f"'{url}': some addresses are with TLS and some without; a list has TLS everywhere or nowhere"
        )
    return tuple(found)


def read_references(text: str, *, of: Address) -> list[Address]:
    """Read the server reference of a node; what is no address, or less secure than `of`, is left out.

    A reference without a scheme is of the kind of connection over which it came.
    """
    found = []
    for part in text.split()[: limits.CLIENT_REFERENCES]:
        place = f"[{part}]" if part.count(":") > 1 and part[0] != "[" and "://" not in part else part
        try:
            address = read_address(place if "://" in place else f"{of.scheme}://{place}{of.path}")
        except InputError as error:
            log.warning("%s names another server that is no address: %s", of, printable(str(error)))
            continue
        if of.secure and not address.secure:
            log.warning("%s names %s, which is without TLS: not followed", of, address)
            continue
        found.append(address)
    return found


class Nodes:
    """The nodes of one client, in the order in which they are tried."""

    def __init__(self, given: Sequence[Address]) -> None:
        self._given = tuple(given)
        self._named: dict[Address, None] = {}
        """Nodes outside the list that have let this client in, the last one at the end."""
        self.present = self._given[0]
        """The node that has answered last."""

    def __len__(self) -> int:
        return len(self._given)

    def answered(self, address: Address) -> None:
        """Keep to a node that has let the client in."""
        self.present = address
        if address not in self._given:
            self._named.pop(address, None)
            self._named[address] = None
            if len(self._named) > limits.CLIENT_REFERENCES:
                del self._named[next(iter(self._named))]

    def attempt(self, references: str = "") -> Attempt:
        """Begin to look for a node; `references` are what the present one has named at the end."""
        return Attempt([self.present, *self._given, *reversed(self._named)], self.present, references)


class Attempt:
    """One way through all nodes, until one of them lets the client in; each is tried once."""

    def __init__(self, nodes: Sequence[Address], present: Address, references: str) -> None:
        self._due = deque(nodes)
        self._tried: set[Address] = set()
        self._hops = 0
        self.errors: list[ClientError] = []
        if references:
            # The one that sends its clients away comes last: it may be the only one in the end.
            self._due = deque(one for one in nodes if one != present)
            self._due.append(present)
            self._refer(references, present)

    def __iter__(self) -> Iterator[Address]:
        while self._due:
            address = self._due.popleft()
            if address not in self._tried:
                self._tried.add(address)
                yield address

    def failed(self, address: Address, error: ClientError) -> None:
        """Note that a node cannot be reached or refuses; those that it names come next."""
        self.errors.append(error)
        if isinstance(error, ConnectRefused) and error.reason in ELSEWHERE and error.elsewhere:
            self._refer(error.elsewhere, address)

    def _refer(self, references: str, by: Address) -> None:
        if self._hops >= limits.CLIENT_HOPS:
            log.warning("%s names another server, the %dth in a row: not followed", by, self._hops + 1)
            return
        self._hops += 1
        self._due.extendleft(reversed(read_references(references, of=by)))

    def error(self) -> ClientError:
        """All nodes have been tried: one error for all; it is final only if each of them is."""
        errors = self.errors
        if len(errors) == 1:
            return errors[0]
        lasting = (one for one in errors if not (isinstance(one, ConnectRefused) and one.reason in FINAL))
        kind = next(lasting, errors[0])
        text = f"none of {len(errors)} nodes lets this client in: " + "; ".join(map(str, errors))
        return (
            ConnectRefused(text, reason=kind.reason)
            if isinstance(kind, ConnectRefused)
            else Unreachable(text)
        )
