"""WebSub without I/O, for both ends: the subscriber of pages and the hub of the node's own feeds.

What travels is written and read here, so that both ends agree (W3C Recommendation of 23 January 2018):

    Link header      `link_header` writes it, `discover_hub` reads it (section 4)
    request          subscriber → hub: `HubRequest.to_form`, `HubRequest.from_form` (section 5.1)
    verification     hub → subscriber: `Verification.to_query`, `Verification.from_query` (sections 5.2, 5.3)
    push             `sign` makes the signature, `signature_matches` checks it (section 7.1)

`HubSubscription` is the state of the subscription of one page at its hub, `HubLease` the part of it that
survives a restart.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Self, cast

import msgspec
from yarl import URL

from penstock import limits
from penstock.core.channels.address import canonical
from penstock.core.channels.polling.http_rules import seconds
from penstock.errors import BadAddress, printable
from penstock.model.instant import SECOND_US, to_us

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.instant import Instant

_PARAMETER: Final = r';\s*([\w!#$&+.^`|~*-]+)(?:\s*=\s*(?:"([^"]*)"|([^\s;,"]+)))?\s*'
_LINK: Final = re.compile(rf"<([^<>]*)>\s*((?:{_PARAMETER})*)")
_PARAMETERS: Final = re.compile(_PARAMETER)
_METHODS: Final = ("sha1", "sha256", "sha384", "sha512")
"""Hash algorithms of signatures (section 7.1)."""

FORM_TYPE: Final = "application/x-www-form-urlencoded"
"""Content type of requests to a hub."""

SECRET_BYTES: Final = 200
"""A secret must be shorter (section 5.1)."""

MAX_LEASE_S: Final = 366 * 86_400
"""Longest lease that a subscriber accepts."""

MIN_LEASE_S: Final = 60
"""Shortest lease that the hub grants."""

RETRY_S: Final = (300.0, 86_400.0)
"""First and longest pause of a subscriber after a hub could not be reached, or denied a request."""


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


def link_header(hub: str, self_url: str) -> str:
    """Link header of a feed that names its hub and its own URL."""
    return f'<{hub}>; rel="hub", <{self_url}>; rel="self"'


def sign(body: bytes, key: str) -> str:
    """Value of X-Hub-Signature for a pushed body."""
    return f"sha256={hmac.digest(key.encode(), body, 'sha256').hex()}"


def signature_matches(body: bytes, signature: str, key: str) -> bool:
    """Whether a signature header is valid for a body."""
    method, _, found = signature.partition("=")
    if method not in _METHODS:
        return False
    wanted = hmac.digest(key.encode(), body, method).hex()
    # In constant time: else the time of a mismatch reveals the signature byte by byte.
    return hmac.compare_digest(wanted.encode(), found.strip().lower().encode())


class HubFieldError(ValueError):
    """A field of a request to the hub is wrong."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


@dataclass(frozen=True, slots=True)
class HubRequest:
    """The request of a subscriber to a hub."""

    mode: Literal["subscribe", "unsubscribe"]
    callback: str
    topic: str
    lease_s: int | None = None
    """Length of the lease asked for; None to let the hub choose."""
    secret: str = ""
    """Key with which the hub signs what it pushes; empty: pushes are not signed."""

    def to_form(self) -> bytes:
        """The request as the body of a POST."""
        form = {"hub.callback": self.callback, "hub.mode": self.mode, "hub.topic": self.topic}
        if self.lease_s is not None:
            form["hub.lease_seconds"] = str(self.lease_s)
        if self.secret:
            form["hub.secret"] = self.secret
        return URL.build(query=form).raw_query_string.encode()

    @classmethod
    def from_form(cls, form: Mapping[str, str]) -> Self:
        """Read a request; HubFieldError names the field that is wrong. Callback and topic are not checked."""
        mode = form.get("hub.mode", "")
        if mode not in ("subscribe", "unsubscribe"):
            raise HubFieldError("hub.mode", f"subscribe or unsubscribe, not '{mode[:80]}'")
        secret = form.get("hub.secret", "")
        if len(secret.encode()) >= SECRET_BYTES:
            raise HubFieldError("hub.secret", f"must be shorter than {SECRET_BYTES} bytes")
        asked = form.get("hub.lease_seconds", "")
        if asked and not (asked.isascii() and asked.isdecimal() and len(asked) < 16 and int(asked)):
            raise HubFieldError("hub.lease_seconds", f"a whole number above 0, not '{asked[:80]}'")
        return cls(
            mode=cast("Literal['subscribe', 'unsubscribe']", mode),
            callback=form.get("hub.callback", ""),
            topic=form.get("hub.topic", ""),
            lease_s=int(asked) if asked else None,
            secret=secret,
        )

    def granted_s(self, most_s: int) -> int:
        """Length of the lease that a hub grants whose longest is `most_s`."""
        return most_s if self.lease_s is None else min(max(self.lease_s, MIN_LEASE_S), most_s)


@dataclass(frozen=True, slots=True)
class Verification:
    """A hub asks the callback of a subscriber whether a request was meant, or says that it is denied."""

    mode: str
    """subscribe, unsubscribe or denied; as read from a query it may be anything."""
    topic: str
    challenge: str = ""
    """Text that the subscriber sends back to confirm."""
    lease_s: int | None = None
    """Length of the lease, if the mode is subscribe."""
    reason: str = ""
    """Why it is denied."""

    def to_query(self) -> dict[str, str]:
        """The parameters of the GET request to the callback."""
        query = {"hub.mode": self.mode, "hub.topic": self.topic}
        if self.challenge:
            query["hub.challenge"] = self.challenge
        if self.lease_s is not None:
            query["hub.lease_seconds"] = str(self.lease_s)
        if self.reason:
            query["hub.reason"] = self.reason
        return query

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> Self:
        """Read the parameters; those that are missing or no numbers are left out."""
        return cls(
            mode=query.get("hub.mode", ""),
            topic=query.get("hub.topic", ""),
            challenge=query.get("hub.challenge", "")[: limits.POST_ANSWER_BYTES],
            lease_s=seconds(query.get("hub.lease_seconds", "")) or None,
            reason=query.get("hub.reason", ""),
        )


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

    def active(self, now_us: Instant) -> bool:
        """Whether the hub can be relied on to push the next change."""
        return self.until_us > now_us and not self.doubt

    def waits(self, now_us: Instant) -> None:
        """The hub took the request: give it time to verify before asking again."""
        self.due_us = now_us + to_us(limits.WEBSUB_VERIFY_S)

    def verified(self, lease_s: int, now_us: Instant) -> None:
        """The hub verified the request: the lease begins, and is renewed after four fifths of it."""
        lease_s = min(lease_s, MAX_LEASE_S)
        self.state, self.reason, self.failures = "active", "", 0
        self.until_us = now_us + lease_s * SECOND_US
        self.due_us = now_us + to_us(max(0.8 * lease_s, limits.WEBSUB_LEASE_LEAST_S))

    def refused(self, state: Literal["denied", "failed"], reason: str, now_us: Instant) -> None:
        """The hub denied the request or could not be reached: ask again after a pause that doubles."""
        if state == "denied":
            self.until_us = 0
        self.state = state
        self.reason = printable(reason[:300])
        least_s, most_s = RETRY_S
        self.due_us = now_us + to_us(min(least_s * 2 ** min(self.failures, 16), most_s))
        self.failures += 1

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
