"""MQTT 5 and 3.1.1 without I/O: a codec for packets and the session rules of both ends.

    codes.py     packet kinds and reason codes
    fields.py    integers, text and binary data inside packets, and the cursor that reads them
    topics.py    topic names and filters: checks, matching, overlap
    trees.py     all subscriptions, and all retained values, as trees of topic levels
    packets/     one value class for each packet, and its bytes
    sessions/    QoS 1 and 2, server and client connections, sessions

A peer's mistake raises an error below `penstock.errors.MqttError`; its `reason` is the MQTT reason code to
answer with. The codec checks each packet by itself; the session rules check what depends on earlier packets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.lazy_names import lazy_names

if TYPE_CHECKING:
    from penstock.mqtt.codes import Reason

__all__ = ["Reason"]

_MODULES: Final = {
    "Reason": "penstock.mqtt.codes",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
