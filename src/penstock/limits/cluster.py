"""Limits of the cluster: links between nodes, and what a node accepts from another one."""

from __future__ import annotations

from typing import Final

CLUSTER_WINDOW_BYTES: Final = 256 << 10
"""Bytes on their way over a link without acknowledgement: a round trip of 0.3 ms at 800 MB/s. What does not
fit waits in the queue of the link, where it is counted, and not in the fabric, which drops without a word."""

CLUSTER_FRAME_BYTES: Final = 32 << 10
"""Bytes of small items that are put together into one frame: a frame costs about as much as 200 events."""

CLUSTER_ITEM_BYTES: Final = 288 << 20
"""Largest item of a frame: the largest MQTT message with what a node adds to it."""

CLUSTER_QUEUE_EVENTS: Final = 10_000
"""Default capacity of the queue of a link in events: a second of a busy node."""

CLUSTER_QUEUE_BYTES: Final = 32 << 20
"""Default capacity of the queue of a link in bytes."""

CLUSTER_RETRY_LEAST_US: Final = 500_000
"""A frame that is not acknowledged for this long is sent again: many round trips, and a short stall."""

CLUSTER_RETRY_MOST_US: Final = 8_000_000
"""Longest pause between two attempts."""

CLUSTER_ASK_US: Final = 20_000
"""Shortest time between two requests of a receiver for frames that are missing."""

CLUSTER_EARLY_FRAMES: Final = 4_096
"""Frames of a link that are kept while an earlier one is missing, of at most a window of bytes together: some
megabytes of small objects. What came with a later number comes again."""

CLUSTER_ASKS: Final = 10_000
"""Questions to one other node that wait for answers, and answers that wait for the link: ten for each of
1,000 clients that move at once."""

CLUSTER_FILTERS: Final = 1_000_000
"""Filters that a node accepts from one other node; 10,000 clients with 100 subscriptions each."""

CLUSTER_CLASSES: Final = 256
"""Classes of receivers (a filter and a policy) that a node tells the others of: each may have a queue of its
own at every other node. Receivers beyond them count as receivers without a policy there."""

CLUSTER_POLICIES_BYTES: Final = 4 << 20
"""Text of all policies of these classes together: 64 of the largest policies, thousands of usual ones."""

CLUSTER_SHARED_PART: Final = 8
"""While private queues wait for a link, the shared one has an eighth of the capacity: what comes is soon in
reach of the policies, and a pack of all queues is paid for by hundreds of events."""

CLUSTER_TOMBSTONES: Final = 100_000
"""Deleted retained messages that a node remembers, so that no node brings one back: as many as are kept."""

CLUSTER_SPREAD_US: Final = 600_000_000
"""A retained message that was written this long ago is taken to be everywhere: ten times as long as a node
may be away. Later ones are told to all others again if the node that brought them is gone."""

CLUSTER_MEMBERS: Final = 1_000
"""Nodes of a cluster that a node keeps links to: queue, window and interest are kept for each of them."""

CLUSTER_FAN_OUT: Final = 8
"""Nodes of its zone that a node sends an event to by default: 1,000 nodes are reached in four hops; if one
fails, an origin sends again to an eighth of them at most."""

CLUSTER_FAN_OUT_MOST: Final = 1_000
"""Largest fan-out: every node of the largest cluster, which is a full mesh."""

CLUSTER_RELAY_BYTES: Final = 64 << 10
"""Bytes of different items in one relayed frame: two frames of one link, as nodes that share little are not
worth a relay. A larger item goes alone."""

CLUSTER_GATHER_US: Final = 5_000
"""Longest time that a forwarder keeps acknowledgements back for those of other nodes behind it: a hundredth
of the time after which a frame is sent again."""

CLUSTER_UNRELAYED_US: Final = 10_000_000
"""Time for which a node that was not reached through a forwarder gets everything without one: some leases, in
which the view learns what is wrong."""

CLUSTER_NAME_CHARACTERS: Final = 64
"""Longest name of a cluster, a node or a zone: it is part of keys and of every log line."""

CLUSTER_LEASE_S: Final = 3.0
"""A node that is silent for this long is away; the fabric notices a closed connection at once."""

CLUSTER_FORGET_S: Final = 60.0
"""A node that is away for this long is given up: what waits for it is abandoned and told so."""

CLUSTER_JOIN_S: Final = 5.0
"""A node looks for its cluster at most this long before it serves, and waits this long for another node of
its name to go: longer than the lease of a node that was killed."""

CLUSTER_DRAIN_RATE: Final = 100
"""Clients per second that a node sends to others unless told: a few per cent of what one can take."""

CLUSTER_DRAIN_MOST: Final = 10_000
"""Highest rate of clients sent away: a node takes about as many connections in a second."""

CLUSTER_CONNECTIONS: Final = 10_000
"""Connections to the port of the cluster that are remembered for a while, to tell which were refused."""

CLUSTER_REFUSED: Final = 1_000
"""Strange nodes that are remembered, so that the log names each of them once."""

CLUSTER_RECORDS: Final = 1_000_000
"""Sessions that a node knows the holder of, as their root or as the next one: 10,000 clients of 100 nodes."""

CLUSTER_HELD_EVENTS: Final = 100_000
"""Events held for one session on its way to a node: a second of a busy node; a session takes milliseconds."""

CLUSTER_PART_BYTES: Final = 64 << 10
"""Bytes of a session that go to another node at once: what the fabric carries in one piece."""

CLUSTER_KEEP: Final = 500
"""Sessions that a node tells an owner of in one question."""

CLUSTER_DIRECT_FRAME_BYTES: Final = CLUSTER_ITEM_BYTES + CLUSTER_WINDOW_BYTES
"""Largest frame on a direct connection: the largest item, with small ones beside it."""

CLUSTER_DIRECT_BUFFER_BYTES: Final = 4 * CLUSTER_WINDOW_BYTES
"""Bytes that wait for a direct connection, besides the frame that goes over this bound: four windows, since
frames for others pass, too, and frames are sent again. What comes then is dropped, as Zenoh does."""

CLUSTER_DIRECT_HELLO_BYTES: Final = 512
"""Largest frame of a handshake: nonce, proof and the name of a node take some 150 bytes."""

CLUSTER_DIRECT_HELLO_S: Final = 5.0
"""Time for connecting and for a handshake: seconds on a busy machine, three round trips elsewhere."""

CLUSTER_DIRECT_UNFINISHED: Final = 256
"""Connections without a finished handshake: as many nodes as may come at once when this one is started. One
more ends the oldest, which comes again."""

CLUSTER_DIRECT_RETRY_LEAST_S: Final = 2.0
"""Time between two attempts to have a direct connection, at first; frames go by Zenoh meanwhile."""

CLUSTER_DIRECT_RETRY_MOST_S: Final = 60.0
"""Longest time between two attempts: a firewall may be in the way for ever."""

CLUSTER_DIRECT_LASTING_S: Final = 10.0
"""A connection that has stood for this long was good: the next attempts begin with the shortest pause."""

CLUSTER_DIRECT_LOOK_S: Final = 1.0
"""How often connections are looked at: one that has brought something and got nothing in return is told that
this node is there, and one on which nothing has come for a lease is closed."""

CLUSTER_DIRECT_FAREWELL_S: Final = 1.0
"""Longest wait of a node that stops until the others have read what it has sent."""
