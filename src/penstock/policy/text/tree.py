"""The tree of a policy's text, each part with its line and column, and the errors that name such a place.

The tree lies between a form (YAML, JSON, XML) and its meaning. An error says what is allowed at its place and
suggests a near match. Words without quotes follow the core schema of YAML 1.2: `NO`, `on` and `12:30:00` are
texts here; YAML 1.1 made them a truth value and a number.
"""

from __future__ import annotations

import re
from bisect import bisect
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock import limits
from penstock.errors import PolicyError
from penstock.policy import params

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from penstock.model.values import Scalar

_WORDS: Final[dict[str, Scalar | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}

_WHOLE: Final = re.compile(r"[-+]?[0-9]+")
_BASED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")

_NUMBER_CHARACTERS: Final = 400
"""A longer whole number is no finite float either; Python refuses those of over 4,300 digits."""


def resolve(word: str) -> Scalar | None:
    """The number, truth value, nothing or text that an unquoted word is."""
    if word in _WORDS:
        return _WORDS[word]
    found = number(word)
    return word if found is None else found


def number(word: str) -> int | float | None:
    """The number a word is, or None if it is none."""
    whole = _WHOLE.fullmatch(word) or _BASED.fullmatch(word)
    if not whole and not _FLOAT.fullmatch(word):
        return None
    if whole and len(word) > _NUMBER_CHARACTERS:
        return float("-inf" if word.startswith("-") else "inf")
    if not whole:
        return float(word)
    return int(word, 0) if word[:2] in ("0o", "0x") else int(word)


def untyped(word: str) -> Scalar:
    """The same for a form that has no nothing: what is no number and no truth value is a text."""
    found = resolve(word)
    return word if found is None else found


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column of a part's first character, both from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True)
class LeafNode:
    """A number, a text, a truth value, or nothing."""

    value: Scalar | None
    place: Place
    written: str | None = None
    """The characters, where the form did not say of what type they are: XML without `type`."""


@dataclass(frozen=True, slots=True)
class ListNode:
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
class MapNode:
    """Entries in order; a key that stands twice is still there twice."""

    entries: tuple[Entry, ...]
    place: Place


Tree: TypeAlias = LeafNode | ListNode | MapNode


def shown(found: Tree) -> str:
    """What was found, for a message."""
    match found:
        case MapNode():
            return "a mapping"
        case ListNode():
            return "a list"
        case LeafNode():
            return params.shown(found.value)


class Lines:
    """The lines of a text, to find places in it."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(newline.end() for newline in re.finditer("\n", text))]

    def place(self, index: int) -> Place:
        """The place of character number `index`, from 0."""
        line = bisect(self._starts, index)
        return Place(line, index - self._starts[line - 1] + 1)


def wrong(problem: str, place: Place, *, allowed: str = "", near: str = "") -> PolicyError:
    """A problem at a place."""
    return PolicyError(problem, line=place.line, column=place.column, allowed=allowed, near=near)


def unknown(what: str, word: str, options: Collection[str], place: Place) -> PolicyError:
    """A word that is none of the options."""
    near = get_close_matches(word.lower(), options, n=1)
    problem = f"unknown {what} {params.shown(word)}"
    return wrong(problem, place, allowed=", ".join(options), near=near[0] if near else "")


@contextmanager
def at(place: Place) -> Iterator[None]:
    """Problems from here on are at this place, unless a more exact one is known."""
    try:
        yield
    except PolicyError as error:
        raise error.at(line=place.line, column=place.column) from None


@contextmanager
def inside(name: str, place: Place) -> Iterator[None]:
    """Problems from here on are about the part `name` at this place, or a part of it."""
    try:
        yield
    except PolicyError as error:
        short = name if len(name) <= 60 else params.shown(name)
        raise error.at(line=place.line, column=place.column).inside(short) from None


@contextmanager
def placed(places: Mapping[str, Place], otherwise: Place) -> Iterator[None]:
    """Problems that name a part by its path get the place of that part, or of what holds it."""
    try:
        yield
    except PolicyError as error:
        whole = error.path.partition("[")[0].partition(".")[0]
        place = places.get(error.path) or places.get(whole) or otherwise
        raise error.at(line=place.line, column=place.column) from None


def check_once(earlier: Entry | None, entry: Entry) -> None:
    """Raise PolicyError if a key, or another name for it, was there before."""
    if earlier is not None:
        other = "" if earlier.key == entry.key else f" (as {params.shown(earlier.key)})"
        raise wrong(f"{params.shown(entry.key)} stands twice, first at {earlier.place}{other}", entry.place)


def check_depth(depth: int, place: Place) -> None:
    """Raise PolicyError if parts are nested too deep: a stranger must not choose how deep we recurse."""
    if depth > limits.POLICY_DEPTH:
        raise wrong(f"nested more than {limits.POLICY_DEPTH} deep", place)


def check_characters(text: str, place: Place) -> str:
    """The text, unless it has escapes that make no character."""
    with at(place):
        params.check_characters(text)
    return text
