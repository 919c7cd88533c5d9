"""Decides who may connect and what a client may do, by address, user and access list."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock import limits
from penstock.errors import printable
from penstock.model.host import is_loopback, network_of
from penstock.model.instant import SECOND_US, to_us
from penstock.mqtt.codes import Reason
from penstock.node.access.acl import Acl
from penstock.node.access.passwords import Passwords, Verdict
from penstock.node.access.rate import RateLimits

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.instant import Instant
    from penstock.node.config.schema import Config, Listener


class Connections:
    """Counts open connections, by address and in total."""

    __slots__ = ("_by_network", "_opened", "_per_address", "_total", "open")

    def __init__(self) -> None:
        self.open = 0
        self._by_network: dict[str, int] = {}
        self._opened: RateLimits | None = None
        self.bound(total=0, per_address=0, rate_s=0.0)

    def bound(self, *, total: int, per_address: int, rate_s: float) -> None:
        """Set the bounds; connections that are open already stay open."""
        self._total = total
        self._per_address = per_address
        self._opened = None
        if rate_s:
            self._opened = RateLimits(
                interval_us=SECOND_US / rate_s, burst=max(1.0, rate_s), keys=limits.GATE_ADDRESSES
            )

    def admit(self, address: str, *, now_us: Instant) -> bool:
        """Count a new connection and return True, or return False if a bound is reached."""
        network = network_of(address)
        count = self._by_network.get(network, 0)
        if self.open >= self._total or count >= self._per_address:
            return False
        if self._opened is not None and not self._opened.take(network, now_us=now_us):
            return False
        self._by_network[network] = count + 1
        self.open += 1
        return True

    def released(self, address: str) -> None:
        """Count the end of a connection that was admitted."""
        network = network_of(address)
        left = self._by_network[network] - 1
        if left:
            self._by_network[network] = left
        else:
            del self._by_network[network]
        self.open -= 1


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Admitted:
    """A client that may connect."""

    user: str
    """Empty: anonymous."""


@dataclass(frozen=True, slots=True)
class NotAdmitted:
    """A client that may not connect."""

    reason: Reason
    why: str


class Gate:
    """Decides about connections, users, topics and filters. `open`: there is no access list."""

    def __init__(self, config: Config, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._wrong = RateLimits(
            interval_us=to_us(limits.GATE_FAILURES_S / limits.GATE_FAILURES),
            burst=limits.GATE_FAILURES,
            keys=limits.GATE_ADDRESSES,
        )
        self._passwords = Passwords({})
        self._connections = Connections()
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        """Take over users, rules and bounds; clients that are connected stay connected."""
        bounds = config.bounds
        self._connections.bound(
            total=bounds.connections,
            per_address=bounds.connections_per_address,
            rate_s=bounds.connects_per_s,
        )
        self._anonymous = config.anonymous
        self._passwords.replace({user.name: user.password for user in config.users})
        self._acl = Acl(config.acl)
        self.open = self._acl.open

    def close(self) -> None:
        """Stop checking passwords."""
        self._passwords.close()

    # -- addresses -----------------------------------------------------------------------------------------

    def admit_address(self, address: str) -> bool:
        """Return whether a connection from an address may be opened; if so, call `released` when it ends."""
        return self._connections.admit(address, now_us=to_us(self._clock_s()))

    def released(self, address: str) -> None:
        """Count the end of a connection that was admitted."""
        self._connections.released(address)

    # -- users ---------------------------------------------------------------------------------------------

    async def admit(
        self,
        *,
        client_id: str,
        user: str | None,
        password: bytes | None,
        address: str,
        listener: Listener,
        certificate: dict[str, Any] | None = None,
    ) -> Admitted | NotAdmitted:
        """Decide whether a client that sent CONNECT may stay, and under which user name."""
        found = self.admit_at_once(user=user, address=address, certificate=certificate)
        if found is not None:
            return found
        assert user
        return await self._check(
            user, password, address, who=f"client '{client_id}' from {address} at {listener.kind}"
        )

    def admit_at_once(
        self, *, user: str | None, address: str, certificate: dict[str, Any] | None = None
    ) -> Admitted | NotAdmitted | None:
        """Decide about a client as `admit` does; None: its password is to be checked, which takes a while."""
        if user and self._passwords:
            return None
        named = common_name(certificate) if certificate else ""
        if named:
            return Admitted(named)
        if self._anonymous == "always" or (self._anonymous == "loopback" and is_loopback(address)):
            return Admitted("")
        return NotAdmitted(
            Reason.NOT_AUTHORIZED,
            "a user name and a password are required; `anonymous` of the node says who needs none",
        )

    async def _check(
        self, user: str, password: bytes | None, address: str, *, who: str
    ) -> Admitted | NotAdmitted:
        network = network_of(address)
        if self._wrong.wait_us(network, now_us=to_us(self._clock_s())):
            return NotAdmitted(Reason.CONNECTION_RATE_EXCEEDED, "too many wrong passwords; try again later")
        verdict = await self._passwords.check(user, password or b"")
        if verdict is Verdict.RIGHT:
            return Admitted(user)
        if verdict is Verdict.BUSY:
            return NotAdmitted(Reason.SERVER_BUSY, "too many passwords wait to be checked; try again later")
        self._wrong.spend(network, now_us=to_us(self._clock_s()))
        log.warning("%s", printable(f"{who}: wrong user name or password for '{user}'"))
        return NotAdmitted(Reason.BAD_USER_NAME_OR_PASSWORD, "wrong user name or password")

    # -- topics --------------------------------------------------------------------------------------------

    def may_publish(self, user: str, client_id: str, topic: str) -> bool:
        """Return whether a client may publish on a topic."""
        return self._acl.may_publish(user, client_id, topic)

    def may_publish_within(self, user: str, client_id: str, filter_: str) -> bool:
        """Return whether a client may publish on at least one topic of a filter."""
        return self._acl.may_publish_within(user, client_id, filter_)

    def may_subscribe(self, user: str, client_id: str, filter_: str) -> bool:
        """Return whether a client may subscribe to a filter, shared or not."""
        return self._acl.may_subscribe(user, client_id, filter_)


def common_name(certificate: dict[str, Any]) -> str:
    """Return the common name in a certificate of `SSLSocket.getpeercert`; empty if it has none."""
    subject = certificate.get("subject", ())
    return next((str(value) for part in subject for name, value in part if name == "commonName"), "")
