"""Noise: what changes on a page without news, learned from the page's own behaviour.

calendar.py   dates, clock times, weekdays and ages in a line, in some thirty languages
clocks.py     whether such an expression moved only because time passed
tokens.py     a line as tokens, and in which of them two lines differ
slots.py      which line of one look is which line of another
memory.py     how often each part moved; what is muted, on what evidence
study.py      one look against what was told: learns, then judges
confirm.py    what two fetches of one moment share
"""
