"""The section `notify`: networks, pace, queues, and one section for each transport; checks of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from penstock import limits
from penstock.model.host import is_loopback
from penstock.node.config.amounts import SECONDS, InMemory, Million, Thousand, Timeout
from penstock.node.config.problems import Problem, network_problems

if TYPE_CHECKING:
    from collections.abc import Iterator


class XmppSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The chat bot."""

    jid: str = ""
    """Address of the bot's account, as penstock@example.org; empty: no bot."""
    password: str = ""
    """Password of the account; empty: taken from `password_file`, or else from PENSTOCK_XMPP_PASSWORD."""
    password_file: str = ""
    """File with the password in its first line."""
    host: str = ""
    """Server to connect to; empty: found by DNS from the domain of the account."""
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 5222
    """Port of `host`."""
    tls: Literal["starttls", "direct", "off"] = "starttls"
    """Encryption; `off` is allowed for a server on a loopback address only."""
    ca: str = ""
    """PEM file of certificate authorities for the server's certificate; empty: those of the system."""
    accept: tuple[str, ...] = ()
    """Addresses or domains, as example.org, that may send commands to the bot; empty: the bot's own
    domain."""


class WebhookSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes as signed HTTP requests."""

    enabled: bool = False
    """Whether subscribers may be URLs."""


class AppriseTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A service that Apprise can notify."""

    name: str
    """The subscriber is called apprise:NAME, so that the URL with its secrets is not shown."""
    url: str
    """Apprise URL, for example mailto://user:password@example.org."""


class AppriseSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Services notified through Apprise."""

    targets: tuple[AppriseTarget, ...] = ()
    """Services; empty: Apprise is not used."""
    send_s: Timeout = 30.0
    """Timeout of sending a notification; it is tried again later."""


class FeedSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Atom feeds of channels and of subscribers."""

    enabled: bool = False
    """Whether the node serves feeds."""
    entries: Thousand = 50
    """Largest number of changes in one feed."""


class HubSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """WebSub hub: sends feeds that changed to the programs that subscribed to them."""

    enabled: bool = False
    """Whether the node is the hub of its feeds; turns feeds on."""
    lease_s: Annotated[int, msgspec.Meta(ge=60, le=30 * 86_400, extra={"unit": SECONDS})] = 10 * 86_400
    """Longest lease; a subscription that is not renewed by then ends."""
    subscriptions: Million = 10_000
    """Largest number of subscriptions."""


class NotifySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Notifications of changes to people and programs without MQTT."""

    networks: tuple[str, ...] = ()
    """Networks that may be sent to although they are not public, as 10.0.0.0/8."""
    per_minute: Annotated[float, msgspec.Meta(gt=0, le=60_000)] = 12.0
    """Messages per minute to one subscriber, on average."""
    burst: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 5
    """Messages to one subscriber that may be sent at once after a pause."""
    queue_events: Annotated[int, msgspec.Meta(ge=limits.QUEUE_EVENTS_LEAST, le=100_000)] = 200
    """Changes that may wait for one subscriber; beyond it the policy decides which become a digest."""
    queue_bytes: InMemory = 4 << 20
    """Bytes of the changes that may wait for one subscriber."""
    give_up_s: Annotated[float, msgspec.Meta(gt=0, le=365 * 86_400, extra={"unit": SECONDS})] = 3 * 86_400.0
    """A subscriber that cannot be reached for this time loses its subscriptions."""
    xmpp: XmppSettings = XmppSettings()
    """The chat bot."""
    webhook: WebhookSettings = WebhookSettings()
    """Changes as signed HTTP requests."""
    apprise: AppriseSettings = AppriseSettings()
    """Services notified through Apprise."""
    feeds: FeedSettings = FeedSettings()
    """Atom feeds."""
    hub: HubSettings = HubSettings()
    """WebSub hub of the feeds."""

    @property
    def on(self) -> bool:
        """Whether any transport is configured."""
        return bool(
            self.xmpp.jid
            or self.webhook.enabled
            or self.apprise.targets
            or self.feeds.enabled
            or self.hub.enabled
        )


def problems(notify: NotifySettings, *, channels: bool, http: bool, has_address: bool) -> Iterator[Problem]:
    """Find settings of `notify` that cannot work, in their order.

    `channels` and `http`: whether these parts of the node are on; `has_address`: whether the URL of the
    node's HTTP server is known.
    """
    if notify.on and not channels:
        yield Problem(
            "notify", "there are no changes, because channels are off", "with `channels: {enabled: true}`"
        )
    if (notify.feeds.enabled or notify.hub.enabled) and not has_address:
        yield Problem("http.base_url", "is required, because http.port is 0", "https://host")
    if (notify.feeds.enabled or notify.hub.enabled) and not http:
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
