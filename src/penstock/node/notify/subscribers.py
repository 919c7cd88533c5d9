"""Checks the name of a subscriber: a kind that the node has a transport for, and an address of that kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.errors import ChannelRefused
from penstock.node.notify.xmpp import may_talk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.node.config.notify import NotifySettings
    from penstock.node.outbound.post import Poster

PULL_KINDS: Final = ("feed",)
"""Kinds of subscribers that fetch changes themselves, so nothing is queued for them."""


class SubscriberNames:
    """Checks names of subscribers."""

    def __init__(self, settings: NotifySettings, kinds: Sequence[str], poster: Poster) -> None:
        self._settings = settings
        self._kinds = kinds
        self._poster = poster

    def check(self, who: str) -> str:
        """Return the canonical name of a subscriber; ChannelError if it cannot be notified."""
        kind, _, address = who.partition(":")
        if kind in self._kinds and address and address.isprintable():
            match kind:
                case "webhook":
                    return f"webhook:{self._poster.check(address)}"
                case "apprise":
                    return f"apprise:{self._target(address)}"
                case "xmpp" if "@" in address:
                    return f"xmpp:{self._person(address)}"
                case "feed" | "hub":  # subscribers at the hub have been verified
                    return who
        kinds = ", ".join(f"{name}:…" for name in self._kinds if name != "hub")
        raise ChannelRefused(
            f"'{who}' cannot be notified; this node notifies {kinds or 'nobody'} "
            "(`notify` in its configuration)"
        )

    def _target(self, name: str) -> str:
        names = [target.name for target in self._settings.apprise.targets]
        if name not in names:
            known = ", ".join(names)
            raise ChannelRefused(f"there is no target '{name}' in notify.apprise.targets; there are: {known}")
        return name

    def _person(self, address: str) -> str:
        bare = address.partition("/")[0].lower()
        if not may_talk(self._settings.xmpp, bare):
            raise ChannelRefused(f"the bot does not talk to '{bare}': see notify.xmpp.accept")
        return bare
