"""Generated cases by seed for queues that keep time: a policy, what arrives when, and the drain."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from penstock.core.queues import drain
from penstock.model import Event
from penstock.policy.text.python_form import drop, keep, policy, when

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.queues import Drain
    from penstock.policy.nodes import Policy, Step

SECOND = 1_000_000


@dataclass(frozen=True)
class Case:
    """A policy, what arrives, and how fast it is drained."""

    policy: Policy
    events: list[Event]
    capacity: int
    drain: Drain


def case(seed: int) -> Case:
    """The case of a seed."""
    dice = Random(seed)
    steps: list[Step] = [
        drop.within(0, dice.randint(1, 90)),
        drop.uniq(),
        drop.delta(dice.randint(1, 9)),
        drop.every(dice.randint(2, 4)),
        drop.older(dice.choice([0.1, 0.5, 2])),
        drop.random(dice.random()),
        keep.latest_by("$topic"),
        keep.latest(dice.randint(1, 9)),
    ]
    urgent: list[Sequence[Step]] = [
        [],
        [when.gt(80)],
        [when.lt(10), when(attribute="$topic").match("1$")],
    ]
    digests: list[Any] = [[], ["mean", "max"], {"$value": ["mean"], "every": "1s"}, {"share": 1}]
    made = policy(
        *dice.sample(steps, dice.randint(1, 4)),
        digest=dice.choice(digests),
        fresh=dice.choice([None, 0.05, 0.3, 1, 4]),
        urgent=dice.choice(urgent),
    )
    now_us = 10 * SECOND
    events = []
    for seq in range(dice.randint(1, 90)):
        now_us += dice.choice([0, 1_000, 20_000, dice.randrange(300_000)])
        body = str(dice.randint(0, 99)).encode().ljust(dice.choice([2, 2, 30, 200]))
        events.append(Event(f"t/{dice.randint(0, 3)}", body, now_us, sender="s", seq=seq))
    rate = drain(dice.choice(["100B/s", "400B/s", "2kB/s", "5/s", "30/s"]))
    return Case(made, events, dice.choice([4, 10, 50, 1_000]), rate)
