"""Time slots: filters that remember arrivals by slot, periods of flows, slots reserved ahead."""
