"""QoS 2 under `kill -9`: exactly once, whatever step of the two exchanges the node is killed at.

wire.py      MQTT packets as bytes, written by hand: nothing here knows the product's own codec
relay.py     stands between clients and node, sees every packet, loses packets and connections when told
clients.py   a conformant publisher and a conformant subscriber, as bytes and with paho-mqtt
nodes.py     starts nodes by forking, so that a restart takes a tenth of a second
kill.py      the experiment: where to kill, what is judged
"""
