"""Fuzzing of a live node: valid exchanges, changed by seed, while other clients must be served as before.

exchange.py   what is sent on one connection, files of it, and how the bytes of a valid one are changed
targets/      valid exchanges with each door of a node
player.py     sends exchanges, several at a time
bystander.py  clients that do nothing wrong, and complain
subject.py    the process under test: its doors, log, memory and files
leftovers.py  ends the sessions and retained messages that a run has left
run.py        one run, its judgement, and the search for the exchange behind a failure
"""
