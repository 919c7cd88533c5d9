"""What is kept of a channel between two polls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from xxhash import xxh3_64_intdigest

from penstock.core.channels.difference.content import Kind  # noqa: TC001  # msgspec reads annotations at run time
from penstock.core.channels.difference.feed_news import Mark  # noqa: TC001
from penstock.core.channels.difference.learned import Learned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.channels.delta import Change, Delta


class VersionsState(msgspec.Struct, frozen=True):
    """All that is kept of a channel; bounded like the content itself."""

    version: int = 0
    """0: nothing was read yet."""
    at_us: int = 0
    kind: Kind = "text"
    title: str = ""
    lines: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    """Of each line, as a number of `place_names`."""
    place_names: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    """Items of a feed, whose lines follow one another in `lines`."""
    seen: dict[str, int] = {}  # msgspec copies defaults
    """Items that left the feed, with a hash of their lines."""
    history: tuple[int, ...] = ()
    """Hashes of the last versions, this one at the end."""
    learned: Learned = Learned()
    reading: int = 0
    """Hash of the rules by which it was read."""
    last: int = 0
    """Hash of the changes that made this version: another node may have found the same ones."""


def print_of(old_version: int, changes: Sequence[Change]) -> int:
    """By which two nodes that found the same changes are told."""
    return xxh3_64_intdigest(msgspec.msgpack.encode((old_version, changes)))


def places_after(state: VersionsState, delta: Delta, size: int) -> tuple[int, ...]:
    """Places after a delta of another node: new lines take that of the line they stand at."""
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
