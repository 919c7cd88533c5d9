"""What moves through Penstock: events, digests and control items, all frozen values.

`event` holds the three kinds of queue item, `digest` the summary of dropped events, `digest_wire` its two
serial forms, `values` the meaning of attribute values, `sketches` the mergeable DataSketches.
"""

from penstock.model.digest import AttributeSummary, Cause, Digest
from penstock.model.event import Control, Event, Item
from penstock.model.instant import SECOND_US, Instant

__all__ = ["SECOND_US", "AttributeSummary", "Cause", "Control", "Digest", "Event", "Instant", "Item"]
