"""Noise learned from two fetches at the same moment: what differs between them is no news.

Two things are learned: places where nothing agrees (a rotating advertisement, a block that half the visitors
see), and shapes of lines in which some words vary. Either must have been seen twice before it counts, for the
page may have changed between the two fetches; and it is forgotten when later fetches agree again.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.core.channels.difference.hunks import hunks
from penstock.core.channels.difference.noise import template

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock.core.channels.difference.content import Content

_SURE: Final = 2
"""Contrasts in which it must have been seen."""
_FIRM: Final = 6
"""More are not counted: after so many that agree it is forgotten."""
_WORDS: Final = 64
"""Words of a line whose shape is learned."""


class LearnedPlace(msgspec.Struct, frozen=True):
    """A place where two fetches had nothing in common."""

    place: str
    seen: int = 1


class LearnedShape(msgspec.Struct, frozen=True):
    """Words of a line at a place; None: this one varies."""

    place: str
    words: tuple[str | None, ...]
    seen: int = 1

    @property
    def key(self) -> str:
        """By which lines of this shape are compared."""
        return " ".join("\x00" if word is None else word for word in self.words)

    def fits(self, words: list[str]) -> bool:
        """Whether a line has this shape."""
        return len(words) == len(self.words) and all(
            own is None or own == word for own, word in zip(self.words, words, strict=True)
        )


class Learned(msgspec.Struct, frozen=True):
    """What is known of one channel."""

    places: tuple[LearnedPlace, ...] = ()
    shapes: tuple[LearnedShape, ...] = ()

    def silent(self) -> frozenset[str]:
        """Places whose lines are not compared."""
        return frozenset(one.place for one in self.places if one.seen >= _SURE)

    def sure_shapes(self) -> dict[str, list[LearnedShape]]:
        """Shapes of lines that are known for certain, by place."""
        found: dict[str, list[LearnedShape]] = {}
        for one in self.shapes:
            if one.seen >= _SURE:
                found.setdefault(one.place, []).append(one)
        return found

    def contrast(self, a: Content, b: Content, kinds: Collection[str]) -> Learned:
        """What is known after two fetches at once."""
        if a.kind != b.kind:
            return self
        agreed, odd, pairs = _differences(a, b, kinds)
        here = set(a.places) | set(b.places)
        gaps = {place: None for place in odd if place and agreed[place] == 0 and a.kind != "feed"}
        shapes = (_shape(*pair) for pair in pairs if pair[0] not in gaps)
        found = list(islice((shape for shape in shapes if shape is not None), limits.LEARNED_NOISE))
        return Learned(
            tuple(_counted(self.places, gaps, here, agreed)), tuple(_merged(self.shapes, found, here))
        )


def _differences(
    a: Content, b: Content, kinds: Collection[str]
) -> tuple[Counter[str], dict[str, None], list[tuple[str, str, str]]]:
    """Lines that agree, by place; places that have some that do not; pairs of those that stand opposite."""
    first = [template(line, kinds) for line in a.lines]
    second = [template(line, kinds) for line in b.lines]
    agreed = Counter(a.places)
    odd: dict[str, None] = {}
    pairs: list[tuple[str, str, str]] = []
    for hunk in hunks([one.key for one in first], [one.key for one in second]):
        for number in range(hunk.old, hunk.old_end):
            agreed[a.places[number]] -= 1
            odd[a.places[number]] = None
        for number in range(hunk.new, hunk.new_end):
            odd[b.places[number]] = None
        if hunk.old_end - hunk.old == hunk.new_end - hunk.new:
            opposite = zip(range(hunk.old, hunk.old_end), range(hunk.new, hunk.new_end), strict=True)
            pairs += [
                (a.places[i], a.lines[i], b.lines[j]) for i, j in opposite if a.places[i] == b.places[j]
            ]
    return agreed, odd, pairs


def _shape(place: str, one: str, other: str) -> LearnedShape | None:
    """The words two lines share; None if these are too few to know the line by."""
    a, b = one.split(" "), other.split(" ")
    if len(a) != len(b) or len(a) > _WORDS:
        return None
    words = tuple(word if word == beside else None for word, beside in zip(a, b, strict=True))
    vary = words.count(None)
    return LearnedShape(place, words) if 0 < vary * 2 <= len(words) else None


def _counted(
    known: tuple[LearnedPlace, ...], gaps: Collection[str], here: set[str], agreed: Counter[str]
) -> Iterable[LearnedPlace]:
    seen = {one.place: one.seen for one in known}
    for place in gaps:
        seen[place] = min(seen.get(place, 0) + 1, _FIRM)
    for place in here - set(gaps):
        if place in seen and agreed[place] > 0:
            seen[place] -= 1
    left = [LearnedPlace(place, times) for place, times in seen.items() if times > 0]
    return left[-limits.LEARNED_NOISE :]


def _merged(
    known: tuple[LearnedShape, ...], found: list[LearnedShape], here: set[str]
) -> Iterable[LearnedShape]:
    """A word that varied once may vary again: shapes of one line are joined, those of two lines are not."""
    left = list(known)
    met: set[int] = set()
    for shape in found:
        for number, one in enumerate(left):
            words = _joined(one, shape)
            if words is not None:
                left[number] = LearnedShape(one.place, words, min(one.seen + (number not in met), _FIRM))
                met.add(number)
                break
        else:
            met.add(len(left))
            left.append(shape)
    aged = [
        one if number in met or one.place not in here else LearnedShape(one.place, one.words, one.seen - 1)
        for number, one in enumerate(left)
    ]
    return [one for one in aged if one.seen > 0][-limits.LEARNED_NOISE :]


def _joined(one: LearnedShape, other: LearnedShape) -> tuple[str | None, ...] | None:
    """The words of two shapes of one line; None: they belong to different lines."""
    if one.place != other.place or len(one.words) != len(other.words):
        return None
    pairs = list(zip(one.words, other.words, strict=True))
    if any(a is not None and b is not None and a != b for a, b in pairs):
        return None
    words = tuple(a if a == b else None for a, b in pairs)
    return words if words.count(None) * 2 <= len(words) else None
