"""The MQTT broker: bytes of a client come in, reach the receivers' queues, and go out.

Bytes:

    listeners.py     TCP, TLS and WebSocket listeners; a WebSocket is a transport like TCP
    connection.py    one connection: bytes in, bytes out, written once for each turn of the event loop
    runs.py          neighbouring messages that are forwarded as the bytes they came in; their queue
    publishing.py    PUBLISH packets of a client, on their way to receivers; the client's rates
    requests.py      SUBSCRIBE, UNSUBSCRIBE, acknowledgements, PINGREQ, DISCONNECT

From one client to others:

    broker.py        puts the parts of this folder together
    message.py       a publication; the retained message of each topic
    routes.py        from a topic to its receivers
    sessions.py      all sessions; session.py, one of them; delivery.py, how it gets messages
    link.py          what a session and its connection need of each other
    subscription.py  one subscription: options, policy, queue, account, latency
    policies.py      which policy and which content filter a subscription has
    deadlines.py     which connection or session has to be looked at when
    background.py    tasks that end together

What survives a restart:

    journal.py       rows written while messages come and go
    records.py       what the rows mean
    restoring.py     sessions, queues and retained messages put back
"""
