"""Checks the notify section of the configuration for settings that cannot work together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.model.host import is_loopback
from penstock.node.config.problems import Problem, network_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.node.config.notify import AppriseSettings, XmppSettings
    from penstock.node.config.schema import Config


def problems(config: Config) -> Iterator[Problem]:
    """Find settings of `notify` that cannot work, in their order."""
    notify = config.notify
    if notify.on and not config.channels.enabled:
        yield Problem(
            "notify", "there are no changes, because channels are off", "with `channels: {enabled: true}`"
        )
    if (notify.feeds.enabled or notify.hub.enabled) and not (config.http.base_url or config.http.port):
        yield Problem("http.base_url", "is required, because http.port is 0", "https://host")
    if (notify.feeds.enabled or notify.hub.enabled) and not config.http.enabled:
        name = "feeds" if notify.feeds.enabled else "hub"
        yield Problem(f"notify.{name}.enabled", "feeds need HTTP", "with `http: {enabled: true}`")
    yield from network_problems("notify.networks", notify.networks)
    yield from _xmpp(notify.xmpp)
    yield from _apprise(notify.apprise)


def _xmpp(xmpp: XmppSettings) -> Iterator[Problem]:
    if xmpp.jid and not re.fullmatch(r"[^\s@/\"&'<>:]+@[^\s@/]+(/.+)?", xmpp.jid):
        yield Problem("notify.xmpp.jid", f"found {xmpp.jid!r}", "an address, as penstock@example.org")
    if xmpp.tls == "off" and not is_loopback(xmpp.host):
        yield Problem(
            "notify.xmpp.tls",
            f"the password would be sent unencrypted to {xmpp.host or 'a server found by DNS'}",
            "starttls, direct; off where host is a loopback address",
        )
    if xmpp.tls == "direct" and xmpp.host and xmpp.port == 5222:
        yield Problem("notify.xmpp.port", "5222 is the port of starttls, not of direct", "as 5223")


def _apprise(apprise: AppriseSettings) -> Iterator[Problem]:
    seen: set[str] = set()
    for number, target in enumerate(apprise.targets):
        path = f"notify.apprise.targets[{number}].name"
        if not re.fullmatch(r"[\w.-]{1,64}", target.name):
            yield Problem(path, f"found {target.name!r}", "letters, digits, . - and _")
        if target.name in seen:
            yield Problem(path, f"duplicate name '{target.name}'")
        seen.add(target.name)
