"""The links of a cluster under random faults, in virtual time: a run is repeated exactly by its seed."""
