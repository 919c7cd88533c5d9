"""Selectors for a line of a page, in CSS and XPath, made from the place where the line was found.

A place is the path to a line by the tags, ids and steady classes of block elements, such as
`/main/div.offer/p`. Each step is below the one before, so the steps with blanks between them are a selector.
"""

from __future__ import annotations

import re
from typing import Final

from penstock import limits

_STEP: Final = re.compile(r"([a-z][a-z0-9]*(?:-[a-z0-9]+)*)((?:[#.][A-Za-z_][A-Za-z_-]*)*)")
"""Tag, then id and classes; anything else would need escaping in CSS, and is left out."""
WHOLE: Final = ("html", "body")
"""Steps that select the whole page."""


def selectors_of(place: str) -> list[str]:
    """Return selectors that find the line of a place, the narrowest first; none if the place is no path."""
    if not place.startswith("/") or len(place) >= 2 * limits.PLACE_CHARS:  # a longer one was cut in front
        return []
    steps = [step for step in place.split("/")[1:] if step and _STEP.fullmatch(step)]
    found: dict[str, None] = {}
    for last in range(len(steps) - 1, -1, -1):
        step = steps[last]
        if step in WHOLE:
            continue
        if "#" in step:  # an id is there once
            found["#" + step.partition("#")[2].partition(".")[0]] = None
            break
        if "." not in step:
            marked = next((each for each in reversed(steps[:last]) if "#" in each or "." in each), "")
            step = f"{marked} {step}".strip()
        found[step] = None
    return list(found)[: limits.PICKED_SELECTORS]


def xpath_of(selector: str) -> str:
    """Return the XPath that finds what one of these selectors finds."""
    return "".join(f"//{_xpath_step(step)}" for step in selector.split(" "))


_PART: Final = re.compile(r"([#.]?)([^#.]+)")


def _xpath_step(step: str) -> str:
    tag, tests = "*", ""
    for mark, name in _PART.findall(step):
        if mark == "#":
            tests += f"[@id='{name}']"
        elif mark == ".":
            tests += f"[contains(concat(' ', normalize-space(@class), ' '), ' {name} ')]"
        else:
            tag = name
    return tag + tests
