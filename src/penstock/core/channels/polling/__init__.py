"""Decides when a channel may be fetched, without I/O, and gives each reason as a sentence.

`decide` returns `Fetch` or `Wait`; `learn` computes the next state from the server's response. Each concern
returns a `Hold`: until when the channel must not be fetched, and why. The longest hold decides.

    values.py        settings, state of a channel's server, outcome of a fetch, intents and holds
    http_rules.py    validators, freshness, Retry-After and redirects
    failures.py      back-off, pages that are gone, network outages, crash loops
    robots.py        robots.txt
    host_budget.py   fetches and bytes per registrable domain
    schedule.py      the phase of a channel within its interval
    decider.py       `decide` and `learn`
"""

from penstock.core.channels.polling.decider import decide, learn, take_hints, why
from penstock.core.channels.polling.failures import Life
from penstock.core.channels.polling.host_budget import HostBudget
from penstock.core.channels.polling.schedule import PollPlan, plan
from penstock.core.channels.polling.values import (
    Fetch,
    FetchOutcome,
    Manners,
    PollIntent,
    PollState,
    RedirectHop,
    Wait,
)

__all__ = [
    "Fetch",
    "FetchOutcome",
    "HostBudget",
    "Life",
    "Manners",
    "PollIntent",
    "PollPlan",
    "PollState",
    "RedirectHop",
    "Wait",
    "decide",
    "learn",
    "plan",
    "take_hints",
    "why",
]
