"""A load generator for MQTT brokers, in processes that cost less than any broker.

worker.py     a part of the generator in a process of its own
main.py       the main module of such a process
client.py     the messages of a load, and a blocking MQTT connection
generator.py  senders, receivers, and messages paced to measure latency
relay.py      a broker that copies bytes unread: the ceiling of the generator
"""
