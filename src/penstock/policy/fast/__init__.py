"""The same meaning as `evaluate`, for full queues in a hurry: columns instead of a walk.

`columns` reads a queue's attributes into arrays, `masks` and its neighbours decide filter by filter,
`assemble` puts events and digests together again, `plan` is the door: compile a policy once, pack many queues
with it.
"""

from penstock.policy.fast.plan import Plan

__all__ = ["Plan"]
