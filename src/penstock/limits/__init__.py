"""Every bound, each with the reason for its number: `from penstock import limits`.

A bound stands in the file of its part, and is named here by itself: `limits.QUEUE_EVENTS`.

policies.py    policies, payloads and digests: what strangers and other nodes send to be understood
queues.py      queues: what waits for a receiver
mqtt.py        MQTT: what a stranger's packet may ask for
client.py      the client
node.py        the node: configuration, listeners, what it holds for clients, recorder, control tables
gate.py        the gate: strangers who try passwords and topics
http.py        the window into the node: HTTP requests, dashboards, metrics
web.py         web channels: polling pages
difference.py  what changed: bodies, rules and deltas of web channels
telling.py     telling people and programs: chat, webhooks, feeds and hubs
slots.py       time slots: flows, and filters, whose bytes come from other nodes and from Spark
streams.py     reliable streams: between nodes, at a node's door for programs, in Spark
spark.py       Spark: the Java it needs, generated streams
"""

# ruff: noqa: F403  # all that the parts define, and nothing else, is meant

from penstock.limits.client import *
from penstock.limits.difference import *
from penstock.limits.gate import *
from penstock.limits.http import *
from penstock.limits.mqtt import *
from penstock.limits.node import *
from penstock.limits.policies import *
from penstock.limits.queues import *
from penstock.limits.slots import *
from penstock.limits.spark import *
from penstock.limits.streams import *
from penstock.limits.telling import *
from penstock.limits.web import *
