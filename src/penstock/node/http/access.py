"""Users and access rules over HTTP: what is in force, whether something is allowed, and new entries.

The configuration file stays the one place where users and rules are kept (decision 0048): a new entry is made
and checked here, and put into the file by the operator.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
import yaml

from penstock import limits
from penstock.errors import RequestRefused
from penstock.mqtt.topics import check_filter, check_topic, shared_of
from penstock.node.access.acl import Acl
from penstock.node.access.passwords import hashed, problem_with_password, weakness_of
from penstock.node.config.problems import problem_with_name
from penstock.node.config.schema import Rule
from penstock.node.http.replies import body_of, checked, json_answer
from penstock.node.http.routes import API, Route

if TYPE_CHECKING:
    from aiohttp import web

    from penstock.node.broker.broker import Broker

_Text = Annotated[str, msgspec.Meta(max_length=65_535)]


class AccessInForce(msgspec.Struct, frozen=True):
    """Users and rules that the node uses at the moment; no password leaves the node."""

    anonymous: str
    """Where clients without a user name may connect from: loopback, always or never."""
    users: tuple[str, ...]
    """Names; empty: user names are not checked."""
    rules: tuple[Rule, ...]
    """The first rule that applies decides; empty: everything is allowed."""


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


class AccessAnswer(msgspec.Struct, frozen=True):
    """Whether it is allowed, and which rule decided."""

    allowed: bool
    rule: int
    """Number of the rule that decided, from 1 on; 0: no rule applies, or there are none."""
    why: str


class NewUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user to make an entry for."""

    name: _Text
    password: _Text


class UserEntry(msgspec.Struct, frozen=True):
    """An entry for `users` in the configuration."""

    entry: str
    """YAML, with the argon2 hash of the password."""
    warning: str
    """The weakness of the password; empty: none."""


ACCESS_ROUTES: Final = (
    Route(
        method="GET",
        path=f"{API}/access",
        handler="access",
        about="users and access rules in force",
        answer=(AccessInForce,),
    ),
    Route(
        method="POST",
        path=f"{API}/access/check",
        handler="access_check",
        about="whether a client may publish or subscribe, and which rule decides",
        body=AccessQuestion,
        answer=(AccessAnswer,),
    ),
    Route(
        method="POST",
        path=f"{API}/access/user",
        handler="access_user",
        about="make an entry of `users` with the hash of a password; nothing is kept",
        body=NewUser,
        answer=(UserEntry,),
    ),
)


class AccessHandlers:
    """Answers requests about users and access rules."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._hashing = asyncio.Semaphore(1)
        """A hash takes 64 MB and 0.2 s of processor time: one at a time."""

    async def access(self, _: web.Request) -> web.Response:
        """Answer with what is in force."""
        config = self._broker.config
        users = tuple(user.name for user in config.users)
        return json_answer(AccessInForce(config.anonymous, users, config.acl))

    async def access_check(self, request: web.Request) -> web.Response:
        """Answer whether something is allowed."""
        asked = await body_of(request, AccessQuestion)
        publishing = asked.action == "publish"
        if publishing:
            checked(check_topic, asked.topic, where="topic")
        else:
            checked(check_filter, asked.topic, where="topic")
        rules = self._broker.config.acl if asked.rules is None else asked.rules
        for number, rule in enumerate(rules, start=1):
            checked(check_filter, rule.topic, where=f"rules[{number - 1}].topic")
        allowed = _allowed(rules, asked)
        if not rules:
            return json_answer(AccessAnswer(allowed, 0, "There are no rules: everything is allowed."))
        deciding = _deciding(rules, asked, allowed=allowed)
        if not deciding:
            why = "No rule applies, so it is refused."
        else:
            why = f"Rule {deciding} {'allows' if allowed else 'refuses'} it."
        return json_answer(AccessAnswer(allowed, deciding, why))

    async def access_user(self, request: web.Request) -> web.Response:
        """Answer with an entry of `users`, made as `penstock passwd` makes it."""
        asked = await body_of(request, NewUser)
        for wrong, where in (
            (problem_with_name(asked.name), "name"),
            (problem_with_password(asked.password), "password"),
        ):
            if wrong:
                raise RequestRefused(HTTPStatus.UNPROCESSABLE_ENTITY, wrong, where=where)
        async with self._hashing:
            found = await asyncio.to_thread(hashed, asked.password)
        entry = yaml.safe_dump([{"name": asked.name, "password": found}], sort_keys=False, width=200)
        return json_answer(UserEntry(entry, weakness_of(asked.password)))


def _allowed(rules: tuple[Rule, ...], asked: AccessQuestion) -> bool:
    acl = Acl(rules)
    decide = acl.may_publish if asked.action == "publish" else acl.may_subscribe
    return decide(asked.user, asked.client_id, asked.topic)


def _deciding(rules: tuple[Rule, ...], asked: AccessQuestion, *, allowed: bool) -> int:
    """Return the number of the rule that decides; 0 if none applies.

    Behind the rule that decides nothing matters. So the list is cut and a rule that says the opposite put
    behind the rest: the verdict stays the same as long as the deciding rule is in it.
    """
    first = shared_of(asked.topic).filter.partition("/")[0]
    names = ("#", f"{first}/#") if first.startswith("$") else ("#",)
    opposite = tuple(Rule(allow=not allowed, topic=name) for name in names)
    decided = bisect_left(
        range(len(rules)), True, key=lambda last: _allowed((*rules[: last + 1], *opposite), asked) == allowed
    )
    return decided + 1 if decided < len(rules) else 0
