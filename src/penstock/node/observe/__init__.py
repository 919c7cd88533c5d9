"""Figures of a running node: one snapshot, and everything that is made from it.

status.py      the snapshot of the whole node: the broker's, and one of each part that is on
rows.py        the snapshot as people look at it: totals, clients, subscriptions, those in trouble first
history.py     the last minutes of each subscription
watch.py       one snapshot per second for the history, live views, the API and metrics
tables.py      which numbers of the snapshot are metrics and $SYS topics; figures.py, how they become such
metrics.py     metrics in Prometheus' text format
sys_topics.py  figures as retained $SYS topics
logs.py        the log on standard error
recorder.py    messages of chosen topics recorded to Parquet
"""
