"""Whether two topic filters have a topic in common."""

from __future__ import annotations

from itertools import zip_longest

from penstock.mqtt.topics import shared_of


def overlap(one: str, other: str) -> bool:
    """Whether there is a topic that both filters match, those that begin with `$` aside."""
    levels = shared_of(one).filter.split("/"), shared_of(other).filter.split("/")
    for depth, (a, b) in enumerate(zip_longest(*levels)):
        if "#" in (a, b):
            # `/#` has the empty topic above it, which is none, so `+` has nothing in common with it.
            return not (None in (a, b) and depth == 1 and "" in (levels[0][0], levels[1][0]))
        if a is None or b is None or (a != b and "+" not in (a, b)):
            return False
    return True
