"""Checks the section `slots` of a configuration: lengths, the shape of filters, capacities of links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.slots.options import divisors
from penstock.node.config.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.node.config.slots import SlotSettings


def problems(slots: SlotSettings) -> Iterator[Problem]:
    """Check settings of slots against each other."""
    before = 1
    for number, times in enumerate(slots.longer):
        path = f"slots.longer[{number}]"
        if number + 1 >= limits.SLOT_LENGTHS:
            yield Problem(path, "is one length too many", allowed=f"up to {limits.SLOT_LENGTHS - 1}")
            break
        if times < 2 * before:
            yield Problem(path, f"found {times}", allowed=f"{2 * before} or more, twice the length before it")
        before = times
    groups, allowed = slots.filter.groups, divisors(slots.window)
    if groups not in allowed:
        near = min(allowed, key=lambda each: abs(each - groups))
        yield Problem(
            "slots.filter.groups",
            f"found {groups}, which does not divide the window of {slots.window} slots",
            allowed=", ".join(map(str, allowed)),
            near=str(near),
        )
    elif not slots.filter.spare and slots.window - groups < 2:
        yield Problem(
            "slots.filter.groups",
            f"found {groups}: without a spare an array expires as a whole, and no slot is left to reserve",
            allowed=", ".join(str(each) for each in allowed if slots.window - each >= 2),
        )
    if len(slots.links) > limits.SLOT_LINKS:
        yield Problem(
            "slots.links", f"has {len(slots.links):,} entries", allowed=f"up to {limits.SLOT_LINKS:,}"
        )
    named = [("slots.capacity", slots.capacity)]
    named += [(f"slots.links[{number}].capacity", link.capacity) for number, link in enumerate(slots.links)]
    for path, capacity in named:
        if int(capacity * slots.reserved_share) < 1:
            share = slots.reserved_share
            yield Problem(
                path,
                f"found {capacity}, of which a share of {share:g} is less than one message a slot",
                allowed=f"{-int(-1 // share):,} or more, or a larger slots.reserved_share",
            )


def warnings(slots: SlotSettings) -> Iterator[str]:
    """Find links that an entry before them hides."""
    seen: dict[str, int] = {}
    for number, link in enumerate(slots.links):
        hidden_by = seen.get(link.clients, seen.get("*"))
        if hidden_by is not None:
            yield f"slots.links[{number}]: never used, slots.links[{hidden_by}] matches the clients first"
        seen.setdefault(link.clients, number)
