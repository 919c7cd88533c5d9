"""Limits of MQTT packets and sessions."""

from __future__ import annotations

from typing import Final

MQTT_PACKET_BYTES: Final = 1 << 20
"""Default maximum packet size: sixteen times the largest policy; a thousand half-received packets stay below
the memory of a small machine."""

MQTT_TOPIC_LEVELS: Final = 128
"""Levels of a topic or a filter: bounds the depth of a walk through the trees. The longest in use have 20."""

MQTT_USER_PROPERTIES: Final = 256
"""User properties in one packet; a packet of MQTT_PACKET_BYTES could carry 200,000."""

MQTT_FILTERS: Final = 1_024
"""Filters in one SUBSCRIBE or UNSUBSCRIBE; a packet of MQTT_PACKET_BYTES could carry 260,000."""

MQTT_SUBSCRIPTIONS: Final = 10_000
"""Default number of subscriptions one session may hold."""

MQTT_RECEIVE_MAXIMUM: Final = 1_024
"""Default number of unanswered QoS 1 and 2 messages a peer may send: of 100 bytes each, 100 KB in flight."""

MQTT_TOPIC_ALIASES: Final = 32
"""Default number of topic aliases in each direction: 32 topics of 64 KB at worst, per connection."""

MQTT_SMALL_PACKET_BYTES: Final = 64
"""A client that takes only smaller packets is assigned a short client identifier: the CONNACK with all that a
node grants and an identifier of 25 characters has 52 bytes."""

MQTT_CONNECT_S: Final = 10
"""A connection that has not sent its CONNECT after this is closed: ten slow round trips."""

MQTT_REASON_CHARACTERS: Final = 1_024
"""Longest reason string: it may quote the peer's text of up to 64 KB."""

CONNECT_S: Final = 5
"""How long a server may take to accept a connection, in seconds."""
