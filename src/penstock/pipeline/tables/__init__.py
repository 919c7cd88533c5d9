"""Tables that the pipeline reads and writes.

schemas.py         schemas of digests and effects
files.py           recorded rows on this machine, read without Spark
recorded.py        recorded events from Parquet, JSON lines or CSV
folders.py         a folder of files as a stream, and a stream as a folder
channels.py        polls and subscriptions of channels, and the factors of each channel
control_tables.py  versions of the tables that nodes load
"""
