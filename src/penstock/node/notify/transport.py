"""The interface of a transport, the notification it sends with its text, and the outcomes of sending."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from yarl import URL

from penstock import limits
from penstock.core.channels.delta import Delta
from penstock.core.channels.difference import text_of
from penstock.errors import printable
from penstock.model.digest import WORST_CASE, Cause
from penstock.model.instant import moment

if TYPE_CHECKING:
    from penstock.model.digest import Digest
    from penstock.model.instant import Instant

_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML 1.0 document may hold, not even escaped (section 2.2)."""


def clean(text: str) -> str:
    """A text with a mark in the place of each character that XML has no way to write."""
    return _FORBIDDEN.sub("\ufffd", text)


PAUSED: Final = Cause(level=0, position=0, filter="paused")
"""Why changes are in a digest that came while a subscription was held."""

RETURNED: Final = Cause(level=0, position=0, filter="returned")
"""Why changes are in a digest that were sent and came back."""


def title_of(what: Delta | Digest) -> str:
    """One line."""
    if isinstance(what, Delta):
        return clean(" ".join(f"{what.title or what.url} changed".split()))
    return f"{what.count} more {'change' if what.count == 1 else 'changes'}"


def message_of(what: Delta | Digest) -> str:
    """All of it, cut where nobody reads on; every sign is printable."""
    return text_of(what, most=limits.TELL_CHARS) if isinstance(what, Delta) else _digest_text(what)


def _digest_text(digest: Digest) -> str:
    changes = "1 change" if digest.count == 1 else f"{digest.count:,} changes"
    since, until = moment(digest.from_us), moment(digest.to_us)
    when = f"at {since}" if since == until else f"between {since} and {until}"
    verb = "is" if digest.count == 1 else "are"
    held = dict(digest.causes).get(PAUSED, 0)
    if held == digest.count:
        return f"{changes} {when} came while you had paused, and {verb} not sent one by one."
    if dict(digest.causes).get(RETURNED, 0) == digest.count:
        return f"{changes} {when} could not be delivered when they were sent, and {verb} not sent again."
    why = "because too many waited"
    by = [f"{cause} {count}" for cause, count in digest.causes if cause not in (WORST_CASE, PAUSED, RETURNED)]
    rules = f" (by your policy: {', '.join(by[:5])})" if by else ""
    return f"{changes} {when} {verb} not sent one by one, {why}{rules}."


def redacted(who: str) -> str:
    """A subscriber for the log: of a web address the host only, since the rest may be as good as a key."""
    kind, _, address = who.partition(":")
    if kind not in ("webhook", "hub"):
        return printable(who)
    return f"{kind}:{URL(address, encoded=True).origin()}/…"


@dataclass(frozen=True, slots=True)
class Notification:
    """One thing to be told to one subscriber."""

    who: str
    """With its kind in front."""
    what: Delta | Digest
    """A digest stands for changes that are not told one by one."""
    at_us: Instant
    """When it goes out."""

    @property
    def address(self) -> str:
        """The subscriber without its kind."""
        return self.who.partition(":")[2]

    @property
    def id(self) -> str:
        """The same for every attempt, so that a receiver can tell a repetition."""
        what = self.what
        if isinstance(what, Delta):
            facts = f"delta {self.who} {what.url} {what.version}"
        else:
            # Numbers begin anew with an empty queue, and what is held has none: moments tell digests apart.
            facts = (
                f"digest {self.who} {what.from_us} {what.to_us} {what.seq_first} {what.seq_last} {what.count}"
            )
        return sha256(facts.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Delivered:
    """It was told."""


@dataclass(frozen=True, slots=True)
class RetryLater:
    """It was not told, and may be another time."""

    reason: str
    after_s: float | None = None
    """What the other side asked for; None: it asked for nothing."""


@dataclass(frozen=True, slots=True)
class RecipientGone:
    """The other side wants nothing any more."""

    reason: str
    url: str = ""
    """Of this channel; empty: of any."""


SendOutcome: TypeAlias = Delivered | RetryLater | RecipientGone


class Transport(Protocol):
    """A way to subscribers of one kind."""

    async def start(self) -> None:
        """Begin; what cannot work for ever is a NodeError."""
        ...

    async def close(self) -> None:
        """End."""
        ...

    def away(self, who: str) -> bool:
        """Whether a subscriber is known to be out of reach; the transport calls when that changes."""
        ...

    async def send(self, parcel: Notification) -> SendOutcome:
        """Try once."""
        ...

    def statistics(self) -> dict[str, object]:
        """How it stands."""
        ...
