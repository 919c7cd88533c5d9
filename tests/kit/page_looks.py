"""A page that is looked at as a node does, without a node: what is told at each look."""

from __future__ import annotations

from penstock.core.channels.delta import Delta, apply
from penstock.core.channels.difference import Content, Rules, Versions, read

URL = "https://x.example/"
NOW = 1_778_580_000_000_000
MINUTE = 60_000_000
HOUR = 60 * MINUTE


def html(body: str) -> Content:
    """A page as it is read."""
    return read(body.encode(), content_type="text/html", url=URL, rules=Rules())


class Subscription:
    """Looks as a node does, a quarter of an hour apart."""

    def __init__(self, *looks: Content | tuple[Content, Content], rules: Rules | None = None) -> None:
        self.versions = Versions(URL, rules or Rules())
        self.now_us = NOW
        self.asked = 0
        """Second fetches."""
        self.delta: Delta | None = None
        """The last reported change."""
        for each in looks:
            self.look(each)

    def look(self, shown: Content | tuple[Content, Content], *, later_us: int = 15 * MINUTE) -> list[str]:
        """The reported change, as + and - lines."""
        one, other = shown if isinstance(shown, tuple) else (shown, shown)
        self.now_us += later_us
        before = self.versions.lines
        look = self.versions.look(one, now_us=self.now_us)
        if look.again:
            self.asked += 1
            look = self.versions.look(one, beside=other, now_us=self.now_us)
        if look.delta is None or not before:
            return []
        assert tuple(apply(look.delta, before)) == self.versions.lines
        self.delta = look.delta
        return [
            f"{sign}{line}"
            for change in look.delta.changes
            for sign, lines in (("-", change.old), ("+", change.new))
            for line in lines
        ]


def word(number: int) -> str:
    """A word of its own for each number below 23."""
    return "".join(chr(ord("a") + (number * step) % 23) for step in (3, 5, 7, 11, 13))
