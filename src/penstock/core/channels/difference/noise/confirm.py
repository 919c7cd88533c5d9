"""Confirming: a candidate change is fetched again, and only what both fetches share is told.

A line that only one of the two fetches has is kept if it was told before, because only what both fetches miss
can have been removed; otherwise it is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock.core.channels.difference.noise.slots import aligned, tags_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.core.channels.difference.content import Content

_TAGS_SHARE = 0.2
"""Share of equal lines at other places from which class names count as made anew for each fetch."""


def shared(one: Content, other: Content, told: Collection[str]) -> Content:
    """Return the lines that two fetches of one moment share, and told lines that either of them has."""
    lines: list[str] = []
    places: list[str] = []
    done = 0
    mine = set(one.lines)
    for block in aligned(one.lines, other.lines, one.places, other.places):
        lines += one.lines[done : block.hunk.old]
        places += one.places[done : block.hunk.old]
        i, j = block.hunk.old, block.hunk.new
        for end_i, end_j in [*block.pairs, (block.hunk.old_end, block.hunk.new_end)]:
            kept = [(one.lines[n], one.places[n]) for n in range(i, end_i) if one.lines[n] in told]
            kept += [
                (other.lines[n], other.places[n])
                for n in range(j, end_j)
                if other.lines[n] in told and other.lines[n] not in mine  # else it only moved
            ]
            if end_i < block.hunk.old_end:
                is_told = one.lines[end_i] not in told and other.lines[end_j] in told
                text, place = (other, end_j) if is_told else (one, end_i)
                kept.append((text.lines[place], one.places[end_i]))
            lines += (line for line, _ in kept)
            places += (place for _, place in kept)
            i, j = end_i + 1, end_j + 1
        done = block.hunk.old_end
    lines += one.lines[done:]
    places += one.places[done:]
    return msgspec.structs.replace(one, lines=tuple(lines), places=tuple(places))


def are_places_unsteady(one: Content, other: Content) -> bool:
    """Whether class names differ between two fetches, so that places are told apart by tags alone."""
    where = dict(zip(one.lines, one.places, strict=True))
    both = [
        (where[line], place) for line, place in zip(other.lines, other.places, strict=True) if line in where
    ]
    odd = sum(a != b and tags_of(a) == tags_of(b) for a, b in both)
    return odd > _TAGS_SHARE * max(len(both), 1)
