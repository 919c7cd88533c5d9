"""The figures of the paper on refreshing Bloom filters.

fig5_7.py  Figures 5 to 7: closed forms, false positives under bursts, pictures
sweep.py   one point of Figure 7, in this process or as a Spark task
"""
