"""A load generator for MQTT brokers, in processes that cost less than any broker.

client.py     the shape and messages of a load
generator.py  senders, receivers, and messages paced to measure latency
nats.py       a blocking connection to NATS
relay.py      a broker that copies bytes unread: the ceiling of the generator
"""
