"""The figures of the paper on refreshing Bloom filters.

fig5_7.py  Figures 5 to 7: closed forms, false positives under bursts, pictures
storage.py the storage argument (§4): what a flow costs in a filter, in the exact table and as an entry
sweep.py   one point of Figure 7, in this process or as a Spark task
"""
