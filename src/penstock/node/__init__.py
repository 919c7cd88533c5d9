"""The node: an MQTT broker whose queues drop by the receivers' policies.

The only place for asyncio and sockets. `service.py` starts, reloads and stops a node; it is the only
module that knows all the folders:

    http/       JSON API, dashboard, live updates, Prometheus metrics
    observe/    the status snapshot, $SYS topics, the log, the recorder
    channels/   web pages as topics
    notify/     chat, webhooks and feeds
    streams/    reliable topics
    slots/      lanes for flows of constant rate
    broker/     connections, publishing, routing, sessions, delivery, the journal
    outbound/   HTTP requests that the node makes, to servers that others name
    store/      SQLite files, Parquet files, control tables
    access/     users, access lists, addresses, TLS
    config/     every setting: read, checked, reloaded, written
    clock.py    wall clock and monotonic clock

A folder may import only folders that stand below it in this list.
"""
