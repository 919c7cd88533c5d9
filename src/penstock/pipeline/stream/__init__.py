"""`pack_stream`: Structured Streaming with one packing queue per key.

pack_stream.py  the streaming transform, and the count of events it still holds
key_queue.py    one key's queue from trigger to trigger, on Arrow batches
"""
