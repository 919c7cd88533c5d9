"""Constant-rate flows (circuit emulation) under overload.

overload.py  loss, jitter and delay while the link is overloaded, with and without reserved slots
periods.py   how well periods are estimated and packets predicted
"""
