"""The versions of one channel: the state between polls, deltas, and version numbers.

The stored content changes by deltas only. A version's number is the modification time stated by the content,
if it is reliable: later than the version before and not in the future. Otherwise it is the time of the poll.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from xxhash import xxh3_64_intdigest

from penstock.core.channels.delta import Change, Delta, DeltaItem, apply, crc_of
from penstock.core.channels.difference.content import ContentKind  # noqa: TC001  # msgspec reads the annotations
from penstock.core.channels.difference.hunks import Hunk, hunks
from penstock.core.channels.difference.news import FeedNews, ItemMark, Judge, marks_among, marks_of
from penstock.core.channels.difference.noise import Learned
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.channels.difference.content import Content
    from penstock.core.channels.difference.rules import Rules


class VersionsState(msgspec.Struct, frozen=True):
    """Stored state of a channel; bounded like the content itself."""

    version: int = 0
    """0: nothing read yet."""
    at_us: int = 0
    kind: ContentKind = "text"
    title: str = ""
    lines: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    """Place of each line, as index into `place_names`."""
    place_names: tuple[str, ...] = ()
    marks: tuple[ItemMark, ...] = ()
    """Items of a feed, whose lines follow one another in `lines`."""
    seen: dict[str, int] = {}  # msgspec copies defaults
    """Items that left the feed, with a hash of their lines."""
    history: tuple[int, ...] = ()
    """Hashes of the last versions, this one at the end."""
    learned: Learned = Learned()
    reading: int = 0
    """Hash of the rules by which the content was read."""
    last: int = 0
    """Hash of the changes that made this version: another node may have found the same ones."""


def print_of(old_version: int, changes: Sequence[Change]) -> int:
    """Hash by which two nodes notice that they found the same changes."""
    return xxh3_64_intdigest(msgspec.msgpack.encode((old_version, changes)))


def places_after(state: VersionsState, delta: Delta, size: int) -> tuple[int, ...]:
    """Places after a delta of another node: new lines get the place of the line they are inserted at."""
    if not state.place_names:
        return (0,) * size
    places: list[int] = []
    done = 0
    for change in delta.changes:
        places += state.places[done : change.at]
        near = state.places[min(change.at, len(state.places) - 1)] if state.places else 0
        places += [near] * len(change.new)
        done = change.at + len(change.old)
    places += state.places[done:]
    return tuple(places)


_STALE_LINES: Final = 100
"""Lines that `only-additions` keeps beyond twice the page before it removes those no longer on the page."""


class Versions:
    """Versions of one channel: pass content to `receive`, and publish the delta it returns."""

    def __init__(self, url: str, rules: Rules, *, state: VersionsState | None = None) -> None:
        self.url = url
        self.rules = rules
        self._state = state or VersionsState()

    @property
    def lines(self) -> tuple[str, ...]:
        """The content at `version`."""
        return self._state.lines

    @property
    def version(self) -> int:
        """Number of the current version; 0: none yet."""
        return self._state.version

    def state(self) -> VersionsState:
        """State to store; pass it to the constructor to continue."""
        return self._state

    def contrast(self, a: Content, b: Content) -> None:
        """Learn noise from two fetches at the same moment."""
        learned = self._state.learned.contrast(a, b, self.rules.noise)
        self._state = msgspec.structs.replace(self._state, learned=learned)

    def receive(self, content: Content, *, now_us: int) -> Delta | None:
        """Delta to this content, from version 0 if it is the first; None if there is no news."""
        state = self._state
        if state.version == 0 or state.kind != content.kind:
            return self._anew(content, now_us=now_us)
        if state.reading != self.rules.reading():
            self._anew(content, now_us=now_us)  # the rules changed, so other lines are compared: not news
            return None
        judge = Judge(self.rules.noise, state.learned, now_us)
        if content.kind == "feed":
            return self._feed(content, judge, now_us=now_us)
        return self._page(content, judge, now_us=now_us)

    def accept(self, delta: Delta) -> bool:
        """Apply a delta made by another node; False: it is redundant. ChannelError: it does not apply."""
        state = self._state
        if delta.version <= state.version or print_of(delta.old_version, delta.changes) == state.last:
            return False
        if delta.old_version not in (state.version, 0):
            raise ChannelError(
                f"the delta to version {delta.version} of {self.url} belongs to version {delta.old_version}, "
                f"here is {state.version}: fetch the page"
            )
        lines = tuple(apply(delta, state.lines if delta.old_version else ()))
        self._state = msgspec.structs.replace(
            state,
            version=delta.version,
            at_us=delta.at_us,
            kind=delta.kind,
            title=delta.title,
            lines=lines,
            places=places_after(state, delta, len(lines)),
            marks=(),
            reading=self.rules.reading(),
            last=print_of(delta.old_version, delta.changes),
        )
        return True

    # -- pages, JSON, text -----------------------------------------------------------------------------------

    def _page(self, content: Content, judge: Judge, *, now_us: int) -> Delta | None:
        state, silent = self._state, judge.silent
        names = state.place_names
        old = [i for i in range(len(state.lines)) if names[state.places[i]] not in silent]
        new = [j for j in range(len(content.lines)) if content.places[j] not in silent]
        found = judge.news(
            [state.lines[i] for i in old],
            [content.lines[j] for j in new],
            old_places=[names[state.places[i]] for i in old],
            new_places=[content.places[j] for j in new],
        )
        if self.rules.only_additions and len(state.lines) <= 2 * len(content.lines) + _STALE_LINES:
            found = [hunk for hunk in found if hunk.new < hunk.new_end]
            # With only-additions, the new lines of a replacement are news, the removed ones are not.
        if not any(hunk.new < hunk.new_end for hunk in found) and (self.rules.only_additions or not found):
            return None
        print_ = self._fingerprint(content, judge, new)
        if print_ is not None and print_ in state.history:
            return None
        changes, lines, places = self._changed(found, old, new, content)
        return self._next(content, changes, lines, places, history=print_, now_us=now_us)

    def _changed(
        self, found: Sequence[Hunk], old: Sequence[int], new: Sequence[int], content: Content
    ) -> tuple[list[Change], list[str], list[str]]:
        """Hunks of the compared lines as changes of all lines; and the new lines and places."""
        state = self._state
        changes: list[Change] = []
        lines: list[str] = []
        places: list[str] = []
        done = 0
        for hunk in found:
            start = old[hunk.old] if hunk.old < len(old) else len(state.lines)
            end = old[hunk.old_end - 1] + 1 if hunk.old_end > hunk.old else start
            lines += state.lines[done:start]
            places += (state.place_names[place] for place in state.places[done:start])
            comes = [new[j] for j in range(hunk.new, hunk.new_end)]
            lines += (content.lines[j] for j in comes)
            places += (content.places[j] for j in comes)
            changes.append(Change(start, state.lines[start:end], tuple(content.lines[j] for j in comes)))
            done = end
        lines += state.lines[done:]
        places += (state.place_names[place] for place in state.places[done:])
        return changes, lines, places

    def _fingerprint(self, content: Content, judge: Judge, shown: Sequence[int]) -> int | None:
        """Hash of a version without noise; None if no rule needs it."""
        if self.rules.compare_last < 2:
            return None
        return xxh3_64_intdigest(
            "\n".join(judge.key(content.lines[j], content.places[j]) for j in shown).encode()
        )

    # -- feeds -----------------------------------------------------------------------------------------------

    def _feed(self, content: Content, judge: Judge, *, now_us: int) -> Delta | None:
        state = self._state
        marks = state.marks or marks_among(content.items, state.lines)
        news = FeedNews(marks, state.lines, state.seen)
        found = news.compare(content.items, judge, only_additions=self.rules.only_additions)
        if not found:
            return None
        print_ = self._fingerprint(content, judge, range(len(content.lines)))
        if print_ is not None and print_ in state.history:
            return None
        changes = [
            Change(hunk.old, state.lines[hunk.old : hunk.old_end], tuple(news.lines[hunk.new : hunk.new_end]))
            for hunk in hunks(state.lines, news.lines)
        ]
        return self._next(
            content,
            changes,
            news.lines,
            ["item"] * len(news.lines),
            history=print_,
            now_us=now_us,
            items=found,
            marks=news.marks,
            seen=news.seen,
        )

    # -- the next version ------------------------------------------------------------------------------------

    def _anew(self, content: Content, *, now_us: int) -> Delta:
        """Replace everything: the first version, or a page that became a feed."""
        judge = Judge(self.rules.noise, self._state.learned, now_us)
        changes = [Change(0, self._state.lines, content.lines)]
        marks = marks_of(content.items)
        return self._next(
            content,
            changes if changes[0].old or changes[0].new else [],
            content.lines,
            content.places,
            history=self._fingerprint(content, judge, range(len(content.lines))),
            now_us=now_us,
            items=[mark.told("new", content.lines) for mark in marks],
            marks=marks,
        )

    def _next(  # noqa: PLR0913
        self,
        content: Content,
        changes: Sequence[Change],
        lines: Sequence[str],
        places: Sequence[str],
        *,
        history: int | None,
        now_us: int,
        items: Sequence[DeltaItem] = (),
        marks: Sequence[ItemMark] = (),
        seen: dict[str, int] | None = None,
    ) -> Delta:
        state = self._state
        names: dict[str, int] = {}
        numbers = tuple(names.setdefault(place, len(names)) for place in places)
        version = max(state.version + 1, now_us)
        if content.modified_us is not None and state.version < content.modified_us <= now_us:
            version = content.modified_us
        self._state = VersionsState(
            version=version,
            at_us=now_us,
            kind=content.kind,
            title=content.title,
            lines=tuple(lines),
            places=numbers,
            place_names=tuple(names),
            marks=tuple(marks),
            seen=seen or {},
            history=() if history is None else (*state.history, history)[-self.rules.compare_last :],
            learned=state.learned,
            reading=self.rules.reading(),
            last=print_of(state.version, changes),
        )
        return Delta(
            self.url,
            version,
            state.version,
            now_us,
            content.kind,
            content.title,
            tuple(changes),
            tuple(items),
            old_crc=crc_of(state.lines),
        )
