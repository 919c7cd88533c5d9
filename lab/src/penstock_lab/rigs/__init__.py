"""Rigs: real processes and servers on loopback, for experiments, benchmarks and tests.

ports.py        ports for servers, each for one process
local_node.py   `penstock up` on free ports
brokers.py      a node or Mosquitto as a broker of a benchmark
nats_server.py  NATS with JetStream
slow_link.py    a relay of limited rate before a receiver
web_site.py     a web server whose pages are functions
browser.py      a screenshot of a page by headless Chromium
"""
