"""What a load looks like: who sends how to how many, and the messages it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.bench.load_process import GIVE_UP_S
from penstock.mqtt.kinds import V4
from penstock.mqtt.packet import encode
from penstock.mqtt.publish import Publish

PAYLOAD_BYTES: Final = 100
WINDOW: Final = 4_096
"""Messages on their way to one receiver: it would be the bottleneck beyond 10 million a second."""
WINDOW_MANY: Final = 1_024
"""The same where there are many receivers: 115 KB for each, which their sockets hold."""
WINDOW_QOS1: Final = 512
"""Half of the 1,024 that a node of ours lets a client have unacknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Senders and receivers of one kind."""

    name: str
    senders: int = 1
    receivers: int = 1
    qos: int = 0
    version: int = V4
    """Of MQTT."""
    policy: str = ""
    """Asked for by every receiver."""
    stalled: int = 0
    """Receivers beside the others that never read."""
    give_up_s: float = GIVE_UP_S
    """A run in which nothing arrives for so long has lost messages."""

    @property
    def window(self) -> int:
        """Messages on their way."""
        if self.qos:
            return WINDOW_QOS1
        return WINDOW if self.receivers == 1 else WINDOW_MANY

    def frames(self, topic: str, count: int = 1, *, payload: bytes = bytes(PAYLOAD_BYTES)) -> list[bytes]:
        """PUBLISH packets of one size, with identifiers from 1 on where they need one."""
        return [
            encode(Publish(topic, payload, qos=self.qos, packet_id=number if self.qos else 0), self.version)
            for number in range(1, count + 1)
        ]
