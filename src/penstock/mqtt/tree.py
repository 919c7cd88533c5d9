"""All subscriptions as one tree of levels: which of them match a topic.

A walk takes at most two branches a level (the level itself and `+`), so its work is bounded by the matching
part of the tree and by MQTT_TOPIC_LEVELS, not by the number of subscriptions.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from penstock.mqtt.topics import check_filter

K = TypeVar("K")
V = TypeVar("V")


class _Node(Generic[K, V]):
    """A level: who subscribed up to here, who to all below (`#`), and the levels that follow."""

    __slots__ = ("children", "deep", "here")

    def __init__(self) -> None:
        self.children: dict[str, _Node[K, V]] = {}
        self.here: dict[K, V] | None = None
        self.deep: dict[K, V] | None = None

    @property
    def empty(self) -> bool:
        return not self.children and not self.here and not self.deep


class TopicTree(Generic[K, V]):
    """Values by filter and key; a key (a session, a shared group) has one value at each filter."""

    def __init__(self) -> None:
        self._root: _Node[K, V] = _Node()
        self._size = 0

    def __len__(self) -> int:
        """How many values there are."""
        return self._size

    def add(self, filter_: str, key: K, value: V) -> bool:
        """Put a value at a filter (not a shared one); whether the key had none there."""
        check_filter(filter_)
        levels = filter_.split("/")
        deep = levels[-1] == "#"
        if deep:
            levels.pop()
        node = self._root
        for level in levels:
            following = node.children.get(level)
            if following is None:
                following = node.children[level] = _Node()
            node = following
        if deep:
            values = node.deep = node.deep if node.deep is not None else {}
        else:
            values = node.here = node.here if node.here is not None else {}
        new = key not in values
        values[key] = value
        self._size += new
        return new

    def remove(self, filter_: str, key: K) -> V | None:
        """Take a value away; the value, if there was one."""
        levels = filter_.split("/")
        deep = levels[-1] == "#"
        if deep:
            levels.pop()
        path = [self._root]
        for level in levels:
            following = path[-1].children.get(level)
            if following is None:
                return None
            path.append(following)
        values = path[-1].deep if deep else path[-1].here
        if values is None or key not in values:
            return None
        value = values.pop(key)
        self._size -= 1
        while levels and path[-1].empty:
            path.pop()
            del path[-1].children[levels.pop()]
        return value

    def match(self, topic: str) -> list[V]:
        """The values at all filters that match a topic name."""
        found: list[V] = []
        reached = [self._root]
        # A topic beginning with $ is not for filters beginning with a wildcard [MQTT-4.7.2-1].
        wild = not topic.startswith("$")
        for level in topic.split("/"):
            following = []
            for node in reached:
                if wild and node.deep:
                    found.extend(node.deep.values())
                children = node.children
                child = children.get(level)
                if child is not None:
                    following.append(child)
                if wild and (child := children.get("+")) is not None:
                    following.append(child)
            reached = following
            if not reached:
                return found
            wild = True
        for node in reached:
            if node.here:
                found.extend(node.here.values())
            if node.deep:
                found.extend(node.deep.values())
        return found
