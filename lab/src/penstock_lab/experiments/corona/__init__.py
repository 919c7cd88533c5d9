"""The experiments of the Corona paper.

table2.py      Table 2: detection time and load of each scheme
deployment.py  Figures 9 and 10: 60 nodes, subscriptions that arrive over time
figures.py     Figures 3 to 8, failures of nodes, dissemination of deltas
plots.py       the pictures
"""
