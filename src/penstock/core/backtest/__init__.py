"""Measures what becomes of a recorded stream under candidate policies. Spark and a single process share it.

settings.py    candidates, settings and results of a backtest
account.py     one recorded queue under several candidates; accounts of queues add up to that of a stream
measures.py    what a policy is for: what matters, what is unusual, extremes, the age of the newest value
holding.py     the error of a receiver that holds the last value it got
histogram.py   histograms and time slices that add up
"""
