"""MQTT 5 and 3.1.1 without I/O: bytes to packets and back, and the rules of a session, for both ends.

Bytes and packets:

    framing.py      Framer.feed(chunk) → whole frames; .fault says why there will be no more
    packet.py       decode(frame, version) → Packet, encode(packet, version) → frame
    connect.py      Connect, Will, Connack
    publish.py      Publish
    acks.py         Puback, Pubrec, Pubrel, Pubcomp; ack_frame for the four bytes of a success
    subscribe.py    Subscribe, Subscription, Suback, Unsubscribe, Unsuback
    ping.py         Pingreq, Pingresp, and their bytes
    disconnect.py   Disconnect
    auth.py         Auth
    properties.py   Properties, and the table of what may stand where
    reasons.py      Reason, and which packet may carry which
    kinds.py        Kind, V4, V5
    text.py, varint.py, reader.py   the values packets are made of

The fast way for PUBLISH:

    fanout.py       spans(frame, version) → first byte, topic, packet id, where properties and payload begin;
                    frame_qos0 once for all receivers; head and tail shared, assemble for each receiver

Topics:

    topics.py       check_topic, check_filter, matches, shared_of
    overlap.py      whether two filters have a topic in common
    tree.py         TopicTree: add, remove, match(topic) → values of all matching filters
    retained.py     RetainedTree: set, discard, match(filter) → topics and values

A session's rules, for either end:

    exchange.py     Exchange: QoS 1 and 2 both ways, made of outgoing.py (the window) and incoming.py
    packet_ids.py   which packet identifiers are free
    aliases.py      AliasesIn, AliasesOut: topic aliases of one connection
    session.py      Session: what a server keeps for a client; will and expiry
    subscriptions.py  Subscriptions: what a session holds, with the options
    server.py       ServerConnection: what may come when, what was agreed, keep alive, the last words
    client.py       ClientConnection: the same from the other end
    client_session.py  ClientSession: what a client keeps

Everything a peer does wrong raises an error below `penstock.errors.MqttError`, whose `reason` is the code to
answer with. Decoding checks all a packet says by itself; what depends on the packets before it is checked by
the rules of the session.
"""
