"""Content: the lines of a body that matter, each with its place, and the properties of a feed.

Also the parts all readers of bodies share: `ContentLines`, which cleans and bounds lines while a body is
read, dates as feeds and pages write them, and the loader of optional libraries (a node starts without the
extra `channels`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from penstock import limits
from penstock.errors import ChannelError, MissingTool

if TYPE_CHECKING:
    from collections.abc import Iterator


@cache
def library(name: str) -> Any:
    """Import a module; MissingTool says how to install it."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingTool(
            f"web channels need {name.partition('.')[0]}, which is not installed: "
            "pip install 'penstock[channels]'"
        ) from None


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CHARS: Final = 64


def instant_of(raw: object) -> int | None:
    """Instant of an ISO 8601 or RFC 822 time; None if it is neither. A time without zone is taken as UTC."""
    if not isinstance(raw, str) or len(raw) > _CHARS:
        return None
    try:
        when = datetime.fromisoformat(raw.strip())
    except ValueError:
        try:
            when = parsedate_to_datetime(raw)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    since = when - _EPOCH
    found = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return found if found > 0 else None


ContentKind: TypeAlias = Literal["feed", "html", "json", "text"]


class FeedHints(msgspec.Struct, frozen=True):
    """Statements of a feed about its own schedule."""

    ttl_s: int | None = None
    """RSS ttl."""
    skip_hours: tuple[int, ...] = ()
    """RSS skipHours, 0 to 23, in UTC."""
    skip_days: tuple[int, ...] = ()
    """RSS skipDays, Monday 0."""
    update_period_s: int | None = None
    """sy:updatePeriod divided by sy:updateFrequency."""
    item_times_us: tuple[int, ...] = ()
    """When items were published, newest first."""


class FeedItem(msgspec.Struct, frozen=True):
    """One item of a feed."""

    id: str
    title: str = ""
    link: str = ""
    lines: tuple[str, ...] = ()
    """Lines of the item: title, then text."""
    published_us: int | None = None


class Content(msgspec.Struct, frozen=True):
    """Content of a page or feed at one moment."""

    kind: ContentKind
    lines: tuple[str, ...] = ()
    """For a feed: the lines of its items, in order."""
    places: tuple[str, ...] = ()
    """Place of each line: its enclosing elements by tag, id and class, or its JSON path."""
    linked: tuple[int, ...] = ()
    """Characters of each line that are in links, for a page; empty otherwise."""
    items: tuple[FeedItem, ...] = ()
    title: str = ""
    modified_us: int | None = None
    """Modification time stated by the content itself."""
    hub: str = ""
    """WebSub hub."""
    self_url: str = ""
    """The feed's own address (rel=self)."""
    hints: FeedHints = FeedHints()


_UNSEEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u200b-\u200f\u2060\ufeff]")
"""Control and zero-width characters: some pages insert them at random to hinder copying."""


def cleaned(text: str) -> str:
    """One line without runs of spaces and invisible characters."""
    if not text.isprintable():  # a line break, or what is looked for
        text = _UNSEEN.sub("", text)
    return " ".join(text.split())


def pieces(line: str) -> Iterator[str]:
    """Cut a long line: after a sentence, else at a space, else anywhere."""
    start = 0
    while len(line) - start > limits.LINE_CHARS:
        least, most = start + limits.LINE_CHARS // 2, start + limits.LINE_CHARS
        cut = line.rfind(". ", least, most) + 1 or line.rfind(" ", least, most)
        cut = most if cut <= 0 else cut
        yield line[start:cut].rstrip()
        start = cut
        while line[start : start + 1].isspace():
            start += 1
    if start < len(line):
        yield line[start:]


@dataclass(slots=True)
class ContentLines:
    """Collects lines; ChannelError if there are too many."""

    lines: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    linked: list[int] = field(default_factory=list)
    """Characters of each line that are in links."""
    _known: dict[str, str] = field(default_factory=dict)

    def add(self, text: str, place: str, *, linked: int = 0) -> None:
        """Add a line unless it is blank."""
        line = cleaned(text)
        if not line:
            return
        place = self._place(place)
        for piece in pieces(line) if len(line) > limits.LINE_CHARS else (line,):
            if len(self.lines) >= limits.CONTENT_LINES:
                raise ChannelError(f"more than {limits.CONTENT_LINES} lines; select a part of the page")
            self.lines.append(piece)
            self.places.append(place)
            self.linked.append(min(linked, len(piece)))
            linked -= self.linked[-1]

    def _place(self, place: str) -> str:
        known = self._known.get(place)
        if known is None:
            known = place[-limits.PLACE_CHARS :] if len(self._known) < limits.LINE_PLACES else "elsewhere"
            if len(self._known) < limits.LINE_PLACES:
                self._known[place] = known
        return known
