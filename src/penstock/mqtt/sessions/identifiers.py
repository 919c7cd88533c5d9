"""Packet identifiers (1 to 65,535, each used by one packet at a time) and topic aliases (MQTT 5).

A topic alias is a number that replaces a topic, for one connection and one direction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from penstock.errors import MqttError, ProtocolError
from penstock.mqtt.codes import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_PACKET_ID: Final = 65_535

EMPTY: Final = cast("set[int]", frozenset())
"""Stands for a set until something is put into it: most sessions need none, and each has 216 bytes."""


class PacketIds:
    """Gives out identifiers in turn, so that a freed one is not reused at once."""

    __slots__ = ("_last", "_used")

    def __init__(self) -> None:
        self._last = 0
        self._used = EMPTY

    def __len__(self) -> int:
        """Identifiers in use."""
        return len(self._used)

    def __contains__(self, packet_id: int) -> bool:
        """Whether an identifier is in use."""
        return packet_id in self._used

    def go_on_behind(self, packet_id: int) -> None:
        """Give out identifiers behind this one from now on."""
        self._last = packet_id

    def take(self) -> int:
        """Take a free identifier; the caller makes sure that one is left."""
        used = self._used
        if used is EMPTY:
            used = self._used = set()
        packet_id = self._last % MOST_PACKET_ID + 1
        if packet_id in used:
            assert len(used) < MOST_PACKET_ID, "every packet identifier is in use; look at the window first"
            while packet_id in used:
                packet_id = packet_id % MOST_PACKET_ID + 1
        used.add(packet_id)
        self._last = packet_id
        return packet_id

    def take_many(self, count: int) -> list[int]:
        """Take `count` free identifiers; the caller makes sure that so many are left."""
        first = self._last + 1
        ids = range(first, first + count)
        if ids.stop > MOST_PACKET_ID or not self._used.isdisjoint(ids):
            return [self.take() for _ in ids]
        if self._used is EMPTY:
            self._used = set(ids)
        else:
            self._used.update(ids)
        self._last = ids.stop - 1
        return list(ids)

    def claim(self, packet_id: int) -> None:
        """Take this identifier, as a stored session says."""
        assert 0 < packet_id <= MOST_PACKET_ID, packet_id
        self._set().add(packet_id)
        self._last = packet_id

    def hold(self, packet_id: int) -> None:
        """Reserve an identifier without a message; `free` releases it."""
        self._set().add(packet_id)

    def free(self, packet_id: int) -> None:
        """Release an identifier."""
        if packet_id in self._used:
            self._used.remove(packet_id)

    def free_many(self, packet_ids: Iterable[int]) -> None:
        """Release several identifiers."""
        if self._used:
            self._used.difference_update(packet_ids)

    def _set(self) -> set[int]:
        if self._used is EMPTY:
            self._used = set()
        return self._used


class AliasesIn:
    """Topic aliases set by the peer."""

    __slots__ = ("_topics", "maximum")

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        """Topic alias maximum we offered."""
        self._topics: dict[int, bytes] | None = None

    def resolve(self, topic: bytes, alias: int | None) -> bytes:
        """Topic of a PUBLISH. A topic together with an alias sets the alias."""
        if alias is None:
            if not topic:
                raise ProtocolError("empty without a topic alias", where="PUBLISH topic")
            return topic
        if not 0 < alias <= self.maximum:
            raise MqttError(
                f"{alias}; from 1 to {self.maximum}" if self.maximum else f"{alias}; none were offered",
                where="PUBLISH topic alias",
                reason=Reason.TOPIC_ALIAS_INVALID,
            )
        if self._topics is None:
            self._topics = {}
        if topic:
            self._topics[alias] = topic
            return topic
        known = self._topics.get(alias)
        if known is None:
            raise ProtocolError(f"{alias} is not set yet", where="PUBLISH topic alias")
        return known


class AliasesOut:
    """Topic aliases we set: one for each of the first topics, up to the peer's topic alias maximum."""

    __slots__ = ("_aliases", "maximum")

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self._aliases: dict[bytes, int] = {}

    def shorten(self, topic: bytes) -> tuple[bytes, int | None]:
        """Topic and alias to send: both the first time, then an empty topic; no alias when none is left.

        A packet that introduces an alias must be sent, else the peer does not know the alias.
        """
        alias = self._aliases.get(topic)
        if alias is not None:
            return b"", alias
        if len(self._aliases) >= self.maximum:
            return topic, None
        alias = self._aliases[topic] = len(self._aliases) + 1
        return topic, alias

    def copy(self) -> AliasesOut:
        """Return the same aliases, to try what a packet would look like."""
        tried = AliasesOut(self.maximum)
        tried._aliases.update(self._aliases)
        return tried
