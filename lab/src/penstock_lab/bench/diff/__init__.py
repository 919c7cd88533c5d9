"""The difference engine: false alarms and missed changes.

alarms.py        the benchmark: our engine, a text diff, a hash and changedetection.io's defaults
subscription.py  a subscription to a page, and what each contestant makes of its polls
corpus/          generated pages, noise and edits, seen and held out
feeds.py         feeds and JSON with noise and edits
feed_changes.py  feeds in ten dialects: is exactly what changed told?
speed.py         how fast pages are read and compared
"""
