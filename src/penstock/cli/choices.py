"""Picking one thing of a catalogue by its name."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")


def chosen(catalogue: Mapping[str, T], name: str, what: str, *, also: str = "") -> T:
    """The entry of that name; a wrong name is a wrong command line."""
    if name in catalogue:
        return catalogue[name]
    names = [*catalogue, also] if also else list(catalogue)
    near = get_close_matches(name, names, n=1)
    hint = f" (did you mean '{near[0]}'?)" if near else ""
    raise typer.BadParameter(f"there is no {what} '{name}'{hint}; there are: {', '.join(names)}")
