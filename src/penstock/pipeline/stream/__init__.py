"""`pack_stream`: Structured Streaming with one packing queue per key.

pack_stream.py    the streaming transform, and the count of events it still holds
packer.py         rows and state between Spark's workers and the queue of a key
column_queue.py   one key's rows packed as columns, where that is possible
key_queue.py      one key's queue from trigger to trigger, on Arrow batches
drained_queue.py  the same with a drain: rows wait, and leave at its pace
"""
