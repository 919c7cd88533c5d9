"""The access list: who may publish on which topics and subscribe to which filters.

The first rule that applies decides; if none applies, the request is refused. To a topic a rule applies if
its filter matches, as MQTT defines it (`#` does not match `$SYS/…`). A subscription is for many topics: a
rule that allows applies if its filter covers all of them, a rule that denies if its filter overlaps any of
them. So after `deny secret/#`, `allow #`, nobody can subscribe to `#`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock import limits
from penstock.mqtt.topics import DIGEST_TOPICS, POLICY_TOPICS, shared_of
from penstock.node.config.problems import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.node.config.schema import Rule

_STANDS_FOR: Final = re.compile("%[uc]")


class _Pattern(NamedTuple):
    """A topic filter as levels, None for `+`; `rest`: whether it ends with `#`."""

    levels: tuple[str | None, ...]
    rest: bool

    @property
    def starts_wild(self) -> bool:
        return self.levels[0] is None if self.levels else self.rest

    @property
    def starts_dollar(self) -> bool:
        return bool(self.levels and self.levels[0] and self.levels[0].startswith("$"))

    def covers(self, other: _Pattern) -> bool:
        """Return whether every topic that matches the other filter matches this one."""
        if (self.starts_wild and other.starts_dollar) or len(other.levels) < len(self.levels):
            return False
        if (other.rest or len(other.levels) > len(self.levels)) and not self.rest:
            return False
        return all(
            mine is None or mine == theirs for mine, theirs in zip(self.levels, other.levels, strict=False)
        )

    def overlaps(self, other: _Pattern) -> bool:
        """Return whether some topic matches both filters."""
        if (self.starts_wild and other.starts_dollar) or (self.starts_dollar and other.starts_wild):
            return False
        if len(self.levels) > len(other.levels) and not other.rest:
            return False
        if len(self.levels) < len(other.levels) and not self.rest:
            return False
        return all(
            mine is None or theirs is None or mine == theirs
            for mine, theirs in zip(self.levels, other.levels, strict=False)
        )


def _pattern(filter_: str, names: dict[str, str]) -> _Pattern:
    """Split a filter into levels and put in names; wildcards and slashes in a name are plain characters."""
    levels = filter_.split("/")
    rest = levels[-1] == "#"
    return _Pattern(
        tuple(
            None if level == "+" else _STANDS_FOR.sub(lambda found: names[found[0]], level)
            for level in (levels[:-1] if rest else levels)
        ),
        rest,
    )


def _glob(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of client ids: `*` is any text, `?` any character.

    Runs of `*` count as one, and each is possessive up to the next literal: matching takes linear time per
    star, whatever client id somebody chooses.
    """
    parts = [re.escape(part).replace(r"\?", ".") for part in re.split(r"\*+", pattern)]
    first, *others = parts
    middle = "".join(f"(?>.*?{part})" for part in others[:-1])
    last = f".*{others[-1]}" if others else ""
    return re.compile(f"{first}{middle}{last}", re.DOTALL)


class _View:
    """The rules that apply to one user with one client id, with a cache of decisions."""

    __slots__ = ("_publish", "_publishing", "_subscribe", "_subscribing")

    def __init__(self, lines: Iterable[tuple[bool, str, _Pattern]]) -> None:
        found = list(lines)
        self._publish = [(allow, pattern) for allow, action, pattern in found if action != "subscribe"]
        self._subscribe = [(allow, pattern) for allow, action, pattern in found if action != "publish"]
        self._publishing: dict[str, bool] = {}
        self._subscribing: dict[str, bool] = {}

    def may_publish(self, topic: str) -> bool:
        decided = self._publishing.get(topic)
        if decided is None:
            asked = _Pattern(tuple(topic.split("/")), rest=False)
            decided = next((allow for allow, pattern in self._publish if pattern.covers(asked)), False)
            _remember(self._publishing, topic, decided)
        return decided

    def may_publish_within(self, filter_: str) -> bool:
        """Return whether the client may publish on at least one topic of the filter."""
        asked = _pattern(filter_, {"%u": "%u", "%c": "%c"})
        for allow, pattern in self._publish:
            if allow and pattern.overlaps(asked):
                return True
            if not allow and pattern.covers(asked):
                return False
        return False

    def _may_publish_everywhere(self, filter_: str) -> bool:
        """Return whether the client may publish on all topics of the filter."""
        asked = _pattern(filter_, {"%u": "%u", "%c": "%c"})
        for allow, pattern in self._publish:
            if pattern.covers(asked):
                return allow
            if not allow and pattern.overlaps(asked):
                return False
        return False

    def may_subscribe(self, filter_: str) -> bool:
        decided = self._subscribing.get(filter_)
        if decided is None:
            # Whoever may read events may read the digests of them, unless a rule names the digests.
            whole = shared_of(filter_).filter
            if whole.startswith(POLICY_TOPICS):  # for whoever may publish there
                return self._may_publish_everywhere(whole.removeprefix(POLICY_TOPICS))
            names = {"%u": "%u", "%c": "%c"}
            asked = [_pattern(one, names) for one in {whole, whole.removeprefix(DIGEST_TOPICS)}]
            decided = next(
                (
                    allow
                    for allow, pattern in self._subscribe
                    if any(pattern.covers(one) if allow else pattern.overlaps(one) for one in asked)
                ),
                False,
            )
            _remember(self._subscribing, filter_, decided)
        return decided


def _remember(decisions: dict[str, bool], asked: str, decided: bool) -> None:
    if len(decisions) >= limits.ACL_DECISIONS:
        decisions.clear()
    decisions[asked] = decided


class Acl:
    """An access list. Rules are prepared once for each user and client id."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = [(rule, _glob(rule.client)) for rule in rules]
        self._views: dict[tuple[str, str], _View] = {}

    @property
    def open(self) -> bool:
        """Whether there are no rules, so that everything is allowed."""
        return not self._rules

    def may_publish(self, user: str, client_id: str, topic: str) -> bool:
        """Return whether a client may publish on a topic; `user` is empty for an anonymous client."""
        return self.open or self._view(user, client_id).may_publish(topic)

    def may_publish_within(self, user: str, client_id: str, filter_: str) -> bool:
        """Return whether a client may publish on at least one topic of a filter."""
        return self.open or self._view(user, client_id).may_publish_within(filter_)

    def may_subscribe(self, user: str, client_id: str, filter_: str) -> bool:
        """Return whether a client may subscribe to a filter, shared or not."""
        return self.open or self._view(user, client_id).may_subscribe(filter_)

    def _view(self, user: str, client_id: str) -> _View:
        view = self._views.get((user, client_id))
        if view is None:
            if len(self._views) >= limits.ACL_CLIENTS:
                self._views.clear()
            view = self._views[user, client_id] = _View(self._lines(user, client_id))
        return view

    def _lines(self, user: str, client_id: str) -> Iterator[tuple[bool, str, _Pattern]]:
        names = {"%u": user, "%c": client_id}
        for rule, client in self._rules:
            if not (rule.user == "*" or (rule.user == user if user else rule.user == ANONYMOUS)):
                continue
            if "%u" in rule.topic and not user:
                continue  # anonymous clients have no name, so topics of one's own name are not theirs
            if client.fullmatch(client_id):
                yield rule.allow, rule.action, _pattern(rule.topic, names)
