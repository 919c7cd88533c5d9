"""The versions of one channel: the state between polls, deltas, and version numbers.

`look` decides what a fetch is good for: the first one and every candidate change are fetched again, the next
looks only teach what is noise, and then what both fetches share is told. A change that is seen while looks
only teach is not lost: it is told by the first look that speaks.

The stored content changes by deltas only. A version's number is the modification time stated by the content,
if it is reliable: later than the version before and not in the future. Otherwise it is the time of the poll.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

from penstock.core.channels.delta import Change, Delta, DeltaItem, apply, crc_of, unapply
from penstock.core.channels.difference.content import ContentKind  # noqa: TC001  # msgspec reads the annotations
from penstock.core.channels.difference.hunks import Hunk, hunks
from penstock.core.channels.difference.news import FeedNews, ItemMark, marks_among, marks_of
from penstock.core.channels.difference.noise.confirm import are_places_unsteady, shared
from penstock.core.channels.difference.noise.items import ItemJudge
from penstock.core.channels.difference.noise.judging import Study
from penstock.core.channels.difference.noise.memory import (
    FORM,
    Memory,
    MutedPlace,
    muted_places,
    retold,
    unmuted,
)
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
    memory: Memory = Memory()
    """Facts learned about noise."""
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


def _content_at(version: int, state: VersionsState, deltas: Sequence[Delta], *, url: str) -> Sequence[str]:
    """Lines of an older version: the deltas, newest first, are undone one after the other."""
    if version == state.version:
        raise ChannelError(f"version {version} of {url} is the one that the page is compared with already")
    lines, at = list(state.lines), state.version
    for delta in deltas:
        if delta.version != at:
            break  # the page was read by other rules in between
        if delta.kind != state.kind or not delta.old_version:
            break
        lines, at = unapply(delta, lines), delta.old_version
        if at == version:
            return lines
    raise ChannelError(
        f"version {version} of {url} cannot be restored: the history leads back to version {at}"
        + ("" if at != state.version else ", the present one")
    )


_STALE_LINES: Final = 100
"""Lines that `only-additions` keeps beyond twice the page before it removes those no longer on the page."""


class Look(NamedTuple):
    """Result of comparing one fetch of a page with its stored version."""

    delta: Delta | None = None
    """The change to tell; None: none."""
    again: bool = False
    """Whether the page should be fetched again at once, and both contents passed to `look`; nothing is
    remembered of this look."""
    withheld: bool = False
    """Whether the page differs from what was told, and this look only taught."""
    unproven: bool = False
    """Whether it differs in something that a pair showed once: more looks decide whether that is an edit."""


class Versions:
    """Versions of one channel: pass contents to `look`, and publish the deltas it returns."""

    def __init__(self, url: str, rules: Rules, *, state: VersionsState | None = None) -> None:
        """ChannelError if the state was stored by a newer program."""
        self.url = url
        self.rules = rules
        self._state = state or VersionsState()
        form = self._state.memory.form
        if form not in (0, FORM):
            raise ChannelError(
                f"{url}: what was learned about its noise is stored in form {form}, and this program reads "
                f"form {FORM}: use the program that wrote it, or remove the channel and add it again"
            )

    @property
    def lines(self) -> tuple[str, ...]:
        """The content at `version`."""
        return self._state.lines

    @property
    def version(self) -> int:
        """Number of the current version; 0: none yet."""
        return self._state.version

    @property
    def teaching(self) -> bool:
        """Whether the next look only teaches."""
        return self._state.version > 0 and self._state.memory.teaching

    def state(self) -> VersionsState:
        """State to store; pass it to the constructor to continue."""
        return self._state

    def muted(self, *, now_us: int) -> list[MutedPlace]:
        """List the places whose changes are not told because they keep changing, with the evidence."""
        return muted_places(self._state.memory, self._state.lines, self._places(), now_us=now_us)

    def unmute(self, place: str) -> None:
        """Tell changes of a place from now on, whatever it does; ChannelError if there is no such place."""
        memory = unmuted(self._state.memory, place, self._places())
        self._state = msgspec.structs.replace(self._state, memory=memory)

    def look(
        self, content: Content, *, now_us: int, beside: Content | None = None, alone: bool = False
    ) -> Look:
        """Look at a page; `beside` is a second fetch of the same moment, `alone`: there can be none."""
        state = self._state
        if beside is not None and beside.kind != content.kind:
            beside = None
        if state.version == 0 or state.kind != content.kind or state.reading != self.rules.reading():
            if beside is None and not alone and content.kind != "feed":
                return Look(again=True)
            # With other rules other lines are compared: that is not news.
            is_news = state.version == 0 or state.kind != content.kind
            delta = self._anew(content, beside, now_us=now_us)
            return Look(delta if is_news else None)
        if content.kind == "feed":
            return self._feed(content, now_us=now_us, quiet=state.memory.teaching)
        return self._page(
            content, beside, now_us=now_us, quiet=state.memory.teaching, asks=not (alone or beside)
        )

    def receive(self, content: Content, *, now_us: int) -> Delta | None:
        """Delta to this content, from version 0 if it is the first; None if there is no news.

        It is told at once, without a second fetch: for contents that are pushed.
        """
        state = self._state
        if state.version == 0 or state.kind != content.kind or state.reading != self.rules.reading():
            return self.look(content, now_us=now_us, alone=True).delta
        if content.kind == "feed":
            return self._feed(content, now_us=now_us, quiet=False).delta
        return self._page(content, None, now_us=now_us, quiet=False, asks=False).delta

    def _places(self) -> list[str]:
        names = self._state.place_names
        return [names[place] for place in self._state.places] if names else [""] * len(self._state.lines)

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

    def restore(self, version: int, deltas: Sequence[Delta], *, now_us: int) -> Delta:
        """Take the content of an older version as the next one, with which the page is compared from now on.

        `deltas`: the history, newest first. ChannelError if it does not lead back to that version.
        """
        state = self._state
        lines = tuple(_content_at(version, state, deltas, url=self.url))
        found = hunks(state.lines, lines)
        changes = [Change(h.old, state.lines[h.old : h.old_end], lines[h.new : h.new_end]) for h in found]
        number = max(state.version + 1, now_us)
        delta = Delta(
            self.url,
            number,
            state.version,
            now_us,
            state.kind,
            state.title,
            tuple(changes),
            old_crc=crc_of(state.lines),
            restored=version,
        )
        places = places_after(state, delta, len(lines))
        names = [state.place_names[place] if state.place_names else "" for place in places]
        memory = retold(state.memory, found, (state.lines, self._places()), (lines, names))
        print_ = self._fingerprint(lines)
        self._state = msgspec.structs.replace(
            state,
            version=number,
            at_us=now_us,
            lines=lines,
            places=places,
            marks=(),
            # What the page shows now has to be news again, even if the last versions had it.
            history=() if print_ is None else (print_,),
            memory=memory,
            last=print_of(state.version, changes),
        )
        return delta

    # -- pages, JSON, text -----------------------------------------------------------------------------------

    def _page(
        self, content: Content, beside: Content | None, *, now_us: int, quiet: bool, asks: bool
    ) -> Look:
        state = self._state
        memory = state.memory
        if content.lines == state.lines and not memory.is_warm and beside is None:
            self._state = msgspec.structs.replace(state, memory=memory.looked(now_us=now_us))
            return Look()
        if beside is not None and are_places_unsteady(content, beside):
            memory = msgspec.structs.replace(memory, by_tags=True)
        study = Study(
            memory, state.lines, self._places(), kinds=self.rules.noise, now_us=now_us, teaching=quiet
        )
        if beside is not None:
            study.contrast(content.lines, beside.lines, content.places, beside.places)
            content = shared(content, beside, set(state.lines))
        study.learn(content.lines, content.places)
        found = study.news(content.lines, content.places, confirmed=beside is not None)
        if self.rules.only_additions and len(state.lines) <= 2 * len(content.lines) + _STALE_LINES:
            # With only-additions, the new lines of a replacement are news, the removed ones are not.
            found = [hunk for hunk in found if hunk.new < hunk.new_end]
        if found and asks:
            return Look(again=True)
        changes, lines, places = self._changed(found, content)
        print_ = self._fingerprint(lines)
        if not found or quiet or (print_ is not None and print_ in state.history):
            memory = study.memory()
            self._state = msgspec.structs.replace(state, memory=memory)
            return Look(withheld=bool(found) and quiet, unproven=memory.unproven)
        memory = retold(study.memory(), found, (state.lines, self._places()), (lines, places))
        self._state = msgspec.structs.replace(state, memory=memory)
        delta = self._next(content, changes, lines, places, history=print_, now_us=now_us)
        return Look(msgspec.structs.replace(delta, between=study.between(found)))

    def _changed(self, found: Sequence[Hunk], content: Content) -> tuple[list[Change], list[str], list[str]]:
        """Changes that make the hunks; and the new lines and places."""
        state, old_places = self._state, self._places()
        changes: list[Change] = []
        lines: list[str] = []
        places: list[str] = []
        done = 0
        for hunk in found:
            lines += state.lines[done : hunk.old]
            places += old_places[done : hunk.old]
            come = content.lines[hunk.new : hunk.new_end]
            lines += come
            places += content.places[hunk.new : hunk.new_end]
            changes.append(Change(hunk.old, state.lines[hunk.old : hunk.old_end], come))
            done = hunk.old_end
        lines += state.lines[done:]
        places += old_places[done:]
        return changes, lines, places

    def _fingerprint(self, lines: Sequence[str]) -> int | None:
        """Hash of a version; None if no rule needs it."""
        if self.rules.compare_last < 2:
            return None
        return xxh3_64_intdigest("\n".join(lines).encode())

    # -- feeds -----------------------------------------------------------------------------------------------

    def _feed(self, content: Content, *, now_us: int, quiet: bool) -> Look:
        state = self._state
        marks = state.marks or marks_among(content.items, state.lines)
        news = FeedNews(marks, state.lines, state.seen)
        judge = ItemJudge(state.memory, self.rules.noise, now_us=now_us, quiet=quiet)
        found = news.compare(content.items, judge, only_additions=self.rules.only_additions)
        self._state = state = msgspec.structs.replace(state, memory=judge.memory())
        print_ = self._fingerprint(news.lines)
        if not found or (print_ is not None and print_ in state.history):
            return Look(withheld=judge.withheld)
        changes = [
            Change(hunk.old, state.lines[hunk.old : hunk.old_end], tuple(news.lines[hunk.new : hunk.new_end]))
            for hunk in hunks(state.lines, news.lines)
        ]
        delta = self._next(
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
        return Look(delta, withheld=judge.withheld)

    # -- the next version ------------------------------------------------------------------------------------

    def _anew(self, content: Content, beside: Content | None, *, now_us: int) -> Delta:
        """Replace everything: the first version, or a page that became a feed."""
        memory = Memory(unmuted=self._state.memory.unmuted)
        if beside is not None:
            memory = msgspec.structs.replace(memory, by_tags=are_places_unsteady(content, beside))
            study = Study(memory, content.lines, content.places, kinds=self.rules.noise, now_us=now_us)
            study.contrast(content.lines, beside.lines, content.places, beside.places)
            memory = study.memory()
        else:
            memory = memory.looked(now_us=now_us)
        before = self._state
        self._state = msgspec.structs.replace(before, memory=memory)
        changes = [Change(0, self._state.lines, content.lines)]
        marks = marks_of(content.items)
        return self._next(
            content,
            changes if changes[0].old or changes[0].new else [],
            content.lines,
            content.places,
            history=self._fingerprint(content.lines),
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
            memory=state.memory,
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
