"""The values that move through Penstock: events, digests and control items, all frozen.

instant.py         time as integer microseconds, and as text
values.py          attribute values: when two are equal and how they are ordered
sketches.py        distinct counts and quantiles in bounded space
digest.py          the summary of dropped events
digest_wire.py     a digest as MessagePack, as JSON and as a message
compact.py         a digest in as few bytes as possible
event.py           event, control item, and the stamp of a stream message
host.py            addresses of hosts: loopback, and which count as one
arrays.py          types of numpy arrays, for annotations
control_table.py   versions of tables that Spark writes and nodes load
recording.py       names of files by which a recording node and its readers agree
"""

from penstock.model.digest import AttributeSummary, Cause, Digest
from penstock.model.event import Control, Event, Item
from penstock.model.instant import SECOND_US, Instant

__all__ = ["SECOND_US", "AttributeSummary", "Cause", "Control", "Digest", "Event", "Instant", "Item"]
