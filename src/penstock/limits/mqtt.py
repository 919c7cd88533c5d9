"""Limits of MQTT packets and sessions, and of the client."""

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


CLIENT_WRITE_BYTES: Final = 1 << 16
"""Bytes in a client's transport before messages queue in the client's own buffer, where a policy can act."""

CLIENT_UNCLAIMED: Final = 1_000
"""Messages of a resumed session kept until the program subscribes again."""

CLIENT_KEEP_S: Final = 60
"""How long a node keeps a client's session by default: a change of network, not a night."""

CLIENT_CLOSE_S: Final = 10
"""How long a closing client waits until everything is sent and acknowledged."""

CLIENT_NODES: Final = 64
"""Addresses in a client's list of nodes: one that can be reached is enough."""

CLIENT_REFERENCES: Final = 8
"""Servers of one answer of a node that a client looks at, and nodes outside its list that it remembers."""

CLIENT_HOPS: Final = 5
"""Nodes that may send a client on in one attempt, and moves without a pause within CLIENT_HOPS_S: in a
cluster one is enough, and nodes that send a client round and round must not keep it busy."""

CLIENT_HOPS_S: Final = 60
"""Within this time CLIENT_HOPS moves are made without a pause."""

RECONNECT_LEAST_S: Final = 0.5
"""First pause before connecting again; it doubles with each failure."""

RECONNECT_MOST_S: Final = 30
"""Longest pause before connecting again: a thousand clients then ask a node 33 times a second."""
