"""The node: an MQTT broker whose queues drop by the receivers' policies.

The only place for asyncio and sockets. Bytes come in and go out:

    listeners.py    doors: TCP, TLS (tls.py, tls_door.py), WebSocket (websocket.py)
    connection.py   one connection: bytes in, bytes out; flushing.py, when they are written
    runs.py         neighbouring messages that go to the same receivers as the bytes they came in
    publishing.py   what a client publishes, on its way to its receivers; budget.py, how much it may
    requests.py     what else it asks for: subscribe, acknowledge, ping, leave

From one client to others:

    broker.py       everything below, put together
    routes.py       from a topic to its receivers
    sessions.py     all sessions; session.py, one of them, made of delivery.py (a message comes) and
                    draining.py (what waits is sent); link.py, between it and its connection
    subscription.py one subscription: options, policy, queue, account; run_queue.py, without a policy
    policies.py     which policy it gets; content.py, which events it wants at all
    message.py      a publication; retained.py, the last one of each topic
    deadlines.py    who has to be looked at when; latency.py, how long messages took

What survives a restart:

    journal.py      written down while it happens; records.py, what the rows mean; restoring.py, put back
    store.py        the file; database.py, SQLite with care; data_folder.py, held by one node at a time

Who may come in:

    gate.py         asked about everything; addresses.py, passwords.py, acl.py

What a node is told:

    config.py       every setting; settings.py, as rows; quantity.py, `10min`
    read_config.py  from a file; config_reading.py, from its text; config_checks.py, what cannot work
    reload.py       what can change while it runs; write_config.py, as text again
    control_table.py  what Spark tells it

What can be known of it:

    status.py       snapshots; sys_topics.py, as $SYS topics; logs.py, the log
    recorder.py     chosen topics to Parquet; recording.py, the buffer; record_files.py, the files

    service.py      a node as a service, started, reloaded and stopped in order; background.py, its tasks

`http` is the window (dashboard, API, metrics), `web` pages as channels, `telling` chat, webhooks and feeds,
`slots` the lanes of flows, `streams` reliable topics.
"""
