"""Time slots: filters that remember arrivals by slot, periods of flows, and slots reserved ahead.

Memory of arrivals:

    slot_sets.py     the interface of all such memories, and the hash functions
    shape.py         arrays and groups of a filter, one pair of them for each slot
    filter.py        the refreshing Bloom filter, one key or many (numpy)
    compiled.py      many keys at once with numba
    exact.py         the table without false positives
    wire.py          filters and tables as bytes
    formulas.py      expected false positive rates

Flows:

    period.py        the period of a flow, and the grid that follows it
    flows.py         what is known about each flow; policing of its rate
    statistics.py    snapshots of flows
    reservation.py   slots reserved ahead, and the flows that hold them
    options.py       settings of the flow control
    lanes.py         how a packet is treated, and the lanes before a receiver
    control.py       admission, prediction and reservation for all flows
    retries.py       requests that find no slot, and when they may retry
"""
