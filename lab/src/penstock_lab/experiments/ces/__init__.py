"""Constant-rate flows (circuit emulation) under overload.

overload.py       loss, jitter and delay while the link is overloaded, with and without reserved slots
overload_live.py  the same over real TCP, beside an idle link
live_figures.py   figures and rows of the latter
admission.py      more flows than a link can carry: some are admitted, others refused
periods.py        how well periods are estimated and packets predicted
"""
