"""Benchmarks: figures of Penstock beside a named rival, measured in the same run, as ratios.

Each module with a function `measure` is one benchmark; `penstock_lab.cli.bench` lists them by name.

result.py      what a benchmark returns, and how time is taken
start_time.py  starting a command against mosquitto_pub; memory of a node at rest
load/      a load generator in processes of its own
node/      the node against Mosquitto: throughput, latency, overload, clients that come back
cluster/   nodes as a cluster against a Mosquitto bridge and a NATS cluster
streams/   reliable streams against NATS JetStream
policy/    packing a queue against loops written by hand
channels/  polling of web channels: allocation, intervals, many channels on one process
diff/      the difference engine against a text diff and a hash
slots/     filters of slots against a filter or set for each slot
spark/     packing on Spark against SQL and pandas written by hand
"""
