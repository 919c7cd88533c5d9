"""What a body is read into: lines that matter, where each stands, and what a feed says about itself."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["feed", "html", "json", "text"]


class Hints(msgspec.Struct, frozen=True):
    """What a feed says about its own rhythm."""

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
    """One item of a feed, as it stands there now."""

    id: str
    title: str = ""
    link: str = ""
    lines: tuple[str, ...] = ()
    """Its share of the content: title, then text."""
    published_us: int | None = None


class Content(msgspec.Struct, frozen=True):
    """The core content of a page or feed at one moment."""

    kind: Kind
    lines: tuple[str, ...] = ()
    """Of a feed: those of its items, one after the other."""
    places: tuple[str, ...] = ()
    """Of each line: elements around it by tag, id and class, or its path in JSON."""
    items: tuple[FeedItem, ...] = ()
    title: str = ""
    modified_us: int | None = None
    """When it was modified, if the content itself says so."""
    hub: str = ""
    """WebSub hub."""
    self_url: str = ""
    """The address the feed calls its own."""
    hints: Hints = Hints()
