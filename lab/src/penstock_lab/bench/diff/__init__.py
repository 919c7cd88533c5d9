"""The difference engine: false alarms and missed changes.

alarms.py        the benchmark: our engine, a text diff and a hash on the same cases
web_pages.py     web pages with noise and edits
feeds.py         feeds and JSON with noise and edits
feed_changes.py  feeds in ten dialects: is exactly what changed told?
"""
