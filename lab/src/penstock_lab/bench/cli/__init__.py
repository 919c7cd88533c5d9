"""The command line against Mosquitto's: how long a command takes to start, what a node at rest holds.

start_time.py  `penstock --version`, `--help` and `pub` beside `mosquitto_pub`; memory of both brokers
"""
