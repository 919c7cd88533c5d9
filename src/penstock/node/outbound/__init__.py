"""HTTP requests of the node to servers that others name: bounded, never into private networks.

Reading order:

guard.py   refuses addresses of private networks, after DNS and on every redirect
fetch.py   fetches one URL: bounded in time, size, redirects and decompression
render.py  runs the scripts of a page in a browser that has no network of its own
post.py    POST and GET without redirects, for webhooks and WebSub
"""
