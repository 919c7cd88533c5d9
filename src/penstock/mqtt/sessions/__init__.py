"""The rules of MQTT connections and sessions, for server and client.

identifiers.py   packet identifiers and topic aliases
exchange.py      QoS 1 and 2 in both directions
session.py       what a server keeps for a client: subscriptions, will, expiry
server.py        ServerConnection: which packet may come when, keep alive
client.py        ClientSession and ClientConnection
"""
