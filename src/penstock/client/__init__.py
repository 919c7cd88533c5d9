"""The MQTT 5 client for programs, and blocking readers and writers of reliable streams (`streams/`).

client.py        Client: connect, publish, subscribe, close
subscription.py  Subscription: an asynchronous iterator over events and digests, and its options
subscribing.py   SUBSCRIBE and UNSUBSCRIBE requests that wait for the node's answer
message.py       checks what a program publishes and makes a PUBLISH packet of it
sending.py       outgoing messages: sent, waiting in a bounded buffer, or packed into digests
receiver_policy.py  packs by the policy of the receivers, which the node tells
receiving.py     hands incoming messages to subscriptions; stops reading while the program is behind
receipts.py      messages not acknowledged yet; positions in reliable streams
buffer.py        bounded queue that reports what it drops
reconnect.py     connects again after a loss and carries the session over
nodes.py         the nodes it may connect to: lists of addresses, and servers that a node names
connection.py    one MQTT connection: packets, keep alive, CONNECT and DISCONNECT
transport.py     addresses (mqtt://, mqtts://, ws://, wss://) and byte links to them
statistics.py    snapshots for `statistics()`
streams/         StreamReader and StreamWriter over a blocking connection
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.lazy_names import lazy_names

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.sending import Published
    from penstock.client.statistics import ClientStatistics
    from penstock.client.streams.reader import StreamMessage, StreamReader
    from penstock.client.streams.writer import StreamWriter
    from penstock.client.subscription import ReceivedDigest, ReceivedEvent, Subscription
    from penstock.mqtt.packets.connect import Will

__all__ = [
    "Client",
    "ClientStatistics",
    "Published",
    "ReceivedDigest",
    "ReceivedEvent",
    "StreamMessage",
    "StreamReader",
    "StreamWriter",
    "Subscription",
    "Will",
]

_MODULES: Final = {
    "Client": "penstock.client.client",
    "ClientStatistics": "penstock.client.statistics",
    "Published": "penstock.client.sending",
    "ReceivedDigest": "penstock.client.subscription",
    "ReceivedEvent": "penstock.client.subscription",
    "StreamMessage": "penstock.client.streams.reader",
    "StreamReader": "penstock.client.streams.reader",
    "StreamWriter": "penstock.client.streams.writer",
    "Subscription": "penstock.client.subscription",
    "Will": "penstock.mqtt.packets.connect",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
