"""Whether two topic filters have a topic in common."""

from __future__ import annotations

from itertools import zip_longest

from penstock.mqtt.topics import shared_of


def overlap(one: str, other: str) -> bool:
    """Whether there is a topic that both filters match, those that begin with `$` aside."""
    levels = shared_of(one).filter.split("/"), shared_of(other).filter.split("/")
    for a, b in zip_longest(*levels):
        if "#" in (a, b):
            return True
        if a is None or b is None or (a != b and "+" not in (a, b)):
            return False
    return True
