"""How a packet is treated, as the state of its flow says (the paper's Table 2), and what is told of flows.

    not served                                     best effort
    served, in its slot                            reserved: ahead of everything else
    served, outside its slot                       late: behind everything else
    served, and the next reservation failed        this packet as above; then the flow is served no more

The rows are checked in this order, the last one last; the paper leaves it open. A packet beyond its flow's
rate (`police`) is late.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.slots.flows import Flow
    from penstock.model.instant import Instant


class Lane(IntEnum):
    """In which order packets leave; control messages go before all of these."""

    RESERVED = 0
    BEST_EFFORT = 1
    LATE = 2


class Happening(IntEnum):
    """What the owner of flows should know."""

    ADMITTED = 0
    REFUSED = 1
    LEFT = 2
    SILENT = 3
    BACK = 4


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """Something happened to a flow."""

    what: Happening
    flow: Flow
    at_us: Instant
    reason: str = ""
    retry_us: int = 0
    """Of REFUSED and LEFT: in how long it is tried again; 0: not by itself."""


def treated(*, served: bool, on_time: bool, reserved: bool) -> tuple[Lane, bool]:
    """The table: the lane, and whether the flow stays served."""
    if not served:
        return Lane.BEST_EFFORT, False
    return (Lane.RESERVED if on_time else Lane.LATE), reserved
