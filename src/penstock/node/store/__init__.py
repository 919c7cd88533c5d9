"""Files on disk, none of which knows the broker.

database.py       SQLite opened with care and written in batches; the lock of the data folder
tables.py         the SQLite tables of sessions, messages and retained messages
parquet.py        Parquet files: written under a hidden name, renamed when complete
recording.py      rows that wait in a bounded buffer while a thread writes them to Parquet
control_table.py  tables that Spark writes and a node follows
"""
