"""Noise: what changes on a page without news, learned from the page's own behaviour.

calendar.py   dates, clock times, weekdays and ages in a line, in some thirty languages
clocks.py     whether such an expression moved only because time passed
tokens.py     a line as tokens, and in which of them two lines differ
slots.py      which line of one look is which line of another
heat.py       how often a part moved, and whether that mutes it
memory.py     what is remembered of a page; what is muted, on what evidence
lists.py      what the lines of one place show together: turnover, order, columns
roles.py      lines at one place that say the same of several things
evidence.py   what is known of the told lines while one look is studied
learning.py   what moved since the last look, and what two fetches of one moment show differently
judging.py    one look against what was told: learns, then says which differences are news
confirm.py    what two fetches of one moment share
items.py      items of a feed: whether one changed by more than noise
"""
