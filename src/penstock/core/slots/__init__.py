"""Time slots: filters that remember arrivals by slot, periods of flows, slots reserved ahead.

`shape` says how slots become couples of array and group, `hashing` how keys become positions; `filter` is the
structure for one key at a time, `batch` (numpy) and `compiled` (numba) for many; `exact` is the table without
false positives, `slot_sets` what they all offer, `wire` their bytes, `formulas` what to expect of them.

Flows: `period` finds a rhythm in arrivals, `grid` follows it, `police` holds it to its rate, `pattern` has
that of retries; `reservation` keeps slots ahead, `flows` what is known of each flow, `control` puts it
together, `control_treatment` says how a packet is treated, `control_lanes` holds what waits, and
`control_requests` has what comes again if it finds no place.
"""
