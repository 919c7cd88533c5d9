"""Valid exchanges with each door of a node, and the exchange of a seed and a number made of them.

mqtt.py       packets of both versions
websocket.py  handshakes, and MQTT in frames
http.py       requests of the HTTP API
stream.py     programs and nodes at the listener for streams
policy.py     policies in every form, by SUBSCRIBE, by HTTP and in this process
catalogue.py  all of them by name
"""
