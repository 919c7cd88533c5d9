"""When a channel may be fetched: pure deciders, one concern per file, each branch with a sentence why.

`decide` says `Fetch` or `Wait`; `learn` makes the next state of what the server answered. Each concern gives
a `Hold`: until when it keeps the channel from being fetched, and why. The longest one decides.
"""

from penstock.core.channels.polling.decider import decide, holds, why
from penstock.core.channels.polling.host_budget import HostBudget
from penstock.core.channels.polling.intents import Fetch, Intent, Wait
from penstock.core.channels.polling.learning import learn, take_hints
from penstock.core.channels.polling.manners import Manners
from penstock.core.channels.polling.outcome import Hop, Outcome
from penstock.core.channels.polling.restart import Life
from penstock.core.channels.polling.schedule import Plan, plan
from penstock.core.channels.polling.state import PollState

__all__ = [
    "Fetch",
    "Hop",
    "HostBudget",
    "Intent",
    "Life",
    "Manners",
    "Outcome",
    "Plan",
    "PollState",
    "Wait",
    "decide",
    "holds",
    "learn",
    "plan",
    "take_hints",
    "why",
]
