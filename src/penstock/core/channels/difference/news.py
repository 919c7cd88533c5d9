"""News of a feed: items that are new, changed or gone.

Items that differ only in noise keep their old wording: so the stored content changes by deltas only, and two
nodes that have applied the same deltas hold the same lines.

Items are identified by id. A feed is a window over a longer list: an item that leaves at the end
opposite to the new ones has aged, not gone, and is not news if it comes back. An item is gone if items on
both sides of it are still there, or if it was the newest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec
from xxhash import xxh3_64_intdigest

from penstock import limits
from penstock.core.channels.delta import DeltaItem
from penstock.core.channels.difference.identity import refilled, renamed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.channels.difference.content import FeedItem
    from penstock.core.channels.difference.noise.items import ItemJudge


_SAME_TITLES: Final = 32
"""Positions searched for an item by a title that several items share."""


class ItemMark(msgspec.Struct, frozen=True, array_like=True):
    """An item within the stored lines."""

    id: str
    title: str
    link: str
    size: int
    """Number of its lines."""
    published_us: int | None = None
    start: int = 0
    """Index of its first line."""

    def lines(self, lines: Sequence[str]) -> Sequence[str]:
        """The lines of the item."""
        return lines[self.start : self.start + self.size]

    def told(self, kind: Literal["new", "changed", "gone"], lines: Sequence[str]) -> DeltaItem:
        """The item as part of a delta."""
        own = self.lines(lines)
        text = own[1:] if own and own[0] == self.title else own
        return DeltaItem(
            kind, self.id, self.title, self.link, "\n".join(text)[: limits.ITEM_TEXT_CHARS], self.published_us
        )


def marks_of(items: Sequence[FeedItem]) -> list[ItemMark]:
    """Marks of items whose lines follow one another."""
    found: list[ItemMark] = []
    start = 0
    for item in items:
        found.append(ItemMark(item.id, item.title, item.link, len(item.lines), item.published_us, start))
        start += len(item.lines)
    return found


def marks_among(items: Sequence[FeedItem], lines: Sequence[str]) -> list[ItemMark]:
    """Marks of items found among other lines, after a delta of another node, which has lines only."""
    starts: dict[str, list[int]] = {}
    for place, line in enumerate(lines):
        starts.setdefault(line, []).append(place)
    found: list[ItemMark] = []
    for item in items:
        size = len(item.lines)
        for start in starts.get(item.lines[0], [])[:_SAME_TITLES] if size else []:
            if tuple(lines[start : start + size]) == item.lines:
                found.append(ItemMark(item.id, item.title, item.link, size, item.published_us, start))
                break
    return sorted(found, key=lambda mark: mark.start)


class FeedNews:
    """Compares once; then `lines`, `marks` and `seen` describe the next version."""

    def __init__(self, marks: Sequence[ItemMark], lines: Sequence[str], seen: Mapping[str, int]) -> None:
        self._old = {mark.id: mark for mark in marks}
        self._old_lines = lines
        self._was_seen = seen
        self._older: set[str] = set()
        """Items that others made room for; they are not new."""
        self.marks: list[ItemMark] = []
        self.lines: list[str] = []
        self.seen: dict[str, int] = {}

    def compare(
        self, items: Sequence[FeedItem], judge: ItemJudge, *, only_additions: bool
    ) -> list[DeltaItem]:
        """Items to report, in the order of the feed, those gone at the end."""
        self._rename(items)
        self._older = refilled(tuple(self._old.values()), items)
        told: list[tuple[Literal["new", "changed"], ItemMark]] = []
        for item in items:
            old = self._old.get(item.id)
            own: Sequence[str] = item.lines
            kind: Literal["new", "changed"] | None = "new"
            if old is not None:
                before = old.lines(self._old_lines)
                kind = "changed" if _differ(before, own, judge) and not only_additions else None
                own = own if kind else before
            elif item.id in self._was_seen:
                differs = self._was_seen[item.id] != _hash(item.lines, judge)
                kind = "changed" if differs and not only_additions else None
            elif item.id in self._older:
                kind = None
            mark = ItemMark(item.id, item.title, item.link, len(own), item.published_us, len(self.lines))
            self.lines += own
            self.marks.append(mark)
            if kind is not None:
                told.append((kind, mark))
        gone = [] if only_additions else self._gone()
        self._remember(judge)
        return [mark.told(kind, self.lines) for kind, mark in told] + [
            mark.told("gone", self._old_lines) for mark in gone
        ]

    def _rename(self, items: Sequence[FeedItem]) -> None:
        """Give the new ids to items that are known under others."""
        names = renamed(tuple(self._old.values()), items)
        if names:
            marks = (msgspec.structs.replace(mark, id=names.get(own, own)) for own, mark in self._old.items())
            self._old = {mark.id: mark for mark in marks}

    def _gone(self) -> list[ItemMark]:
        now = {mark.id: place for place, mark in enumerate(self.marks)}
        old = list(self._old.values())
        left = [place for place, mark in enumerate(old) if mark.id in now]
        if not left:
            return []  # all items are new (the window moved on by its size), or the feed is empty
        stayed = [now[old[place].id] for place in left]
        fresh = [place for own, place in now.items() if own not in self._old and own not in self._older]
        grows_at_end = bool(fresh) and min(fresh) > max(stayed)
        aged = range(left[0]) if grows_at_end else range(left[-1] + 1, len(old))
        return [mark for place, mark in enumerate(old) if mark.id not in now and place not in aged]

    def _remember(self, judge: ItemJudge) -> None:
        now = {mark.id for mark in self.marks}
        self.seen = {own: print_ for own, print_ in self._was_seen.items() if own not in now}
        for mark in self._old.values():
            if mark.id not in now:
                self.seen[mark.id] = _hash(mark.lines(self._old_lines), judge)
        while len(self.seen) > limits.SEEN_ITEMS:
            del self.seen[next(iter(self.seen))]


def _differ(old: Sequence[str], new: Sequence[str], judge: ItemJudge) -> bool:
    return tuple(old) != tuple(new) and judge.differ(old, new)


def _hash(lines: Sequence[str], judge: ItemJudge) -> int:
    return xxh3_64_intdigest("\n".join(map(judge.key, lines)).encode())
