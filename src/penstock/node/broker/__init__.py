"""The MQTT broker: bytes of a client come in, reach the receivers' queues, and go out.

Bytes:

    listeners.py     TCP, TLS and WebSocket listeners
    websocket.py     a WebSocket as a transport like TCP: handshake, frames, masks
    connection.py    one connection: bytes in, from CONNECT to the end
    output.py        its bytes out: one write for each connection and turn of the event loop
    buffers.py       how much may wait outside the queues of a slow client
    runs.py          neighbouring messages that are forwarded as the bytes they came in; their queue
    publishing.py    PUBLISH packets of a client, on their way to receivers; the client's rates
    answers.py       acknowledgements to publishers that wait for a stream, in order
    requests.py      SUBSCRIBE, UNSUBSCRIBE, acknowledgements, PINGREQ, DISCONNECT

From one client to others:

    broker.py        puts the parts of this folder together
    host.py          the broker as its parts see it
    extensions.py    how streams, slots, channels and other nodes plug in
    message.py       a publication; the retained message of each topic
    routes.py        from a topic to its receivers
    receivers.py     receivers: a subscription, several of a session, a shared group
    interest.py      tells other nodes what is wanted here
    sessions.py      all sessions by client identifier
    session.py       one session, made of these parts:
    delivery.py          takes routed messages: sends or queues them
    outbox.py            holds what leaves when the disk has it
    drain.py             sends what waits
    acknowledgements.py  settles messages in flight
    pacing.py            measures what the client really takes
    link.py          what a session and its connection need of each other
    client_log.py    who came, who left, what the access list refused: lines of the log
    digests.py       tells others of dropped events, on `$digest/…`
    receiver_policies.py  tells publishers the policies of their receivers, on `$policies/…`
    subscription.py  one subscription: options, policy, queue, account
    policies.py      which policy and which content filter a subscription has
    deadlines.py     which connection or session has to be looked at when
    background.py    tasks that end together
    status.py        snapshots of all that

What survives a restart:

    journal.py       rows written while messages come and go
    records.py       what the rows mean
    restoring.py     sessions, queues and retained messages put back
    moving.py        a session taken out of one node and put into another
"""
