"""The vectorised evaluator: the same results as `evaluate`, on columns instead of event by event.

frame.py      the attributes of a queue's events as arrays
deciders.py   what a filter's decider gets and returns
by_value.py   filters that look at one event's value
by_order.py   filters that compare events, or use their position, time or rank
assemble.py   kept events and digests put together again
plan.py       Plan: compile a policy once, pack many queues with it
"""

from penstock.policy.columns.plan import Plan

__all__ = ["Plan"]
