"""Retained values by topic as a tree of levels: which topics match a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.mqtt.topics import check_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

V = TypeVar("V")


class _Node(Generic[V]):
    """A level: the value of the topic that ends here, and the levels that follow."""

    __slots__ = ("children", "item")

    def __init__(self) -> None:
        self.children: dict[str, _Node[V]] = {}
        self.item: tuple[str, V] | None = None


class RetainedTree(Generic[V]):
    """One value for a topic; found by topic, or by any filter."""

    def __init__(self) -> None:
        self._root: _Node[V] = _Node()
        self._size = 0

    def __len__(self) -> int:
        """How many topics have a value."""
        return self._size

    def set(self, topic: str, value: V) -> V | None:
        """Give a topic its value; the one before."""
        check_topic(topic)
        node = self._root
        for level in topic.split("/"):
            following = node.children.get(level)
            if following is None:
                following = node.children[level] = _Node()
            node = following
        before = node.item
        node.item = (topic, value)
        self._size += before is None
        return before[1] if before else None

    def get(self, topic: str) -> V | None:
        """A topic's value."""
        path = self._path(topic)
        item = path[-1].item if path else None
        return item[1] if item else None

    def discard(self, topic: str) -> V | None:
        """Take a topic's value away; the value, if there was one."""
        path = self._path(topic)
        item = path[-1].item if path else None
        if item is None:
            return None
        path[-1].item = None
        self._size -= 1
        levels = topic.split("/")
        while levels and not path[-1].children and path[-1].item is None:
            path.pop()
            del path[-1].children[levels.pop()]
        return item[1]

    def _path(self, topic: str) -> list[_Node[V]]:
        path = [self._root]
        for level in topic.split("/"):
            following = path[-1].children.get(level)
            if following is None:
                return []
            path.append(following)
        return path

    def match(self, filter_: str) -> Iterator[tuple[str, V]]:
        """Topics and values a filter (checked, not shared) matches; do not change the tree meanwhile."""
        levels = filter_.split("/")
        waiting = [(self._root, 0)]
        while waiting:
            node, depth = waiting.pop()
            if depth == len(levels):
                if node.item is not None:
                    yield node.item
                continue
            level = levels[depth]
            if level not in ("+", "#"):
                following = node.children.get(level)
                if following is not None:
                    waiting.append((following, depth + 1))
                continue
            deep = level == "#"
            if deep and node.item is not None:
                yield node.item
            waiting.extend(
                (child, depth if deep else depth + 1)
                for name, child in reversed(node.children.items())
                if node is not self._root or not name.startswith("$")
            )
