"""Checks the notify section of the configuration for settings that cannot work together."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import TYPE_CHECKING, TypeAlias

from penstock.model.host import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.node.config.notify import AppriseSettings, XmppSettings
    from penstock.node.config.schema import Config

SettingProblem: TypeAlias = tuple[str, str, str]
"""A setting, what is wrong with it, and what it may be."""


def problems(config: Config) -> Iterator[SettingProblem]:
    """In the order of the settings."""
    notify = config.notify
    if notify.on and not config.channels.enabled:
        yield (
            "notify",
            "channels are off, so nothing changes",
            "with `channels: {enabled: true}`",
        )
    if (notify.feeds.enabled or notify.hub.enabled) and not (config.http.base_url or config.http.port):
        yield "http.base_url", "is needed, because http.port is not known beforehand", "https://host"
    if (notify.feeds.enabled or notify.hub.enabled) and not config.http.enabled:
        name = "feeds" if notify.feeds.enabled else "hub"
        yield f"notify.{name}.enabled", "feeds are read over HTTP", "with `http: {enabled: true}`"
    for number, network in enumerate(notify.networks):
        try:
            ip_network(network)
        except ValueError as error:
            yield f"notify.networks[{number}]", str(error), "as 192.168.0.0/16"
    yield from _xmpp(notify.xmpp)
    yield from _apprise(notify.apprise)


def _xmpp(xmpp: XmppSettings) -> Iterator[SettingProblem]:
    if xmpp.jid and not re.fullmatch(r"[^\s@/\"&'<>:]+@[^\s@/]+(/.+)?", xmpp.jid):
        yield "notify.xmpp.jid", f"found {xmpp.jid!r}", "an address, as penstock@example.org"
    if xmpp.tls == "off" and not is_loopback(xmpp.host):
        yield (
            "notify.xmpp.tls",
            f"the password would cross the network readable, to {xmpp.host or 'a server that DNS names'}",
            "starttls, direct; off where host is a loopback address",
        )
    if xmpp.tls == "direct" and xmpp.host and xmpp.port == 5222:
        yield "notify.xmpp.port", "5222 is the port for starttls; with direct it is another", "as 5223"


def _apprise(apprise: AppriseSettings) -> Iterator[SettingProblem]:
    seen: set[str] = set()
    for number, target in enumerate(apprise.targets):
        path = f"notify.apprise.targets[{number}].name"
        if not re.fullmatch(r"[\w.-]{1,64}", target.name):
            yield path, f"found {target.name!r}", "letters, digits, . - and _"
        if target.name in seen:
            yield path, f"'{target.name}' stands twice", ""
        seen.add(target.name)
