"""What is wrong at a place of a policy's text, with what is allowed there and a near match."""

from __future__ import annotations

from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING

from penstock import limits
from penstock.errors import PolicyError
from penstock.policy import params

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from penstock.policy.tree import Entry, Place


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
