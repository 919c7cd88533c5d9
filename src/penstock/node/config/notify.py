"""Settings of notifications: base URL, pace, queues, and one section for each transport."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from penstock import limits


class XmppSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The chat bot."""

    jid: str = ""
    """Address of the bot's account, as penstock@example.org; empty: there is no bot."""
    password: str = ""
    """Of the account; empty: from `password_file`, or else from the variable PENSTOCK_XMPP_PASSWORD."""
    password_file: str = ""
    """File whose first line is the password."""
    host: str = ""
    """Server to connect to; empty: the one DNS names for the domain of the account."""
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 5222
    """Port of `host`."""
    tls: Literal["starttls", "direct", "off"] = "starttls"
    """How it is encrypted; `off` is for a server on a loopback address only."""
    ca: str = ""
    """PEM file of authorities that may sign the server's certificate; empty: those of the system."""
    accept: tuple[str, ...] = ()
    """Who may talk to the bot: addresses, or domains as example.org; none: the bot's own domain."""


class WebhookSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes as signed HTTP requests."""

    enabled: bool = False
    """Whether subscribers may be web addresses."""


class AppriseTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A service that Apprise can notify."""

    name: str
    """Subscribers are called apprise:NAME, so that the address with its secrets is shown to nobody."""
    url: str
    """As Apprise writes it, for example mailto://user:password@example.org."""


class AppriseSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Services notified through Apprise."""

    targets: tuple[AppriseTarget, ...] = ()
    """Those there are; none: Apprise is not used."""
    send_s: Annotated[float, msgspec.Meta(gt=0, le=600, extra={"unit": "s"})] = 30.0
    """A notification that takes longer is given up for now."""


class FeedSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Atom feeds of channels and of subscribers."""

    enabled: bool = False
    """Whether there are any."""
    entries: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 50
    """Newest changes in one feed."""


class HubSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """WebSub: programs that subscribe to the feeds are sent them when something changed."""

    enabled: bool = False
    """Whether the node is the hub of its feeds, which there are then."""
    lease_s: Annotated[int, msgspec.Meta(ge=60, le=30 * 86_400, extra={"unit": "s"})] = 10 * 86_400
    """Longest lease; a subscriber that does not ask again by then is forgotten."""
    subscriptions: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
    """Leases at the same time."""


class NotifySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Notifications of changes to people and programs without MQTT."""

    networks: tuple[str, ...] = ()
    """Networks that webhooks and hub subscribers may be in although they are not public, as 10.0.0.0/8."""
    per_minute: Annotated[float, msgspec.Meta(gt=0, le=60_000)] = 12.0
    """Messages to one subscriber, in the long run."""
    burst: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 5
    """Messages to one subscriber at once, after a pause."""
    queue_events: Annotated[int, msgspec.Meta(ge=limits.QUEUE_EVENTS_LEAST, le=100_000)] = 200
    """Changes that may wait for one subscriber; beyond it the policy decides what becomes a digest."""
    queue_bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 30, extra={"unit": "bytes"})] = 4 << 20
    """Bytes of the same."""
    give_up_s: Annotated[float, msgspec.Meta(gt=0, le=365 * 86_400, extra={"unit": "s"})] = 3 * 86_400.0
    """A target that fails for so long loses its subscriptions."""
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
        """Whether anybody is to be told by anything."""
        return bool(
            self.xmpp.jid
            or self.webhook.enabled
            or self.apprise.targets
            or self.feeds.enabled
            or self.hub.enabled
        )
