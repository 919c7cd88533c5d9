"""What a program outside the node uses: an asynchronous MQTT 5 client that knows policies and digests, and
blocking readers and writers of reliable streams.

client.py        Client: connect, publish, subscribe, close
keeping.py       staying connected
asking.py        SUBSCRIBE and UNSUBSCRIBE, and who waits for their answers
wanted.py        what a subscription asks for
subscription.py  Subscription: events and digests in order, with a buffer of its own
items.py         what a PUBLISH is: an event, or a ReceivedDigest
message.py       what is published, as a packet
sending.py       messages on their way, those that wait included
receiving.py     which subscription a message is for; when to stop reading
connection.py    one connection: packets, keep alive, first and last words
links.py         TCP, TLS and WebSocket
receipts.py      acknowledging what was taken
buffer.py        a queue that says what it dropped
backoff.py       pauses before connecting again
address.py       mqtt://, mqtts://, ws://, wss://
statistics.py    snapshots
places.py        how far it is in reliable streams

stream_reader.py      StreamReader: each message of a stream once and in order, a place that is kept
stream_writer.py      StreamWriter: each message into a stream once and in order
stream_message.py     what they read
stream_connection.py  a blocking connection that is made again
stream_address.py     stream://, streams://

To try things on:

local_node.py    a node as a process of its own
nats_server.py   a NATS server, the same
web_server.py    a web server whose pages change
slow_link.py     a link of little bandwidth
"""

from penstock.client.client import Client
from penstock.client.items import ReceivedDigest
from penstock.client.sending import Published
from penstock.client.statistics import ClientStatistics
from penstock.client.stream_message import StreamMessage
from penstock.client.stream_reader import StreamReader
from penstock.client.stream_writer import StreamWriter
from penstock.client.subscription import Subscription
from penstock.mqtt.connect import Will

__all__ = [
    "Client",
    "ClientStatistics",
    "Published",
    "ReceivedDigest",
    "StreamMessage",
    "StreamReader",
    "StreamWriter",
    "Subscription",
    "Will",
]
