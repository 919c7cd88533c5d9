"""Users and access rules over HTTP: what is in force, whether something is allowed, and changes.

Configuration is changed by the operator alone (decision 0048). What may be changed here is `access_file`, a
file of its own that the operator names for that (decision 0062): it is checked, written, and read again.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import yaml

from penstock import limits
from penstock.errors import ConfigError, NodeError, RequestRefused, counted, printable
from penstock.mqtt.topics import check_filter, check_topic
from penstock.node.access.passwords import hashed, problem_with_password, weakness_of
from penstock.node.config import checks
from penstock.node.config.access_file import AccessEntries, merged, read_entries, without, write_entries
from penstock.node.config.problems import problem_with_name
from penstock.node.config.schema import Rule, User
from penstock.node.http.answers import Done
from penstock.node.http.replies import body_of, checked, json_answer
from penstock.node.http.routes import API, Route
from penstock.node.http.verdicts import (
    AccessDifferences,
    AccessQuestion,
    deciding,
    differences,
    is_allowed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from penstock.node.broker.broker import Broker
    from penstock.node.config.schema import Config

log = logging.getLogger(__name__)

_Text = Annotated[str, msgspec.Meta(max_length=65_535)]


class AccessInForce(msgspec.Struct, frozen=True):
    """Users and rules that the node uses at the moment; no password leaves the node."""

    anonymous: str
    """Where clients without a user name may connect from: loopback, always or never."""
    users: tuple[str, ...]
    """Names; empty: user names are not checked."""
    rules: tuple[Rule, ...]
    """The first rule that applies decides; empty: everything is allowed."""
    editable: bool
    """Whether users and rules can be changed here: `access_file` and `http.token` are set."""
    own_users: tuple[str, ...]
    """Names in `access_file`; others are in the configuration."""
    own_rules: int
    """How many of the last rules are in `access_file`."""


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


class UserName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user to remove."""

    name: _Text


class NewRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules in the place of those in `access_file`; they apply after those of the configuration."""

    rules: Annotated[tuple[Rule, ...], msgspec.Meta(max_length=limits.HTTP_ACCESS_RULES)]


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
    Route(
        method="POST",
        path=f"{API}/access/users/set",
        handler="access_user_set",
        about="add a user to `access_file`, or change the password of one that is there",
        body=NewUser,
        answer=(Done,),
    ),
    Route(
        method="POST",
        path=f"{API}/access/users/remove",
        handler="access_user_remove",
        about="remove a user from `access_file`",
        body=UserName,
        answer=(Done,),
    ),
    Route(
        method="POST",
        path=f"{API}/access/rules/try",
        handler="access_rules_try",
        about="who could do what with other rules, and cannot now, or the other way round",
        body=NewRules,
        answer=(AccessDifferences,),
    ),
    Route(
        method="POST",
        path=f"{API}/access/rules/set",
        handler="access_rules_set",
        about="replace the rules in `access_file`",
        body=NewRules,
        answer=(Done,),
    ),
)


class AccessHandlers:
    """Answers requests about users and access rules."""

    def __init__(
        self,
        broker: Broker,
        *,
        token: Callable[[], str] = lambda: "",
        reload: Callable[[], bool] = lambda: False,
    ) -> None:
        """`token` is that of the API, `reload` has the node read its configuration again."""
        self._broker = broker
        self._token = token
        self._reload = reload
        self._changing = asyncio.Lock()
        self._hashing = asyncio.Semaphore(1)
        """A hash takes 64 MB and 0.2 s of processor time: one at a time."""

    async def access(self, _: web.Request) -> web.Response:
        """Answer with what is in force."""
        config = self._broker.config
        users = tuple(user.name for user in config.users)
        entries = await self._entries() if config.access_file else AccessEntries()
        own = tuple(user.name for user in entries.users if user.name in users)
        rules = len(config.acl) - len(without(config, entries).acl)
        editable = bool(config.access_file and self._token())
        return json_answer(AccessInForce(config.anonymous, users, config.acl, editable, own, rules))

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
        allowed = is_allowed(rules, asked)
        if not rules:
            return json_answer(AccessAnswer(allowed, 0, "There are no rules: everything is allowed."))
        number = deciding(rules, asked, allowed=allowed)
        if not number:
            why = "No rule applies, so it is refused."
        else:
            why = f"Rule {number} {'allows' if allowed else 'refuses'} it."
        return json_answer(AccessAnswer(allowed, number, why))

    async def access_user(self, request: web.Request) -> web.Response:
        """Answer with an entry of `users`, made as `penstock passwd` makes it."""
        asked = await body_of(request, NewUser)
        found = await self._hashed(asked)
        entry = yaml.safe_dump([{"name": asked.name, "password": found}], sort_keys=False, width=200)
        return json_answer(UserEntry(entry, weakness_of(asked.password)))

    async def _hashed(self, asked: NewUser) -> str:
        for wrong, where in (
            (problem_with_name(asked.name), "name"),
            (problem_with_password(asked.password), "password"),
        ):
            if wrong:
                raise RequestRefused(HTTPStatus.UNPROCESSABLE_ENTITY, wrong, where=where)
        async with self._hashing:
            return await asyncio.to_thread(hashed, asked.password)

    # -- changes ---------------------------------------------------------------------------------------

    async def access_user_set(self, request: web.Request) -> web.Response:
        """Add a user, or change a password."""
        self._check_editable()
        asked = await body_of(request, NewUser)
        user = User(asked.name, await self._hashed(asked))
        async with self._changing:
            entries = await self._entries()
            self._check_own(asked.name, entries)
            known = any(one.name == asked.name for one in entries.users)
            users = tuple(user if one.name == asked.name else one for one in entries.users)
            await self._change(msgspec.structs.replace(entries, users=users if known else (*users, user)))
        said = f"The password of {asked.name} is another one now." if known else f"{asked.name} may connect."
        weak = weakness_of(asked.password)
        return json_answer(Done(f"{said}{f' Note: {weak}.' if weak else ''}"))

    async def access_user_remove(self, request: web.Request) -> web.Response:
        """Remove a user."""
        self._check_editable()
        asked = await body_of(request, UserName)
        async with self._changing:
            entries = await self._entries()
            self._check_own(asked.name, entries)
            users = tuple(one for one in entries.users if one.name != asked.name)
            if users == entries.users:
                raise RequestRefused(
                    HTTPStatus.UNPROCESSABLE_ENTITY,
                    f"there is no user '{printable(asked.name)}'",
                    where="name",
                )
            await self._change(msgspec.structs.replace(entries, users=users))
        return json_answer(
            Done(f"{asked.name} may not connect any more; connections that are open stay until they end.")
        )

    async def access_rules_try(self, request: web.Request) -> web.Response:
        """Answer with what other rules would change."""
        asked = await body_of(request, NewRules)
        config = self._broker.config
        entries = await self._entries() if config.access_file else AccessEntries()
        rules = (*without(config, entries).acl, *asked.rules)
        self._check(msgspec.structs.replace(config, acl=rules))
        names = [user.name for user in config.users[: limits.HTTP_ACCESS_TRIED]]
        users = names if config.anonymous == "never" else ["", *names]
        return json_answer(await asyncio.to_thread(differences, config.acl, rules, users))

    async def access_rules_set(self, request: web.Request) -> web.Response:
        """Replace the rules of the file."""
        self._check_editable()
        asked = await body_of(request, NewRules)
        async with self._changing:
            await self._change(msgspec.structs.replace(await self._entries(), acl=asked.rules))
        return json_answer(
            Done(f"{counted(len(asked.rules), 'rule')} in force, after those of the configuration.")
        )

    def _check_editable(self) -> None:
        if not self._broker.config.access_file:
            raise RequestRefused(
                HTTPStatus.CONFLICT,
                "users and rules are changed in the configuration alone; with `access_file: access.yaml` in "
                "it, those of that file can be changed here",
            )
        if not self._token():
            raise RequestRefused(
                HTTPStatus.FORBIDDEN,
                "users and rules can be changed only with a token: set http.token or http.token_file",
            )

    def _check_own(self, name: str, entries: AccessEntries) -> None:
        own = {user.name for user in entries.users}
        if name not in own and any(user.name == name for user in self._broker.config.users):
            raise RequestRefused(
                HTTPStatus.CONFLICT,
                f"{printable(name)} is a user of the configuration: change it there",
                where="name",
            )

    def _check(self, config: Config) -> None:
        """Refuse a configuration whose users or rules are wrong."""
        for found in checks.problems(config):
            where, _, rest = found.path.partition("[")
            if where in ("users", "acl"):
                allowed = f"; allowed: {found.allowed}" if found.allowed else ""
                raise RequestRefused(
                    HTTPStatus.UNPROCESSABLE_ENTITY, f"{found.problem}{allowed}", where=f"{where}[{rest}"
                )

    async def _entries(self) -> AccessEntries:
        try:
            return await asyncio.to_thread(read_entries, Path(self._broker.config.access_file))
        except ConfigError as error:
            raise RequestRefused(HTTPStatus.CONFLICT, str(error)) from None

    async def _change(self, entries: AccessEntries) -> None:
        """Write the file and have the node read it; the file is as before if the node does not take it."""
        config = self._broker.config
        path = Path(config.access_file)
        before = await self._entries()
        self._check(merged(without(config, before), entries))
        try:
            await asyncio.to_thread(write_entries, path, entries)
            if self._reload():
                log.info("users or rules were changed over HTTP: %s", path)
                return
            await asyncio.to_thread(write_entries, path, before)
        except NodeError as error:
            raise RequestRefused(HTTPStatus.CONFLICT, str(error)) from None
        raise RequestRefused(
            HTTPStatus.CONFLICT,
            "the node does not take its configuration, and says why in its log; nothing changed",
        )
