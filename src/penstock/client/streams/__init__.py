"""Blocking readers and writers of a node's reliable streams; no event loop, so Spark workers can use them.

reader.py      StreamReader: every message of a stream once and in order; StreamMessage
writer.py      StreamWriter: every message into a stream once and in order
connection.py  the blocking connection below both, which reconnects; stream:// addresses
"""
