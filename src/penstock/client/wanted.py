"""What a subscription asks of the node, and of its own buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock import limits
from penstock.core.queues import DropOldestQueue, PackingQueue, QueueOptions
from penstock.errors import InputError, PolicyError
from penstock.mqtt.topics import SHARE
from penstock.policy.fast import Plan
from penstock.policy.nodes import Policy
from penstock.policy.read import parse
from penstock.policy.write import to_json

if TYPE_CHECKING:
    from penstock.core.queues import BoundedQueue
    from penstock.mqtt.subscribe import Subscription as Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a subscription asks for."""

    options: Options
    user: tuple[tuple[str, str], ...] = ()
    """User properties of the SUBSCRIBE: policy and content filter."""
    start: int | None = None
    """Where in reliable streams to begin; None: with what comes from now on."""
    plan: Plan | None = None
    """The policy, if it can be read here."""
    when_slow: Literal["wait", "pack"] = "wait"
    buffer_events: int = limits.QUEUE_EVENTS
    acknowledge: Literal["taken", "done"] = "taken"

    def __post_init__(self) -> None:
        if self.acknowledge not in ("taken", "done"):
            raise InputError(f"acknowledge is '{self.acknowledge}'; it is 'taken' or 'done'")
        if self.when_slow not in ("wait", "pack"):
            raise InputError(f"when_slow is '{self.when_slow}'; it is 'wait' or 'pack'")

    @property
    def alone(self) -> bool:
        """Whether a node sends it a copy of its own of what other subscriptions of the client get, too."""
        return bool(self.user) or self.options.no_local or self.options.filter.startswith(SHARE)

    @property
    def choosy(self) -> bool:
        """Whether a node does not send it everything that its filter matches."""
        return self.options.no_local or any(name == "filter" for name, _ in self.user)

    def queue(self) -> BoundedQueue:
        """A buffer for what the program has not taken."""
        options = QueueOptions(capacity_events=self.buffer_events)
        if self.plan is not None:
            return PackingQueue(self.plan, options)
        if self.options.qos:
            # As on a node: QoS 1 and 2 lose nothing by policy, the bound is where the client protects itself.
            options = QueueOptions(
                capacity_events=max(self.buffer_events, limits.FIRM_EVENTS), capacity_bytes=limits.FIRM_BYTES
            )
        return DropOldestQueue(options)


def told(*, policy: Policy | str | None, content: str | None) -> tuple[tuple[str, str], ...]:
    """The user properties of a SUBSCRIBE."""
    written = to_json(policy, compact=True) if isinstance(policy, Policy) else policy
    said = {"policy": written, "filter": content}
    return tuple((name, text) for name, text in said.items() if text is not None)


def first_tick(start: str | int | None) -> int | None:
    """Where to begin in reliable streams; InputError if it is no place."""
    if start == "earliest":
        return 0
    if isinstance(start, str) or (start is not None and start < 0):
        raise InputError(f"start is {start!r}; it is 'earliest' or a tick")
    return start


def plan_of(policy: Policy | str) -> Plan:
    """A policy, or its text, to be used here; PolicyError if it cannot be understood."""
    return Plan(policy if isinstance(policy, Policy) else parse(policy, source="policy"))


def plan_here(policy: Policy | str | None) -> Plan | None:
    """The policy for the client's own buffer; None for one that only the node knows."""
    try:
        return None if policy is None else plan_of(policy)
    except PolicyError:
        return None  # a name, or a mistake that the node will explain
