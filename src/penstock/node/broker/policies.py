"""Which policy a subscription gets, and its content filter.

A policy is the subscription's own, a registered one by name, or the one that the operator installed. A
content filter says which events the subscription wants at all and is asked before anything is queued. It
is written as one step of a policy or a list of them, all of which an event must pass:
`keep: {gt: 100, attribute: pulse}`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.queues import Ladder, Predictive, QueueOptions
from penstock.errors import PolicyError
from penstock.model.event import Event
from penstock.mqtt.topics import matches, shared_of
from penstock.policy import evaluate
from penstock.policy.columns import Plan
from penstock.policy.filters import Shape
from penstock.policy.text.forms import parse

if TYPE_CHECKING:
    from penstock.core.queues import Controller
    from penstock.model.instant import Instant
    from penstock.node.config.schema import Config, Queues
    from penstock.policy.nodes import Policy


class ContentFilter:
    """One content filter."""

    __slots__ = ("_policy", "text")

    def __init__(self, text: str) -> None:
        """Read a filter's text; PolicyError says what is wrong and where."""
        self.text = text
        self._policy = _read(text)

    def wants(self, event: Event, *, now_us: Instant) -> bool:
        """Whether an event passes."""
        left = evaluate.pack(self._policy, [event], level=1, now_us=now_us).items
        return isinstance(left[0], Event)


def _read(text: str) -> Policy:
    indented = text.strip().replace("\n", "\n  ")
    try:
        policy = parse(f"levels:\n- {indented}")
    except PolicyError as error:
        if error.line is not None and error.line > 1:
            error.line -= 1
            error.column = None if error.column is None else max(1, error.column - 2)
        error.path = error.path.removeprefix("levels[0]").lstrip(".")
        raise error.of("filter") from None
    if policy.highest != 1:
        raise PolicyError("one step or one list of steps, not levels", source="filter")
    for placed in policy.steps(1):
        if placed.step.filter.shape is not Shape.PREDICATE:
            raise PolicyError(
                f"'{placed.step.filter.name}' looks at more than one event; a content filter cannot",
                source="filter",
            )
    return policy


INLINE: Final = "inline"
"""How a policy without a name is shown."""

_NAME: Final = re.compile(r"[^\s:{}<>\[\]]{1,256}")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A subscription's policy, or none."""

    plan: Plan | None = None
    name: str = ""
    """As it is shown; empty without a policy."""
    asked: str = ""
    """What the client wrote; empty if it was installed."""


NO_POLICY: Final = Chosen()


class Queueing:
    """How the queues of a node are made."""

    def __init__(self, queues: Queues) -> None:
        self.options = QueueOptions(capacity_events=queues.events, capacity_bytes=queues.bytes)
        self.firm = QueueOptions(
            capacity_events=max(queues.events, limits.FIRM_EVENTS),
            capacity_bytes=max(queues.bytes, limits.FIRM_BYTES),
        )
        """For QoS 1 and 2 without a policy."""
        self._kind = queues.controller

    def controller(self) -> Controller:
        """A new queue's chooser of levels."""
        return Predictive() if self._kind == "predictive" else Ladder()


class Policies:
    """The registered policies, the installed ones, and those clients brought along."""

    def __init__(self, config: Config) -> None:
        self._inline: OrderedDict[str, Plan] = OrderedDict()
        self._registered: dict[str, Plan] = {}
        self._install = config.install
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        """Other registered and installed policies; PolicyError, and nothing is changed, if one is wrong."""
        registered = {name: Plan(parse(text, source=name)) for name, text in config.policies.items()}
        for each in config.install:
            if each.policy not in registered:
                raise PolicyError(f"no policy '{each.policy}' is registered", path="install")
        self._registered = registered
        self._install = config.install

    def names(self) -> list[str]:
        """Registered policies."""
        return list(self._registered)

    def chosen(self, *, client_id: str, filter_: str, asked: str | None) -> Chosen:
        """The policy of a subscription; PolicyError says what is wrong with the one asked for."""
        if asked is not None:
            return self.asked(asked)
        plain = shared_of(filter_).filter
        for each in self._install:
            if fnmatchcase(client_id, each.client) and matches(each.filter, plain):
                return Chosen(self._registered[each.policy], each.policy)
        return NO_POLICY

    def asked(self, text: str) -> Chosen:
        """A registered policy by its name, or the one a text describes."""
        text = text.strip()
        plan = self._registered.get(text)
        if plan is not None:
            return Chosen(plan, text, asked=text)
        if _NAME.fullmatch(text):
            near = get_close_matches(text, self._registered, n=1)
            raise PolicyError(
                f"no policy '{text}' is registered",
                source="policy",
                near=near[0] if near else "",
                allowed=", ".join(self._registered) or "a policy's text; none is registered here",
            )
        plan = self._inline.get(text)
        if plan is None:
            plan = self._inline[text] = Plan(parse(text, source="policy"))
            if len(self._inline) > limits.INLINE_POLICIES:
                self._inline.popitem(last=False)
        else:
            self._inline.move_to_end(text)
        assert plan.policy is not None
        return Chosen(plan, plan.policy.name or INLINE, asked=text)
