"""What can be known about a running node.

status.py      frozen snapshots of the node, its clients and subscriptions
sys_topics.py  the snapshot as retained $SYS topics
logs.py        the log on standard error
recorder.py    messages of chosen topics recorded to Parquet
"""
