"""The interest of a node: the filters of its subscribers, told to each other node.

Changes have versions. A change is valid only for the version before it; a new link begins with all filters.
So a node that was restarted, or that missed something, has either exactly the filters of the other one or
none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.cluster.frames import Wants
from penstock.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterable


class OwnInterest:
    """The filters of this node, as one other node is told of them."""

    def __init__(self, filters: Iterable[str] = ()) -> None:
        self._filters: dict[str, None] = dict.fromkeys(filters)
        self._changed: dict[str, bool] = {}
        """Filters that have begun or ended since the other node was last told."""
        self._version = 0

    def __len__(self) -> int:
        return len(self._filters)

    @property
    def pending(self) -> bool:
        """Whether the other node must be told something."""
        return not self._version or bool(self._changed)

    def change(self, filter_: str, *, wanted: bool) -> None:
        """A filter has begun or ended; what begins and ends before it is told is not told."""
        if wanted == (filter_ in self._filters):
            return
        if wanted:
            self._filters[filter_] = None
        else:
            del self._filters[filter_]
        if self._changed.get(filter_) is (not wanted):
            del self._changed[filter_]
        else:
            self._changed[filter_] = wanted

    def told(self) -> Wants:
        """The filters to tell the other node now: all of them the first time, then the changes."""
        first = not self._version
        self._version += 1
        changed, self._changed = self._changed, {}
        if first:
            return Wants(self._version, True, list(self._filters))
        return Wants(
            self._version,
            False,
            [filter_ for filter_, wanted in changed.items() if wanted],
            [filter_ for filter_, wanted in changed.items() if not wanted],
        )


class PeerInterest:
    """The filters of another node, as it has told them."""

    def __init__(self) -> None:
        self.filters: dict[str, None] = {}
        self._version = 0

    def apply(self, wants: Wants) -> tuple[list[str], list[str]]:
        """Take a change; returns the filters that are new and those that have ended.

        ClusterError, and nothing changes, if it does not follow what came before or is too much.
        """
        if not wants.full and wants.version != self._version + 1:
            raise ClusterError(f"interest of version {wants.version} follows version {self._version}")
        if wants.full and wants.version <= self._version:
            raise ClusterError(f"interest of version {wants.version} comes after version {self._version}")
        after = {} if wants.full else dict(self.filters)
        for filter_ in wants.removed:
            after.pop(filter_, None)
        after.update(dict.fromkeys(wants.added))
        if len(after) > limits.CLUSTER_FILTERS:
            raise ClusterError(f"interest in {len(after)} filters; at most {limits.CLUSTER_FILTERS}")
        added = [filter_ for filter_ in after if filter_ not in self.filters]
        removed = [filter_ for filter_ in self.filters if filter_ not in after]
        self.filters = after
        self._version = wants.version
        return added, removed
