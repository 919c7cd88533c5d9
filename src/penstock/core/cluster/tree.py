"""The tree along which the events of one node reach the others: zone by zone, with a bounded fan-out.

The origin sends to at most `fan_out` nodes of its own zone, and these to as many each. Into another zone an
event goes once, to the first node there, which sends it to `fan_out` others; where there are more than
`fan_out` other zones, their first nodes pass it on to those of further zones. The order of nodes is a hash of
origin and name: each origin has other forwarders, and the same nodes give the same tree everywhere.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Way: TypeAlias = tuple[str, ...]
"""The forwarders between an origin and a node, the first one first; empty: the origin sends directly."""


def ways(origin: str, zone: str, zones: Mapping[str, str], *, fan_out: int) -> dict[str, Way]:
    """Find the way from an origin in a zone to each of some nodes, given with their zones."""
    found: dict[str, Way] = {}
    groups: dict[str, list[str]] = {}
    for name in _ordered(origin, zones):
        groups.setdefault(zones[name], []).append(name)
    _lay_out(groups.pop(zone, []), (), found, fan_out=fan_out)
    heads = [groups[other][0] for other in _ordered(origin, groups)]
    _lay_out(heads, (), found, fan_out=fan_out)
    for group in groups.values():
        head, *rest = group
        _lay_out(rest, (*found[head], head), found, fan_out=fan_out)
    return found


def one_hop(zone: str, zones: Iterable[str], *, fan_out: int) -> bool:
    """Whether an origin in a zone sends directly to all of some nodes, given by their zones."""
    count: dict[str, int] = {}
    for each in zones:
        count[each] = count.get(each, 0) + 1
    own = count.pop(zone, 0)
    return own <= fan_out and len(count) <= fan_out and max(count.values(), default=0) <= 1


def _ordered(origin: str, names: Iterable[str]) -> list[str]:
    return sorted(
        names, key=lambda name: (blake2b(f"{origin}\0{name}".encode(), digest_size=8).digest(), name)
    )


def _lay_out(names: list[str], root: Way, found: dict[str, Way], *, fan_out: int) -> None:
    """Put nodes below one that is reached by `root`, level by level; the nodes of a level share the next."""
    begin, size, at = 0, fan_out, fan_out
    for name in names[:fan_out]:
        found[name] = root
    while at < len(names):
        for place, name in enumerate(names[at : at + size * fan_out]):
            parent = names[begin + place % size]
            found[name] = (*found[parent], parent)
        begin, size = at, size * fan_out
        at += size
