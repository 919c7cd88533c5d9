"""WebSub rules without I/O: discovery of a hub, signatures, leases (WebSub, sections 4, 5 and 7).

`discover_hub` reads the Link header and the content of a page. `HubSubscription` is the state of the
subscription of one page at its hub, `HubLease` the part of it that survives a restart.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from yarl import URL

from penstock import limits
from penstock.core.channels.address import canonical
from penstock.errors import BadAddress
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from penstock.model.instant import Instant

_PARAMETER: Final = r';\s*([\w!#$&+.^`|~*-]+)(?:\s*=\s*(?:"([^"]*)"|([^\s;,"]+)))?\s*'
_LINK: Final = re.compile(rf"<([^<>]*)>\s*((?:{_PARAMETER})*)")
_PARAMETERS: Final = re.compile(_PARAMETER)
_METHODS: Final = ("sha1", "sha256", "sha384", "sha512")
"""Hash algorithms of signatures (section 7.1)."""


@dataclass(frozen=True, slots=True)
class HubLink:
    """Hub of a page, and the topic URL to subscribe to there."""

    url: str
    topic: str


def discover_hub(*, url: str, link: str = "", hub: str = "", self_url: str = "") -> HubLink | None:
    """Hub named by a page, in its Link header or in its content; None if there is none.

    The Link header takes precedence over the content (section 4).
    """
    named: dict[str, str] = {}
    for target, rest, *_ in _LINK.findall(link[: limits.LINK_CHARS]):
        said = {name.lower(): quoted or plain for name, quoted, plain in _PARAMETERS.findall(rest)[::-1]}
        for word in said.get("rel", "").lower().split():
            named.setdefault(word, target)
    if "hub" in named:
        hub, self_url = named["hub"], named.get("self", self_url)
    if not hub:
        return None
    try:
        base = URL(url)
        topic = str(base.join(URL(self_url))) if self_url else url
        return HubLink(canonical(str(base.join(URL(hub)))), topic)
    except (ValueError, BadAddress):
        return None


def signature_matches(body: bytes, signature: str, key: str) -> bool:
    """Whether a signature header is valid for a body."""
    method, _, found = signature.partition("=")
    if method not in _METHODS:
        return False
    wanted = hmac.digest(key.encode(), body, method).hex()
    return hmac.compare_digest(wanted.encode(), found.strip().lower().encode())


MAX_LEASE_S: Final = 366 * 86_400
"""Longest lease accepted."""


class HubLease(msgspec.Struct, frozen=True):
    """Stored part of a subscription: a restart does not repeat a request that was granted or refused."""

    base: str
    """Callback base URL the hub was given."""
    until_us: int
    """End of the lease; 0: none."""
    due_us: int
    """When to ask the hub next."""
    failures: int = 0
    """Consecutive failures."""


@dataclass(slots=True)
class HubSubscription:
    """State of one page's subscription at its hub."""

    hub: HubLink
    state: Literal["asking", "active", "denied", "failed"] = "asking"
    until_us: Instant = 0
    """End of the lease."""
    due_us: Instant = 0
    """When to ask the hub next."""
    reason: str = ""
    """Why it was denied or failed."""
    failures: int = 0
    doubt: str = ""
    """Why pushes are not relied on yet although the hub agreed; empty after a genuine push."""

    def lease(self, base: str) -> HubLease:
        """The part to store."""
        return HubLease(base, self.until_us, self.due_us, self.failures)


def restored_subscription(
    hub: HubLink, lease: HubLease | None, *, base: str, now_us: Instant
) -> HubSubscription:
    """Subscription from its stored part, if that is for this node's current callback URL."""
    if lease is None or lease.base != base:
        return HubSubscription(hub)
    if max(lease.until_us, lease.due_us) > now_us + MAX_LEASE_S * SECOND_US:
        return HubSubscription(hub)  # longer than any lease: the clock was wrong
    state: Literal["asking", "active"] = "active" if lease.until_us > now_us else "asking"
    return HubSubscription(hub, state, lease.until_us, lease.due_us, failures=lease.failures)
