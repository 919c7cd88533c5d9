"""The tree of a policy's text, each part with its line and column, and the errors that name such a place.

The tree lies between a form (YAML, JSON, XML) and its meaning. An error says what is allowed at its place and
suggests a near match. Unquoted words follow the core schema of YAML 1.2: `NO`, `on` and `12:30:00` are texts
(in YAML 1.1 they were truth values and a number).
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
"""Longest number that is parsed: a longer one is not a finite float, and Python refuses over 4,300 digits."""


def resolve(word: str) -> Scalar | None:
    """Value of an unquoted word: number, truth value, null or text."""
    if word in _WORDS:
        return _WORDS[word]
    found = number(word)
    return word if found is None else found


def number(word: str) -> int | float | None:
    """The word as a number, or None."""
    whole = _WHOLE.fullmatch(word) or _BASED.fullmatch(word)
    if not whole and not _FLOAT.fullmatch(word):
        return None
    if whole and len(word) > _NUMBER_CHARACTERS:
        return float("-inf" if word.startswith("-") else "inf")
    if not whole:
        return float(word)
    return int(word, 0) if word[:2] in ("0o", "0x") else int(word)


def untyped(word: str) -> Scalar:
    """`resolve` for a form without null: a word that is no number or truth value is a text."""
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
    """A number, a text, a truth value, or null."""

    value: Scalar | None
    place: Place
    written: str | None = None
    """The characters, if the form does not give their type: XML without `type`."""


@dataclass(frozen=True, slots=True)
class ListNode:
    """Items in order."""

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
    """Entries in order; duplicate keys are kept, for the error message."""

    entries: tuple[Entry, ...]
    place: Place


Tree: TypeAlias = LeafNode | ListNode | MapNode


def shown(found: Tree) -> str:
    """Short description of a part for error messages."""
    match found:
        case MapNode():
            return "a mapping"
        case ListNode():
            return "a list"
        case LeafNode():
            return params.shown(found.value)


class Lines:
    """Line starts of a text, to find the place of a character."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(newline.end() for newline in re.finditer("\n", text))]

    def place(self, index: int) -> Place:
        """Place of the character at `index`, from 0."""
        line = bisect(self._starts, index)
        return Place(line, index - self._starts[line - 1] + 1)


def wrong(problem: str, place: Place, *, allowed: str = "", near: str = "") -> PolicyError:
    """PolicyError at a place."""
    return PolicyError(problem, line=place.line, column=place.column, allowed=allowed, near=near)


def unknown(what: str, word: str, options: Collection[str], place: Place) -> PolicyError:
    """PolicyError about a word that is not one of the options."""
    near = get_close_matches(word.lower(), options, n=1)
    problem = f"unknown {what} {params.shown(word)}"
    return wrong(problem, place, allowed=", ".join(options), near=near[0] if near else "")


@contextmanager
def at(place: Place) -> Iterator[None]:
    """Context: PolicyErrors raised inside get this place, unless they have a more exact one."""
    try:
        yield
    except PolicyError as error:
        raise error.at(line=place.line, column=place.column) from None


@contextmanager
def inside(name: str, place: Place) -> Iterator[None]:
    """Context: PolicyErrors raised inside are about the part `name` at this place, or a part of it."""
    try:
        yield
    except PolicyError as error:
        short = name if len(name) <= 60 else params.shown(name)
        raise error.at(line=place.line, column=place.column).inside(short) from None


@contextmanager
def placed(places: Mapping[str, Place], otherwise: Place) -> Iterator[None]:
    """Context: a PolicyError that names a part by its path gets the place of that part, or of its parent."""
    try:
        yield
    except PolicyError as error:
        whole = error.path.partition("[")[0].partition(".")[0]
        place = places.get(error.path) or places.get(whole) or otherwise
        raise error.at(line=place.line, column=place.column) from None


def check_once(earlier: Entry | None, entry: Entry) -> None:
    """Raise PolicyError if a key, or an alias of it, was given before."""
    if earlier is not None:
        other = "" if earlier.key == entry.key else f" (as {params.shown(earlier.key)})"
        raise wrong(f"duplicate key {params.shown(entry.key)}, first at {earlier.place}{other}", entry.place)


def check_depth(depth: int, place: Place) -> None:
    """Raise PolicyError if parts are nested too deep: recursion must not depend on the input."""
    if depth > limits.POLICY_DEPTH:
        raise wrong(f"nested more than {limits.POLICY_DEPTH} deep", place)


def check_characters(text: str, place: Place) -> str:
    """Return the text; PolicyError if an escape in it is not a character."""
    with at(place):
        params.check_characters(text)
    return text
