"""Pages of our own making: sites, noise and edits, split into seen and held-out kinds.

sites.py   pages of six kinds of sites in six languages
words.py   the words of these languages
noises.py  kinds of noise: what time, visitors and servers do to a page
edits.py   kinds of edits: what a subscriber should be told of
unseen.py  more kinds of noise and edits, held out
fresh.py   kinds of noise that were held out until decision 0046
boards.py  kinds of noise by which the model of decision 0046 was made, seen
last.py    kinds of noise that were written after that model, held out
split.py   which kinds are held out
"""
