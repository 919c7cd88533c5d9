"""What every way to a subscriber looks like: something to send, somebody to send it to, what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol, TypeAlias

from yarl import URL

from penstock.core.channels.delta import Delta
from penstock.errors import printable

if TYPE_CHECKING:
    from penstock.model.digest import Digest
    from penstock.model.instant import Instant


def shown(who: str) -> str:
    """A subscriber for the log: of a web address the host only, since the rest may be as good as a key."""
    kind, _, address = who.partition(":")
    if kind not in ("webhook", "hub"):
        return printable(who)
    return f"{kind}:{URL(address, encoded=True).origin()}/…"


@dataclass(frozen=True, slots=True)
class Parcel:
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
class Reached:
    """It was told."""


@dataclass(frozen=True, slots=True)
class Later:
    """It was not told, and may be another time."""

    reason: str
    after_s: float | None = None
    """What the other side asked for; None: it asked for nothing."""


@dataclass(frozen=True, slots=True)
class Over:
    """The other side wants nothing any more."""

    reason: str
    url: str = ""
    """Of this channel; empty: of any."""


Outcome: TypeAlias = Reached | Later | Over


class Door(Protocol):
    """A way to subscribers of one kind."""

    async def start(self) -> None:
        """Begin; what cannot work for ever is a NodeError."""
        ...

    async def close(self) -> None:
        """End."""
        ...

    def away(self, who: str) -> bool:
        """Whether it is known that a subscriber cannot be reached now; the door calls when it changes."""
        ...

    async def send(self, parcel: Parcel) -> Outcome:
        """Try once."""
        ...

    def statistics(self) -> dict[str, object]:
        """How it stands."""
        ...
