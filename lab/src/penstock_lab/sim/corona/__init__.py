"""Corona, simulated: many nodes share the polling of web channels.

workload.py    channels, subscribers, update intervals
polls.py       who polls a channel when, and which poll sees a change
setting.py     size of the system, failures, methods of sharing polls
failures.py    owners, copies and messages that are lost with failed nodes
estimates.py   update intervals as owners estimate them from polls
schedules.py   the nodes' cooperation, and the schedules that follow from it
simulation.py  a whole run: load and detection time
"""
