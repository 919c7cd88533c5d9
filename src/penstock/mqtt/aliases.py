"""Topic aliases (MQTT 5): numbers in the place of topics, for one connection and one direction."""

from __future__ import annotations

from penstock.errors import MqttError, ProtocolError
from penstock.mqtt.reasons import Reason


class AliasesIn:
    """What the peer's aliases stand for."""

    __slots__ = ("_topics", "maximum")

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        """How many we offered."""
        self._topics: dict[int, bytes] = {}

    def resolve(self, topic: bytes, alias: int | None) -> bytes:
        """The topic of a PUBLISH; with both a topic and an alias, the alias stands for it from now on."""
        if alias is None:
            if not topic:
                raise ProtocolError("empty, and no topic alias", where="PUBLISH topic")
            return topic
        if not 0 < alias <= self.maximum:
            raise MqttError(
                f"{alias}; from 1 to {self.maximum}" if self.maximum else f"{alias}; none were offered",
                where="PUBLISH topic alias",
                reason=Reason.TOPIC_ALIAS_INVALID,
            )
        if topic:
            self._topics[alias] = topic
            return topic
        known = self._topics.get(alias)
        if known is None:
            raise ProtocolError(f"{alias} stands for no topic yet", where="PUBLISH topic alias")
        return known


class AliasesOut:
    """Aliases for what we send: the first topics get one each, as many as the peer takes."""

    __slots__ = ("_aliases", "maximum")

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self._aliases: dict[bytes, int] = {}

    def shorten(self, topic: bytes) -> tuple[bytes, int | None]:
        """Topic and alias to send: both the first time, then no topic; no alias when none is left.

        The packet made with it must be sent, else the peer does not know the alias."""
        alias = self._aliases.get(topic)
        if alias is not None:
            return b"", alias
        if len(self._aliases) >= self.maximum:
            return topic, None
        alias = self._aliases[topic] = len(self._aliases) + 1
        return topic, alias
