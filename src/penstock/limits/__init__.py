"""Every bound, each with the reason for its number: `from penstock import limits`.

A bound is defined in the file of its part and is available here by its name: `limits.QUEUE_EVENTS`.

policies.py    policies, payloads and digests from clients and other nodes; queues of receivers
mqtt.py        MQTT packets and sessions; the client
cluster.py     the cluster: links between nodes
node.py        the node: configuration, listeners, passwords, broker, recorder, control tables
http.py        HTTP requests, dashboards, metrics
channels.py    web channels: polling pages, bodies, rules and deltas
notify.py      notifications: chat, webhooks, feeds and hubs
slots.py       time slots: flows, and filters whose bytes come from other nodes and from Spark
streams.py     reliable streams: between nodes, for programs, in Spark
spark.py       Spark: the Java it needs, generated streams
"""

# ruff: noqa: F403  # re-exports everything the parts define

from penstock.limits.channels import *
from penstock.limits.cluster import *
from penstock.limits.http import *
from penstock.limits.mqtt import *
from penstock.limits.node import *
from penstock.limits.notify import *
from penstock.limits.policies import *
from penstock.limits.slots import *
from penstock.limits.spark import *
from penstock.limits.streams import *
