"""Notifications: people and programs without MQTT receive changes by chat, webhook, Apprise, feed or WebSub.

Reading order:

transport.py          the interface of a transport, the notification it sends, the text of a notification
subscriber_queue.py   what waits for one subscriber under one policy, and its rows in the store
outbox.py             all queues of subscribers, packed by policy, without disk and clock
writer.py             writes the rows of the outbox to SQLite
dispatch.py           sends what waits: pace, retries, giving up
webhook.py            transport: signed HTTP requests (Standard Webhooks)
apprise.py            transport: services that Apprise can notify
xmpp.py               transport: the chat bot
commands.py           commands of the chat bot
feeds.py              Atom feeds of channels and of subscribers
opml.py               lists of feeds, read and written (OPML 2.0)
websub_hub.py         transport: the WebSub hub of the node's own feeds
status.py             snapshots for the API, metrics and $SYS
subscribers.py        names of subscribers, checked: kind:address
service.py            puts the parts together
"""
