"""Direct connections: frames between two nodes over a TCP connection of their own, past Zenoh.

    fabric.py        sends over a direct connection where one stands, and by Zenoh where none does
    attempts.py      when to try for a connection to a node
    offers.py        how two nodes arrange one, in frames that Zenoh carries
    listener.py      the port on which a node accepts them
    handshake.py     both ends prove that they know the ticket which Zenoh has carried
    connection.py    one connection: its handshake, then frames
    framing.py       frames in a stream of bytes

Zenoh alone says which nodes are there, and admits them. Between its threads and the event loops a frame takes
three times as long as over such a connection (docs/decisions/0075-frames-go-past-zenoh.md).
"""
