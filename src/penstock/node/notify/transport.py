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
"""Characters that no XML 1.0 document may hold, not even escaped (section 2.2)."""


def clean(text: str) -> str:
    """Replace each character that XML cannot write by U+FFFD."""
    return _FORBIDDEN.sub("\ufffd", text)


PAUSED: Final = Cause(level=0, position=0, filter="paused")
"""Cause of changes in a digest that came during a pause."""

RETURNED: Final = Cause(level=0, position=0, filter="returned")
"""Cause of changes in a digest that were sent and came back."""


def title_of(what: Delta | Digest) -> str:
    """Describe a change or a digest in one line."""
    if isinstance(what, Delta):
        return clean(" ".join(f"{what.title or what.url} changed".split()))
    return f"{what.count} more {'change' if what.count == 1 else 'changes'}"


def message_of(what: Delta | Digest) -> str:
    """Describe a change or a digest in full, up to NOTIFY_CHARS characters, all printable."""
    return text_of(what, most=limits.NOTIFY_CHARS) if isinstance(what, Delta) else _digest_text(what)


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
    """Name a subscriber in the log: of a URL only the host, since the rest may be secret."""
    kind, _, address = who.partition(":")
    if kind not in ("webhook", "hub"):
        return printable(who)
    return f"{kind}:{URL(address, encoded=True).origin()}/…"


@dataclass(frozen=True, slots=True)
class Notification:
    """One change or digest for one subscriber."""

    who: str
    """Name of the subscriber, with its kind in front."""
    what: Delta | Digest
    """A digest stands for changes that are not sent one by one."""
    at_us: Instant
    """When it is sent."""

    @property
    def address(self) -> str:
        """Name of the subscriber without its kind."""
        return self.who.partition(":")[2]

    @property
    def id(self) -> str:
        """Identifier that is the same for every attempt, so that a receiver recognises repetitions."""
        what = self.what
        if isinstance(what, Delta):
            facts = f"delta {self.who} {what.url} {what.version}"
        else:
            # Sequence numbers restart with an empty queue, paused changes have none: times differ.
            facts = (
                f"digest {self.who} {what.from_us} {what.to_us} {what.seq_first} {what.seq_last} {what.count}"
            )
        return sha256(facts.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Delivered:
    """The notification was delivered."""


@dataclass(frozen=True, slots=True)
class RetryLater:
    """The notification was not delivered, and is tried again."""

    reason: str
    after_s: float | None = None
    """Pause that the receiver asked for; None: it asked for none."""


@dataclass(frozen=True, slots=True)
class RecipientGone:
    """The receiver wants no more notifications."""

    reason: str
    url: str = ""
    """Channel it is about; empty: all channels."""


SendOutcome: TypeAlias = Delivered | RetryLater | RecipientGone


class Transport(Protocol):
    """Sends notifications to subscribers of one kind."""

    async def start(self) -> None:
        """Start; NodeError if it can never work."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...

    def away(self, who: str) -> bool:
        """Whether a subscriber is known to be out of reach; the transport calls when that changes."""
        ...

    async def send(self, parcel: Notification) -> SendOutcome:
        """Try to send a notification once."""
        ...

    def statistics(self) -> dict[str, object]:
        """Return counts and state for the status."""
        ...
