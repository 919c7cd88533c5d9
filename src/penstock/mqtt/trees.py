"""Trees of topic levels: all subscriptions that match a topic, and all retained values that match a filter.

A walk for a topic takes at most two branches a level (the level itself and `+`), so its work is bounded by
the matching part of the tree and by MQTT_TOPIC_LEVELS, not by the number of subscriptions.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from penstock.mqtt.topics import check_filter, check_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

K = TypeVar("K")
V = TypeVar("V")


Small: TypeAlias = "tuple[K, V] | dict[K, V] | None"
"""A mapping without a dictionary while it has at most one entry: most levels of most filters lead to one next
level or to one session, and a dictionary takes 250 bytes."""


def _get(found: Small[K, V], key: K) -> V | None:
    if type(found) is tuple:
        return found[1] if found[0] == key else None
    return found.get(key) if isinstance(found, dict) else None


def _with(found: Small[K, V], key: K, value: V) -> Small[K, V]:
    if found is None:
        return (key, value)
    if isinstance(found, tuple):
        if found[0] == key:
            return (key, value)
        found = dict([found])
    found[key] = value
    return found


def _without(found: Small[K, V], key: K) -> Small[K, V]:
    """The mapping without a key that it has."""
    if not isinstance(found, dict):
        return None
    del found[key]
    return found or None


def _values(found: Small[K, V]) -> Iterable[V]:
    if found is None:
        return ()
    return found.values() if isinstance(found, dict) else found[1:]


class _FilterNode(Generic[K, V]):
    """A level: values of filters ending here, values of filters ending in `#` here, and the next levels."""

    __slots__ = ("children", "deep", "here")

    def __init__(self) -> None:
        self.children: Small[str, _FilterNode[K, V]] = None
        self.here: Small[K, V] = None
        self.deep: Small[K, V] = None

    @property
    def empty(self) -> bool:
        return self.children is None and self.here is None and self.deep is None


class TopicTree(Generic[K, V]):
    """Values by filter and key; a key (a session, a shared group) has one value at each filter."""

    def __init__(self) -> None:
        self._root: _FilterNode[K, V] = _FilterNode()
        self._size = 0

    def __len__(self) -> int:
        """Number of values."""
        return self._size

    def add(self, filter_: str, key: K, value: V) -> bool:
        """Set the value of a key at a filter (not a shared one); returns whether the key had none there."""
        check_filter(filter_)
        levels = filter_.split("/")
        deep = levels[-1] == "#"
        if deep:
            levels.pop()
        node = self._root
        for level in levels:
            following = _get(node.children, level)
            if following is None:
                following = _FilterNode()
                # Thousands of filters end alike: their last level need not be there as often.
                node.children = _with(node.children, sys.intern(level), following)
            node = following
        new = _get(node.deep if deep else node.here, key) is None
        if deep:
            node.deep = _with(node.deep, key, value)
        else:
            node.here = _with(node.here, key, value)
        self._size += new
        return new

    def at(self, filter_: str) -> list[V]:
        """All values at exactly this filter."""
        levels = filter_.split("/")
        deep = levels[-1] == "#"
        if deep:
            levels.pop()
        node = self._root
        for level in levels:
            following = _get(node.children, level)
            if following is None:
                return []
            node = following
        return list(_values(node.deep if deep else node.here))

    def remove(self, filter_: str, key: K) -> V | None:
        """Remove the value of a key at a filter; returns it."""
        levels = filter_.split("/")
        deep = levels[-1] == "#"
        if deep:
            levels.pop()
        path = [self._root]
        for level in levels:
            following = _get(path[-1].children, level)
            if following is None:
                return None
            path.append(following)
        node = path[-1]
        value = _get(node.deep if deep else node.here, key)
        if value is None:
            return None
        if deep:
            node.deep = _without(node.deep, key)
        else:
            node.here = _without(node.here, key)
        self._size -= 1
        while levels and path[-1].empty:
            path.pop()
            path[-1].children = _without(path[-1].children, levels.pop())
        return value

    def match(self, topic: str) -> list[V]:
        """Values at all filters that match a topic name."""
        found: list[V] = []
        reached = [self._root]
        # A topic beginning with $ does not match filters beginning with a wildcard [MQTT-4.7.2-1].
        wild = not topic.startswith("$")
        for level in topic.split("/"):
            following = []
            for node in reached:
                if wild and node.deep is not None:
                    found.extend(_values(node.deep))
                children = node.children
                if children is None:
                    continue
                child = _get(children, level)
                if child is not None:
                    following.append(child)
                if wild and (child := _get(children, "+")) is not None:
                    following.append(child)
            reached = following
            if not reached:
                return found
            wild = True
        for node in reached:
            found.extend(_values(node.here))
            found.extend(_values(node.deep))
        return found


class _TopicNode(Generic[V]):
    """A level: the value of the topic that ends here, and the next levels."""

    __slots__ = ("children", "item")

    def __init__(self) -> None:
        self.children: dict[str, _TopicNode[V]] = {}
        self.item: tuple[str, V] | None = None


class RetainedTree(Generic[V]):
    """One value for each topic, found by topic or by filter."""

    def __init__(self) -> None:
        self._root: _TopicNode[V] = _TopicNode()
        self._size = 0

    def __len__(self) -> int:
        """Topics with a value."""
        return self._size

    def set(self, topic: str, value: V) -> V | None:
        """Set the value of a topic; returns the previous one."""
        check_topic(topic)
        node = self._root
        for level in topic.split("/"):
            following = node.children.get(level)
            if following is None:
                following = node.children[level] = _TopicNode()
            node = following
        before = node.item
        node.item = (topic, value)
        self._size += before is None
        return before[1] if before else None

    def get(self, topic: str) -> V | None:
        """Value of a topic."""
        path = self._path(topic)
        item = path[-1].item if path else None
        return item[1] if item else None

    def discard(self, topic: str) -> V | None:
        """Remove the value of a topic; returns it."""
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

    def _path(self, topic: str) -> list[_TopicNode[V]]:
        path = [self._root]
        for level in topic.split("/"):
            following = path[-1].children.get(level)
            if following is None:
                return []
            path.append(following)
        return path

    def match(self, filter_: str) -> Iterator[tuple[str, V]]:
        """Topics and values that match a checked filter (not a shared one).

        The tree must not change meanwhile.
        """
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
