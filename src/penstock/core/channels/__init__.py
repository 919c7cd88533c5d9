"""Web channels: a URL becomes a topic whose messages are the changes of the page.

address.py       canonical URL, topic, id and registrable domain of a channel
change_rate.py   how often a channel changes, estimated from item dates or polls
allocation/      how often each channel is polled for a given total load
polling/         when a channel may be fetched
difference/      what a body contains and what in it is new
picking.py       selectors for a line of a page
delta.py         the change between two versions of a channel
cooperation.py   several nodes agree on polling levels (Corona)
subscriptions.py  interfaces between channels and notifications
watch_list.py    lists of watched pages that other programs export
websub.py        WebSub rules: hubs, signatures, leases
"""
