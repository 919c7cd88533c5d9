"""Every bound in one place, each with the reason for its number."""

from __future__ import annotations

from typing import Final

# -- policies: they arrive inside SUBSCRIBE packets from strangers -------------------------------------------

POLICY_BYTES: Final = 65_535
"""A policy must fit into one MQTT user property, whose length field has 16 bits."""

POLICY_LEVELS: Final = 32
"""The paper's largest policy has 6 levels; a ladder of 32 rungs is climbed in one request at most."""

POLICY_FILTERS: Final = 64
"""Filters of all levels together: bounds the work of one pack to 64 walks over the queue."""

POLICY_DEPTH: Final = 16
"""Nesting of the text (YAML, JSON, XML): the language itself needs 6."""

SET_VALUES: Final = 4_096
"""Members of an `inset`, `first`, `subset` … list; together they also stay below POLICY_BYTES."""

PATTERN_BYTES: Final = 1_024
"""Length of a `match` pattern; RE2's compiled program stays below PATTERN_MEMORY."""

PATTERN_MEMORY: Final = 1 << 20
"""RE2 memory per pattern in bytes: `(((a{100}){100}){100})` is refused instead of compiled."""

TEXT_PARAMETER: Final = 4_096
"""Length of one text parameter, of a policy's name or of its description, in characters."""

PATH_SEGMENTS: Final = 16
"""Depth of an attribute path."""

PATH_CHARACTERS: Final = 256
"""Length of an attribute path."""

DIGESTERS: Final = 64
"""(attribute, digester) pairs in one policy: bounds the size of a digest."""

# -- payloads: decoded only when a queue packs ---------------------------------------------------------------

DECODE_BYTES: Final = 65_536
"""Payloads above this are not decoded (their attributes are missing): bounds the work of one pack."""

LIST_VALUES: Final = 4_096
"""Elements of a list attribute that are looked at; a longer list is unreadable."""

# -- digests: they arrive from other nodes -------------------------------------------------------------------

DIGEST_BYTES: Final = 1 << 20
"""A digest of DIGESTERS sketches of 5 KB each, with room."""

DIGEST_CAUSES: Final = 512
"""Different (level, filter) causes one digest can carry: several policies along the path. Of more, the last
in order are counted together as `other`."""

DIGEST_COUNT: Final = 1 << 48
"""Events a digest from another node may stand for: nine years of a million a second. Sums of 32,768 such
counts still fit the 63 bits of the wire."""

MARK_CHARACTERS: Final = 1_024
"""A digest's `first` and `last` carry so much of a text: DIGESTERS of them stay below DIGEST_BYTES."""

# -- queues --------------------------------------------------------------------------------------------------

QUEUE_EVENTS: Final = 1_000
"""Default capacity of a queue in items: the size measured in the fast-path study."""

QUEUE_BYTES: Final = 8 << 20
"""Default capacity of a queue in bytes."""

QUEUE_EVENTS_LEAST: Final = 3
"""The newest event with a digest before and behind it: below this a digest would block the queue."""

CONTROL_ITEMS: Final = 1_024
"""Control items are never dropped, so they are bounded by refusing the connection that makes more."""

HEADROOM: Final = 0.02
"""Share of the capacity a pack must free, else it climbs: so an arriving event pays for about 50 items looked
at per filter, at most (99 where rounding leaves one place free)."""

PACK_RECORDS: Final = 1_024
"""Packs a queue remembers until its owner takes the records; older ones are only counted."""

RECEIVERS_PER_LINK: Final = 65_536
"""Receivers sharing one link's queue: a split makes one private queue each."""

# -- Spark ---------------------------------------------------------------------------------------------------

JAVA_LEAST: Final = 17
"""The oldest Java that Spark 4 starts on."""

# -- MQTT: what a stranger's packet may ask for --------------------------------------------------------------

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
"""Default number of unanswered QoS 1 and 2 messages a peer may send: with 100 bytes each, 100 KB in flight."""

MQTT_TOPIC_ALIASES: Final = 32
"""Default number of topic aliases in each direction: 32 topics of 64 KB at worst, per connection."""

MQTT_CONNECT_S: Final = 10
"""A connection that has not sent its CONNECT after this is closed: ten slow round trips."""

CONNECT_S: Final = 5
"""How long a server may take to accept a connection, in seconds."""
