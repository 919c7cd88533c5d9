"""The experiments of the PACK paper.

fig8.py           Figure 8: a full queue before a slow link, simulated
fig8_live.py      the same over real TCP, beside Mosquitto
queue_figures.py  figures of runs of Figure 8, and their picture
fig11.py          Figure 11: a locator of mobile devices that falls behind a syslog stream, on Spark
campus.py         the trace, the locator and the statistics of Figure 11
"""
