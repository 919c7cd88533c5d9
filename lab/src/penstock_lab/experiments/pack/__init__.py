"""The experiments of the PACK paper.

fig8.py    Figure 8: a full queue before a slow link, simulated
fig11.py   Figure 11: a locator of mobile devices that falls behind a syslog stream, on Spark
campus.py  the trace, the locator and the statistics of Figure 11
"""
