"""Time slots: filters that remember arrivals by slot, periods of flows, and slots reserved ahead.

Arrivals by slot:

    slot_sets.py     the interface of all filters and tables, and their hash functions
    shape.py         arrays and groups of a filter; each slot has one pair of them
    filter.py        the refreshing Bloom filter
    batch.py         many keys at once with numpy
    compiled.py      many keys at once with numba
    exact.py         the table without false positives
    wire.py          filters and tables as bytes
    formulas.py      expected false positive rates

Flows:

    period.py        the period of a flow, and the grid that follows it
    flows.py         the state of each flow; policing of its rate
    statistics.py    snapshots of flows
    links.py         links to receivers: places in the slots ahead, and the flows that have them
    reservation.py   slots reserved ahead, and the flows that hold them
    options.py       settings of the flow control
    lanes.py         the lane of a packet (Table 2), and the lanes of a receiver
    standing.py      states of flows, refusals and events; served flows that stopped sending
    unlisted.py      flows without an entry in the table, served by the filters alone
    control.py       admission, prediction and reservation for all flows
    retries.py       retries: recognised by their pattern, or announced by requests without a slot
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.lazy_names import lazy_names

if TYPE_CHECKING:
    from penstock.core.slots.control import FlowControl
    from penstock.core.slots.filter import RefreshingFilter
    from penstock.core.slots.options import ControlOptions
    from penstock.core.slots.shape import Shape
    from penstock.core.slots.slot_sets import flow_key, slots_of

__all__ = ["ControlOptions", "FlowControl", "RefreshingFilter", "Shape", "flow_key", "slots_of"]

_MODULES: Final = {
    "ControlOptions": "penstock.core.slots.options",
    "FlowControl": "penstock.core.slots.control",
    "RefreshingFilter": "penstock.core.slots.filter",
    "Shape": "penstock.core.slots.shape",
    "flow_key": "penstock.core.slots.slot_sets",
    "slots_of": "penstock.core.slots.slot_sets",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
