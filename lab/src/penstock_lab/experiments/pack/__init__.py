"""The experiments of the PACK paper.

fig7.py           Figure 7: forwarding to 1 … 16 receivers, between two nodes
frozen_link.py    a link whose other node is frozen: split, packed by policies, drained
link_cost.py      shared and private queues of a link inside one process
fig8.py           Figure 8: a full queue before a slow link, simulated
fig8_live.py      the same over real TCP, beside Mosquitto
queue_figures.py  figures of runs of Figure 8, and their picture
fig9.py           Figure 9: clients move to another node, where messages wait for them
fig11.py          Figure 11: a locator of mobile devices that falls behind a syslog stream, on Spark
campus.py         the trace, the locator and the statistics of Figure 11
tables.py         Figure 11 through the pipeline's own tables
"""
