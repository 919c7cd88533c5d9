"""Rigs: real processes and servers on loopback, for experiments, benchmarks and tests.

ports.py              ports for servers, each for one process
process.py            a process that says when it is ready, and can be killed and frozen
local_node.py         `penstock up` on free ports
cluster.py            a cluster of nodes
brokers.py            a node or Mosquitto as a broker of a benchmark
nats_server.py        NATS with JetStream
way.py                relays: one that can be cut and stalled, one of limited rate
raw_client.py         an MQTT connection on asyncio that does nothing by itself
blocking_client.py    an MQTT connection on a blocking socket
worker.py             a part of a load in a process of its own
returning_clients.py  a thousand clients in such a process that come back to waiting messages
tcp_bytes.py          bytes that TCP connections have carried, as the kernel counts them
web_site.py           a web server whose pages are functions
browser.py            a screenshot of a page by headless Chromium
"""
