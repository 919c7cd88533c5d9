"""What a text holds, each part with its place: between a form (YAML, JSON, XML) and its meaning."""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from penstock.policy import params

if TYPE_CHECKING:
    from penstock.model.values import Scalar


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column of a part's first character, both from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A number, a text, a truth value, or nothing."""

    value: Scalar | None
    place: Place
    written: str | None = None
    """The characters, where the form did not say of what type they are: XML without `type`."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Parts in order."""

    items: tuple[Tree, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and its part; a key is a text in every form."""

    key: str
    place: Place
    value: Tree


@dataclass(frozen=True, slots=True)
class Mapping:
    """Entries in order; a key that stands twice is still there twice."""

    entries: tuple[Entry, ...]
    place: Place


Tree: TypeAlias = Leaf | Listing | Mapping


def shown(found: Tree) -> str:
    """What was found, for a message."""
    match found:
        case Mapping():
            return "a mapping"
        case Listing():
            return "a list"
        case Leaf():
            return params.shown(found.value)


class Lines:
    """The lines of a text, to find places in it."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(newline.end() for newline in re.finditer("\n", text))]

    def place(self, index: int) -> Place:
        """The place of character number `index`, from 0."""
        line = bisect(self._starts, index)
        return Place(line, index - self._starts[line - 1] + 1)
