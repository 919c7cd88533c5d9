"""MQTT packets as values, and their bytes in both versions.

framing.py      Framer.feed(chunk): whole frames from a byte stream
properties.py   MQTT 5 properties and the table of where each is allowed
connect.py      CONNECT, CONNACK, DISCONNECT, AUTH, PINGREQ, PINGRESP
publish.py      PUBLISH and its four acknowledgements
subscribe.py    SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK
packet.py       decode(frame, version) and encode(packet, version) for any packet
fanout.py       the fast path for PUBLISH: parts of a frame without objects
"""
