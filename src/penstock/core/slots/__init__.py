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
    reservation.py   slots reserved ahead, and the flows that hold them
    options.py       settings of the flow control
    lanes.py         the lane of a packet, and the lanes of a receiver
    control.py       admission, prediction and reservation for all flows
    silence.py       served flows that stopped sending
    retries.py       requests without a slot, and when they may retry
"""
