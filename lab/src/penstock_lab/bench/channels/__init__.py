"""Polling of web channels.

allocation.py      sharing polls among channels: time to compute, delay at the same load
intervals.py       polling intervals against the rules of feed readers
feeds.py           simulated feeds that change and are polled by a rule
poller.py          20,000 channels on one process
poll_processes.py  the web server and the two pollers of that benchmark, each a process
"""
