"""Channels: web pages and feeds as topics. The node fetches pages politely and publishes what changed.

Reading order:

channel.py    one channel: its stored facts, its subscribers, its state
status.py     snapshots of channels and of the poller, for the API, metrics and $SYS
registry.py   all channels and their subscribers, with the bounds and the host rules of the operator
store.py      the SQLite file: facts, versions, deltas, subscriptions, budgets of domains
writer.py     rows on their way to that file: changes at once, facts every few seconds
compare.py    compares a body with the stored version of its page; runs in a process of its own
reader.py     starts, limits and kills that process
results.py    handles the result of a poll: count, compare, store, publish, hand to the notifier
schedule.py   the interval of each channel, allocated over all channels
queue.py      channels that wait: in the heap of due times, for the budget of their host, for a free fetch
fetching.py   one fetch of a channel: robots.txt, budget of the host, what is learned from the answer
poller.py     the poller: adds, removes and runs channels
poll_log.py   polls and subscriptions as Parquet tables for Spark
websub.py     the WebSub subscriber: hubs that pages name push changes to the node
topics.py     MQTT subscriptions to web/<url> as subscriptions to channels
trials.py     rules tried on a page, without changing how it is watched
engine.py     puts the parts together and runs them
service.py    what subscribers and operators ask: subscribe, pause, list, explain
"""
