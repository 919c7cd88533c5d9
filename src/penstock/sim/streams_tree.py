"""Nodes in a tree, from the one that hosts the pubends to those that host subscribers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.streams.answers import Matches


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Who gets the streams from whom; leaves host subscribers."""

    root: str
    parents: Mapping[str, str]
    """Child → parent, parents before their children."""
    filters: Mapping[str, Matches] = field(default_factory=dict)
    """Of leaves; a leaf without one gets everything."""

    def __post_init__(self) -> None:
        known = {self.root}
        for child, parent in self.parents.items():
            if parent not in known or child in known:
                raise SimulationError(f"{child!r} below {parent!r}: name parents before their children, once")
            known.add(child)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Root first."""
        return (self.root, *self.parents)

    def children(self, node: str) -> tuple[str, ...]:
        """Directly below a node."""
        return tuple(child for child, parent in self.parents.items() if parent == node)

    @property
    def leaves(self) -> tuple[str, ...]:
        """The subscriber-hosting nodes."""
        inner = set(self.parents.values())
        return tuple(child for child in self.parents if child not in inner)

    def below(self, node: str) -> tuple[str, ...]:
        """The leaves at or below a node."""
        if node in self.leaves:
            return (node,)
        return tuple(leaf for child in self.children(node) for leaf in self.below(child))

    def link_filter(self, node: str) -> Matches | None:
        """What passes the link down to a node: whatever a leaf below it wants; None: everything."""
        filters = [self.filters.get(leaf) for leaf in self.below(node)]
        wanted = [matches for matches in filters if matches is not None]
        if len(wanted) < len(filters):
            return None
        return wanted[0] if len(wanted) == 1 else lambda body: any(matches(body) for matches in wanted)

    def interest(self, node: str) -> str:
        """The name of a leaf's filter: its own; inner nodes have none."""
        return node if node in self.filters else ""
