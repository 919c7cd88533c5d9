"""Prints for commands: results on standard output, everything else on standard error.

Nothing here needs rich, which takes longer to import than `penstock pub` takes; what does is in `terminal`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated, Any

import typer

from penstock.errors import printable

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]


def print_json(found: dict[str, Any]) -> None:
    """Print one JSON object; NaN and infinities, which JSON lacks, become null."""
    sys.stdout.write(json.dumps(finite(found), ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def finite(found: Any) -> Any:
    """Return a value for JSON, with null in the place of NaN and infinities."""
    if isinstance(found, float):
        return found if abs(found) < float("inf") else None
    if isinstance(found, dict):
        return {str(key): finite(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [finite(value) for value in found]
    return found


def print_text(text: str) -> None:
    """Print a text unchanged: no markup, no wrapping."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def complain(message: str) -> None:
    """Print an error on standard error, in one line."""
    _print_labelled("error:", typer.style("error:", fg="red", bold=True), message)


def warn(message: str) -> None:
    """Print a warning on standard error, in one line."""
    _print_labelled("warning:", typer.style("warning:", fg="yellow"), message)


def _print_labelled(plain: str, coloured: str, message: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{coloured if colours(err=True) else plain} {printable(message)}\n")
        sys.stderr.flush()


def colours(*, err: bool) -> bool:
    """Whether standard error, else standard output, is a terminal that shows colours."""
    stream = sys.stderr if err else sys.stdout
    asked_not_to = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream is not None and stream.isatty() and not asked_not_to
