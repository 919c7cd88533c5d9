"""Reliable streams against NATS JetStream.

jetstream.py    the benchmark: publishing, latency, catching up, cost of a subscriber
publishers.py   numbered messages, and clients that publish them
subscribers.py  clients that receive live or catch up
"""
