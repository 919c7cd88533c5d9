"""The papers' experiments, and live ones of our own: what a paper reports beside what Penstock does.

Each module with a function `reproduce` is one experiment; `penstock_lab.cli.reproduce` lists them by name.

result.py     what an experiment returns, and its HTML page
pack/         PACK: queues that drop by policy
corona/       Corona: sharing the polling of web channels
gryphon/      Gryphon: congestion control of reliable streams; live/ runs it between real nodes
rbf/          refreshing Bloom filters
ces/          constant-rate flows under overload
streams/      reliable streams under `kill -9`, and sweeps of simulated faults
conformance/  byte-level MQTT cases against a broker
fuzz/         damaged exchanges against a live node, by seed
ward.py       a hospital ward behind a slow link, simulated
phones.py     sensors, a node and two phones on slow links, live
web_feed.py   a noisy page and a feed watched by a node, live
"""
