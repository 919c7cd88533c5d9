"""Byte-level MQTT cases against a running broker.

vectors.py  reads the cases from JSON files
runner.py   plays each case on its own connection and judges the answers
"""
