"""Which policy a subscription gets: its own, a registered one by name, the one the operator installed, or the
one that a control table gives to receivers of its class."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from penstock import limits
from penstock.core.queues import Ladder, Predictive, QueueOptions, Smoothing
from penstock.errors import InputError, MqttError, PolicyError
from penstock.model.instant import to_us
from penstock.mqtt.topics import check_filter, matches, shared_of
from penstock.node.store.control_table import TableFollower
from penstock.policy.text.forms import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.queues import Controller
    from penstock.node.config.schema import Config, Queues
    from penstock.node.store.control_table import TableVersion
    from penstock.policy.columns import Plan


INLINE: Final = "inline"
"""How a policy without a name is shown."""

_NAME: Final = re.compile(r"[^\s:{}<>\[\]]{1,256}")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A subscription's policy, or none."""

    plan: Plan | None = None
    name: str = ""
    """Name of the policy for people; empty without a policy."""
    asked: str = ""
    """The policy as the client wrote it; empty if the operator installed it."""


NO_POLICY: Final = Chosen()


class PolicyRow(msgspec.Struct, frozen=True):
    """A row of the control table `policies`."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    client: Annotated[str, msgspec.Meta(min_length=1, max_length=65_535)]
    """Client identifier; `*` matches any text, `?` any character."""
    filter: Annotated[str, msgspec.Meta(min_length=1, max_length=65_535)]
    policy: Annotated[str, msgspec.Meta(min_length=1, max_length=limits.POLICY_BYTES)]
    """Text of the policy."""


class Queueing:
    """Makes the queues of a node."""

    def __init__(self, queues: Queues) -> None:
        self.options = QueueOptions(capacity_events=queues.events, capacity_bytes=queues.bytes)
        self.firm = QueueOptions(
            capacity_events=max(queues.events, limits.FIRM_EVENTS),
            capacity_bytes=max(queues.bytes, limits.FIRM_BYTES),
        )
        """Options of queues for QoS 1 and 2 without a policy."""
        self.digests = queues.digests
        """Subscriptions that get digests in their stream: `policy`, `all` or `none`, unless one says."""
        self.fresh_us = to_us(queues.fresh_s) or None
        """Time that no event should wait longer, where neither client nor policy says."""
        self._controller = queues.controller

    def controller(self) -> Controller:
        """A new queue's chooser of levels."""
        chosen = self._controller
        if chosen.ladder == "none":
            return Predictive()
        return Ladder(smoothing=Smoothing(chosen.ladder), alpha=chosen.alpha, threshold=chosen.threshold)


class Policies:
    """The registered policies, the installed ones, and those clients brought along."""

    def __init__(self, config: Config) -> None:
        self._inline: OrderedDict[str, Plan] = OrderedDict()
        self._registered: dict[str, Plan] = {}
        self._install = config.install
        self._table: tuple[PolicyRow, ...] = ()
        self._of_table: dict[str, Plan] = {}
        """Plans of the control table, by the text of the policy."""
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        """Other registered and installed policies; PolicyError, and nothing is changed, if one is wrong."""
        registered = {name: _plan_of(text, source=name) for name, text in config.policies.items()}
        for each in config.install:
            if each.policy not in registered:
                raise PolicyError(f"no policy '{each.policy}' is registered", path="install")
        self._registered = registered
        self._install = config.install

    def take_table(self, rows: Sequence[PolicyRow]) -> None:
        """Other policies from the control table; PolicyError, and nothing is changed, if one is wrong."""
        plans = {row.policy: _plan_of(row.policy, source=row.name) for row in rows}
        self._table, self._of_table = tuple(rows), plans

    def names(self) -> list[str]:
        """Names of the registered policies."""
        return list(self._registered)

    def chosen(self, *, client_id: str, filter_: str, asked: str | None) -> Chosen:
        """The policy of a subscription; PolicyError says what is wrong with the one asked for."""
        if asked is not None:
            return self.asked(asked)
        plain = shared_of(filter_).filter
        for each in self._install:
            if fnmatchcase(client_id, each.client) and matches(each.filter, plain):
                return Chosen(self._registered[each.policy], each.policy)
        for row in self._table:
            if fnmatchcase(client_id, row.client) and matches(row.filter, plain):
                return Chosen(self._of_table[row.policy], row.name)
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
            plan = self._inline[text] = _plan_of(text, source="policy")
            if len(self._inline) > limits.INLINE_POLICIES:
                self._inline.popitem(last=False)
        else:
            self._inline.move_to_end(text)
        assert plan.policy is not None
        return Chosen(plan, plan.policy.name or INLINE, asked=text)


TABLE: Final = "policies"
COLUMNS: Final = {"name": "string", "client": "string", "filter": "string", "policy": "string"}


def policy_follower(folder: str, take: Callable[[list[PolicyRow]], None]) -> TableFollower:
    """A follower of the control table `policies`, which gives `take` the rows of each new version."""

    def taken(loaded: TableVersion) -> None:
        rows = loaded.rows(PolicyRow)
        for number, row in enumerate(rows):
            try:
                check_filter(row.filter, where="filter")
            except MqttError as error:
                raise InputError(f"row {number}: {error}", path=loaded.folder) from None
        try:
            take(rows)
        except PolicyError as error:
            raise InputError(str(error), path=loaded.folder) from None

    return TableFollower(Path(folder), TABLE, COLUMNS, keys=3, taken=taken)


def _plan_of(text: str, *, source: str) -> Plan:
    """Compile the text of a policy. Imports numpy with the first one: 12 MB that other nodes save."""
    from penstock.policy.columns import Plan  # noqa: PLC0415

    return Plan(parse(text, source=source))
