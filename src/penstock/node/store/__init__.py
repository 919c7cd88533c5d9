"""Files on disk, none of which knows the broker.

database.py       SQLite files: opened with checks, written in transactions; the lock of the data folder
writer.py         group commit: a thread writes what collects, one transaction at a time
row_backlog.py    rows that wait for the group commit and can be cancelled until then
tables.py         the SQLite tables of sessions, messages and retained messages
parquet.py        Parquet files: written under a hidden name, renamed when complete
recording.py      rows that wait in a bounded buffer while a thread writes them to Parquet
control_table.py  tables that Spark writes and a node follows
"""
