"""Verdicts of access rules: which rule decides about something, and what other rules would change."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from penstock import limits
from penstock.mqtt.topics import shared_of
from penstock.node.access.acl import Acl
from penstock.node.config.schema import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

_Text = Annotated[str, msgspec.Meta(max_length=65_535)]

CLIENT: Final = "client"
"""Client id for which rules are compared: one that no rule names."""


class AccessQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """May a client publish on a topic, or subscribe to a filter?"""

    action: Literal["publish", "subscribe"]
    topic: _Text
    """A topic, or a topic filter to subscribe to."""
    user: _Text = ""
    """Empty: a client without a user name."""
    client_id: _Text = ""
    rules: Annotated[tuple[Rule, ...], msgspec.Meta(max_length=limits.HTTP_ACCESS_RULES)] | None = None
    """Rules to try in the place of those in force; null: those in force."""


class AccessDifference(msgspec.Struct, frozen=True):
    """Something that is allowed now and would not be, or the other way round."""

    user: str
    """Empty: a client without a user name."""
    action: Literal["publish", "subscribe"]
    topic: str
    allowed: bool
    """Whether it would be allowed."""


class AccessDifferences(msgspec.Struct, frozen=True):
    """Decisions that differ between two lists of rules, for existing users on topics that the rules name."""

    compared: int
    """Questions that were asked of both lists of rules."""
    total: int
    differences: tuple[AccessDifference, ...]
    """The first of them."""


def differences(before: Sequence[Rule], after: Sequence[Rule], users: Sequence[str]) -> AccessDifferences:
    """Ask both lists what each user may do on the topics that they name."""
    named = dict.fromkeys(("#", *(rule.topic for rule in (*after, *before))))  # `#`: what no rule names
    filters = list(named)[: limits.HTTP_ACCESS_TRIED]
    old, new = Acl(tuple(before)), Acl(tuple(after))
    compared = 0
    found: list[AccessDifference] = []
    for user in users:
        for filter_ in filters:
            meant = filter_.replace("%u", user or "user").replace("%c", CLIENT)
            topic = meant.replace("+", "x").replace("#", "x")
            for action, name, decide in (
                ("publish", topic, Acl.may_publish),
                ("subscribe", meant, Acl.may_subscribe),
            ):
                compared += 1
                allowed = decide(new, user, CLIENT, name)
                if decide(old, user, CLIENT, name) != allowed:
                    found.append(AccessDifference(user, action, name, allowed))  # type: ignore[arg-type]
    return AccessDifferences(compared, len(found), tuple(found[: limits.HTTP_ROWS]))


def is_allowed(rules: tuple[Rule, ...], asked: AccessQuestion) -> bool:
    """Whether a list of rules allows what is asked about."""
    acl = Acl(rules)
    decide = acl.may_publish if asked.action == "publish" else acl.may_subscribe
    return decide(asked.user, asked.client_id, asked.topic)


def deciding(rules: tuple[Rule, ...], asked: AccessQuestion, *, allowed: bool) -> int:
    """Return the number of the rule that decides; 0 if none applies.

    Behind the rule that decides nothing matters. So the list is cut and a rule that says the opposite put
    behind the rest: the verdict stays the same as long as the deciding rule is in it.
    """
    first = shared_of(asked.topic).filter.partition("/")[0]
    names = ("#", f"{first}/#") if first.startswith("$") else ("#",)
    opposite = tuple(Rule(allow=not allowed, topic=name) for name in names)
    decided = bisect_left(
        range(len(rules)),
        True,
        key=lambda last: is_allowed((*rules[: last + 1], *opposite), asked) == allowed,
    )
    return decided + 1 if decided < len(rules) else 0
