"""The node: an MQTT broker whose queues drop by the receivers' policies.

The only place for asyncio and sockets. `service.py` starts, reloads and stops a node; it is the only
module that knows all the folders:

    http/       JSON API, dashboard, live updates, Prometheus metrics
    observe/    the status snapshot, $SYS topics, the log, the recorder
    channels/   web pages as topics
    notify/     chat, webhooks and feeds
    streams/    reliable topics
    cluster/    other nodes: topics across them
    slots/      lanes for flows of constant rate
    broker/     connections, publishing, routing, sessions, delivery, the journal
    outbound/   HTTP requests that the node makes, to servers that others name
    store/      SQLite files, Parquet files, control tables
    access/     users, access lists, addresses, TLS
    config/     every setting: read, checked, reloaded, written
    clock.py    wall clock and monotonic clock

A folder may import only folders that stand below it in this list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.lazy_names import lazy_names

if TYPE_CHECKING:
    from penstock.node.channels.poller import Poller
    from penstock.node.config.channels import Polling
    from penstock.node.config.read import LoadedConfig
    from penstock.node.config.schema import Config, Http, Listener, Queues
    from penstock.node.outbound.fetch import Fetcher
    from penstock.node.service import Node, about

__all__ = [
    "Config",
    "Fetcher",
    "Http",
    "Listener",
    "LoadedConfig",
    "Node",
    "Poller",
    "Polling",
    "Queues",
    "about",
]

_MODULES: Final = {
    "Config": "penstock.node.config.schema",
    "Fetcher": "penstock.node.outbound.fetch",
    "Http": "penstock.node.config.schema",
    "Listener": "penstock.node.config.schema",
    "LoadedConfig": "penstock.node.config.read",
    "Node": "penstock.node.service",
    "Poller": "penstock.node.channels.poller",
    "Polling": "penstock.node.config.channels",
    "Queues": "penstock.node.config.schema",
    "about": "penstock.node.service",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
