"""Checks the notify section of the configuration for settings that cannot work together."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import TYPE_CHECKING, TypeAlias

from penstock.core.channels.address import canonical
from penstock.errors import BadAddress
from penstock.model.host import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.node.config.notify import AppriseSettings, XmppSettings
    from penstock.node.config.schema import Config

SettingProblem: TypeAlias = tuple[str, str, str]
"""A setting, what is wrong with it, and what it may be."""


def problems(config: Config) -> Iterator[SettingProblem]:
    """In the order of the settings."""
    telling = config.telling
    if telling.on and not config.web.enabled:
        yield "telling", "there is nothing to tell: no web pages are watched", "with `web: {enabled: true}`"
    if telling.base_url:
        yield from _base(telling.base_url)
    elif (telling.feeds.enabled or telling.hub.enabled) and not config.http.port:
        yield "telling.base_url", "is needed, because http.port is not known beforehand", "https://host"
    if (telling.feeds.enabled or telling.hub.enabled) and not config.http.enabled:
        name = "feeds" if telling.feeds.enabled else "hub"
        yield f"telling.{name}.enabled", "feeds are read over HTTP", "with `http: {enabled: true}`"
    for number, network in enumerate(telling.networks):
        try:
            ip_network(network)
        except ValueError as error:
            yield f"telling.networks[{number}]", str(error), "as 192.168.0.0/16"
    yield from _xmpp(telling.xmpp)
    yield from _apprise(telling.apprise)


def _base(base_url: str) -> Iterator[SettingProblem]:
    try:
        if "?" in canonical(base_url) or "#" in base_url:
            yield (
                "telling.base_url",
                f"{base_url} has a query or a fragment",
                "https://host or https://host/path",
            )
    except BadAddress as error:
        yield "telling.base_url", str(error), ""


def _xmpp(xmpp: XmppSettings) -> Iterator[SettingProblem]:
    if xmpp.jid and not re.fullmatch(r"[^\s@/\"&'<>:]+@[^\s@/]+(/.+)?", xmpp.jid):
        yield "telling.xmpp.jid", f"found {xmpp.jid!r}", "an address, as penstock@example.org"
    if xmpp.tls == "off" and not is_loopback(xmpp.host):
        yield (
            "telling.xmpp.tls",
            f"the password would cross the network readable, to {xmpp.host or 'a server that DNS names'}",
            "starttls, direct; off where host is a loopback address",
        )
    if xmpp.tls == "direct" and xmpp.host and xmpp.port == 5222:
        yield "telling.xmpp.port", "5222 is the port for starttls; with direct it is another", "as 5223"


def _apprise(apprise: AppriseSettings) -> Iterator[SettingProblem]:
    seen: set[str] = set()
    for number, target in enumerate(apprise.targets):
        path = f"telling.apprise.targets[{number}].name"
        if not re.fullmatch(r"[\w.-]{1,64}", target.name):
            yield path, f"found {target.name!r}", "letters, digits, . - and _"
        if target.name in seen:
            yield path, f"'{target.name}' stands twice", ""
        seen.add(target.name)
