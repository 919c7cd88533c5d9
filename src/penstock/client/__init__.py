"""What a program outside the node uses: an asynchronous MQTT 5 client that knows policies and digests.

client.py        Client: connect, publish, subscribe, connect again, close
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
"""

from penstock.client.client import Client
from penstock.client.items import ReceivedDigest
from penstock.client.sending import Published
from penstock.client.statistics import ClientStatistics
from penstock.client.subscription import Subscription
from penstock.mqtt.connect import Will

__all__ = ["Client", "ClientStatistics", "Published", "ReceivedDigest", "Subscription", "Will"]
