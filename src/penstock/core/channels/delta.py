"""A delta: the change between two versions of a channel, numbered, exact and readable.

The core content of a page is a list of lines. A delta applied to the old lines gives the new ones exactly;
applied to any other lines it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal
from zlib import crc32

import msgspec

from penstock.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Change(msgspec.Struct, frozen=True):
    """Replaces some lines by others."""

    at: int
    """Index in the old version, from 0, of the first removed line, or where lines are inserted."""
    old: tuple[str, ...] = ()
    """Lines removed."""
    new: tuple[str, ...] = ()
    """Lines inserted."""

    @property
    def kind(self) -> Literal["added", "removed", "replaced"]:
        """Kind of the change, for people."""
        if not self.old:
            return "added"
        return "replaced" if self.new else "removed"


class Between(msgspec.Struct, frozen=True):
    """Values of a price or version since it was told last: moves that had no message of their own."""

    at: int
    """Index of the line in the old version."""
    old: str
    values: tuple[str, ...]
    """The latest of them, oldest first."""
    new: str


class DeltaItem(msgspec.Struct, frozen=True):
    """A feed item that is new, changed or gone."""

    kind: Literal["new", "changed", "gone"]
    id: str
    title: str = ""
    link: str = ""
    text: str = ""
    """Plain text of the item, shortened."""
    published_us: int | None = None


class Delta(msgspec.Struct, frozen=True):
    """Changes from one version of a channel to the next."""

    url: str
    version: int
    """Number of the new version: its modification time in microseconds if reliable, else assigned. It
    grows."""
    old_version: int
    """Version it applies to; 0: none."""
    at_us: int
    """When the change was found."""
    kind: Literal["feed", "html", "json", "text"]
    title: str = ""
    """Title of the page or feed."""
    changes: tuple[Change, ...] = ()
    items: tuple[DeltaItem, ...] = ()
    """For feeds: the change by items."""
    cut: bool = False
    """The last changes were left out because of size: it can be read, but not applied."""
    old_crc: int = 0
    """`crc_of` the lines it applies to; 0: unknown."""
    left_out: tuple[int, int, int] = (0, 0, 0)
    """Lines added, lines removed and new items of the changes that were left out."""
    between: tuple[Between, ...] = ()
    """Prices and versions that moved more than once since they were told last."""
    restored: int = 0
    """Version whose content a person restored, which is the content of this version; 0: the page changed."""


def crc_of(lines: Sequence[str]) -> int:
    """Checksum that tells two contents apart; never 0."""
    # Never 0, which means unknown in `Delta.old_crc`.
    return crc32("\n".join(lines).encode()) or 1


def apply(delta: Delta, lines: Sequence[str]) -> list[str]:
    """Apply a delta; ChannelError if it does not belong to these lines."""
    if delta.cut:
        raise ChannelError(
            f"the delta to version {delta.version} of {delta.url} was shortened: fetch the page"
        )
    if delta.old_crc and delta.old_crc != crc_of(lines):
        raise ChannelError(
            f"the delta to version {delta.version} of {delta.url} does not apply: it belongs to "
            f"other lines, those of version {delta.old_version}"
        )
    new: list[str] = []
    done = 0
    for change in delta.changes:
        end = change.at + len(change.old)
        if change.at < done or end > len(lines) or tuple(lines[change.at : end]) != change.old:
            raise ChannelError(
                f"the delta to version {delta.version} of {delta.url} does not apply at line "
                f"{change.at + 1}: it belongs to version {delta.old_version}"
            )
        new += lines[done : change.at]
        new += change.new
        done = end
    new += lines[done:]
    return new


def unapply(delta: Delta, lines: Sequence[str]) -> list[str]:
    """Return the lines that a delta was applied to; ChannelError if it does not lead to these lines."""
    if delta.cut:
        raise ChannelError(
            f"the change to version {delta.version} of {delta.url} was too large to be kept whole, so the "
            "content before it is not known"
        )
    old: list[str] = []
    done = shift = 0
    for change in delta.changes:
        start = change.at + shift
        end = start + len(change.new)
        if start < done or end > len(lines) or tuple(lines[start:end]) != change.new:
            raise _not_the_result(delta)
        old += lines[done:start]
        old += change.old
        done = end
        shift += len(change.new) - len(change.old)
    old += lines[done:]
    if delta.old_crc and delta.old_crc != crc_of(old):
        raise _not_the_result(delta)
    return old


def _not_the_result(delta: Delta) -> ChannelError:
    return ChannelError(f"the change to version {delta.version} of {delta.url} does not lead to these lines")
