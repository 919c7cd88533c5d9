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
    """Some lines in place of others."""

    at: int
    """Place in the old version of the first line that goes, or before which lines come; from 0."""
    old: tuple[str, ...] = ()
    """Lines that go."""
    new: tuple[str, ...] = ()
    """Lines that come."""

    @property
    def kind(self) -> Literal["added", "removed", "replaced"]:
        """What a person would call it."""
        if not self.old:
            return "added"
        return "replaced" if self.new else "removed"


class DeltaItem(msgspec.Struct, frozen=True):
    """An item of a feed that is new, changed or gone."""

    kind: Literal["new", "changed", "gone"]
    id: str
    title: str = ""
    link: str = ""
    text: str = ""
    """Plain text of the item, cut to a bound."""
    published_us: int | None = None


class Delta(msgspec.Struct, frozen=True):
    """From one version of a channel to the next."""

    url: str
    version: int
    """Of the new content: when it was modified, in microseconds, if reliable, else one given. It grows."""
    old_version: int
    """Of the content it is applied to; 0: there was none."""
    at_us: int
    """When the change was seen."""
    kind: Literal["feed", "html", "json", "text"]
    title: str = ""
    """Of the page or feed."""
    changes: tuple[Change, ...] = ()
    items: tuple[DeltaItem, ...] = ()
    """For feeds: the same change, told by items."""
    cut: bool = False
    """The last changes were left out, for size: it can be read, but not applied."""
    old_crc: int = 0
    """`crc_of` the lines it is applied to; 0: not known."""


def crc_of(lines: Sequence[str]) -> int:
    """A checksum by which two contents are told apart; never 0."""
    return crc32("\n".join(lines).encode()) or 1


def apply(delta: Delta, lines: Sequence[str]) -> list[str]:
    """The new lines; ChannelError if the delta does not belong to these."""
    if delta.cut:
        raise ChannelError(f"the delta to version {delta.version} of {delta.url} was cut: fetch the page")
    if delta.old_crc and delta.old_crc != crc_of(lines):
        raise ChannelError(
            f"the delta to version {delta.version} of {delta.url} does not fit: it belongs to other lines, "
            f"those of version {delta.old_version}"
        )
    new: list[str] = []
    done = 0
    for change in delta.changes:
        end = change.at + len(change.old)
        if change.at < done or end > len(lines) or tuple(lines[change.at : end]) != change.old:
            raise ChannelError(
                f"the delta to version {delta.version} of {delta.url} does not fit at line {change.at + 1}: "
                f"it belongs to version {delta.old_version}"
            )
        new += lines[done : change.at]
        new += change.new
        done = end
    new += lines[done:]
    return new
