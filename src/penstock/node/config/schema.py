"""Every setting of a node with its default, its unit and its bounds.

The sections `channels`, `cluster`, `notify`, `slots` and `streams` have files of their own. These are values
only: `read` makes them from a file and reports what is wrong with it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from penstock import limits
from penstock.node.config.amounts import (
    BYTES,
    MOST,
    SECONDS,
    Bytes,
    Count,
    Port,
    Positive,
    Rate,
    Seconds,
    UpToHour,
    WholeSeconds,
)
from penstock.node.config.channels import ChannelSettings
from penstock.node.config.cluster import ClusterSettings
from penstock.node.config.notify import NotifySettings
from penstock.node.config.slots import SlotSettings
from penstock.node.config.streams import Streams


class Listener(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A port for MQTT clients."""

    kind: Literal["tcp", "tls", "websocket", "websockets"] = "tcp"
    """`websockets` is WebSocket over TLS."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 or :: for all."""
    port: Port = 1883
    """0: a free port, which is written to the log."""
    certificate: str = ""
    """PEM file with the certificate chain, for TLS."""
    key: str = ""
    """PEM file with the private key, for TLS; empty: the key is in the file of the certificate."""
    client_ca: str = ""
    """PEM file of certificate authorities; if given, clients need a certificate signed by one of them."""
    path: str = "/mqtt"
    """Path of the WebSocket in the URL; / answers, too, for clients that are given no path."""
    origins: tuple[str, ...] = ()
    """Origins of web pages that may open a WebSocket, as https://example.org; loopback origins always may."""
    slots: bool = False
    """Whether flows of constant rate from this listener get reserved time slots."""

    @property
    def encrypted(self) -> bool:
        """Whether connections are TLS."""
        return self.kind in ("tls", "websockets")

    @property
    def websocket(self) -> bool:
        """Whether connections are WebSockets."""
        return self.kind in ("websocket", "websockets")

    @property
    def scheme(self) -> str:
        """Scheme of its URL."""
        return {"tcp": "mqtt", "tls": "mqtts", "websocket": "ws", "websockets": "wss"}[self.kind]

    @property
    def url(self) -> str:
        """Address for clients."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path if self.websocket else ''}"


class Http(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dashboard, API and metrics."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Port = 8080
    """0: a free port, which is written to the log."""
    enabled: bool = True
    """Whether the node serves HTTP."""
    token: str = ""
    """Bearer token that requests need; required unless the host is a loopback address."""
    token_file: str = ""
    """File whose first line is the token, in the place of `token`: a secret of a container or of systemd."""
    base_url: str = ""
    """Address at which others reach this port, as https://penstock.example.org; empty: host and port. Feed
    readers and WebSub hubs are given it."""
    contact: str = ""
    """Web or mail address for the User-Agent of requests the node makes, so that those who run a site can
    reach you."""


class User(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user who may connect."""

    name: str
    """Name that clients send."""
    password: str
    """The argon2 hash that `penstock passwd` prints."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule of the access list; the first that applies decides, and if none applies, the request is
    refused."""

    allow: bool = True
    """false: the request is refused."""
    user: str = "*"
    """User name, `*` for any client, `anonymous` for clients without a user name."""
    client: str = "*"
    """Client id; `*` matches any text, `?` any character."""
    action: Literal["publish", "subscribe", "both"] = "both"
    """Requests that the rule applies to."""
    topic: str = "#"
    """Topic filter; %u is replaced by the user name, %c by the client id."""


class Installed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy that the operator assigns to subscriptions of certain clients to certain filters."""

    policy: str
    """Name of a registered policy."""
    client: str = "*"
    """Client id; `*` matches any text, `?` any character."""
    filter: str = "#"
    """Topic filter; applies to subscriptions whose own filter it matches like a topic."""


class ControllerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Algorithm that chooses the level of a pack."""

    WORDS: ClassVar[dict[str, dict[str, str]]] = {"predictive": {}, "ladder": {"ladder": "low-pass"}}
    """Single words that stand for whole settings: `controller: ladder`."""

    ladder: Literal["none", "low-pass", "printed"] = "none"
    """The PACK paper's ladder, with a low-pass filter or with the formula as printed; none: the predictive
    controller."""
    alpha: Annotated[float, msgspec.Meta(ge=0.001, le=0.999)] = 0.1
    """Weight of the ladder's smoothing."""
    threshold: Annotated[float, msgspec.Meta(ge=0, le=10)] = 0.1
    """Change of the time between packs, as a share, at which the ladder climbs or descends."""


class Queues(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Queues of the receivers."""

    events: Annotated[int, msgspec.Meta(ge=limits.QUEUE_EVENTS_LEAST, le=MOST)] = limits.QUEUE_EVENTS
    """Largest number of items in one queue."""
    bytes: Bytes = limits.QUEUE_BYTES
    """Largest number of bytes in one queue."""
    fresh_s: Annotated[float, msgspec.Meta(ge=0, le=86_400, extra={"unit": SECONDS})] = 0.0
    """Time that no event should wait longer, for subscriptions whose policy has no `fresh`; 0: any time."""
    ordered: tuple[str, ...] = ()
    """Topic filters whose events must not overtake one another; installed policies with `urgent` for them are
    warned about."""
    controller: ControllerSettings = ControllerSettings()
    """Algorithm that chooses the level of a pack: `predictive`, `ladder`, or the settings of a ladder."""
    digests: Literal["policy", "all", "none"] = "policy"
    """MQTT 5 subscriptions that get digests in their stream, unless they say: with a policy, all or none."""


class Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits for one client, and for all clients together."""

    connections: Positive = 10_000
    """Open connections."""
    connections_per_address: Positive = 1_000
    """Open connections from one address; for IPv6, from one /64 network."""
    packet_bytes: Annotated[int, msgspec.Meta(ge=64, le=268_435_455, extra={"unit": BYTES})] = (
        limits.MQTT_PACKET_BYTES
    )
    """Largest packet that is accepted; MQTT allows at most 268,435,455."""
    receive_maximum: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = limits.MQTT_RECEIVE_MAXIMUM
    """QoS 1 and 2 messages a client may have unacknowledged at the node."""
    topic_aliases: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = limits.MQTT_TOPIC_ALIASES
    """Topic aliases of one connection in each direction."""
    subscriptions_per_client: Positive = limits.MQTT_SUBSCRIPTIONS
    """Subscriptions of one session."""
    sessions: Positive = 100_000
    """Sessions, including those without a connection."""
    session_expiry_s: WholeSeconds = 7 * 86_400
    """Longest time a session without a connection is kept."""
    keep_alive_s: Annotated[int, msgspec.Meta(ge=1, le=65_535, extra={"unit": SECONDS})] = 3_600
    """Longest keep-alive; an MQTT 5 client that asks for none or a longer one gets this one."""
    connect_s: UpToHour = float(limits.MQTT_CONNECT_S)
    """A connection without CONNECT is closed after this time, a CONNECT that waits for the disk refused."""
    retained: Count = 100_000
    """Retained messages."""
    retained_bytes: Bytes = 256 << 20
    """Bytes of the payloads of all retained messages."""
    messages_per_s: Rate = 0.0
    """Messages of one client per second; 0: no limit. A faster client is read more slowly, not
    disconnected."""
    bytes_per_s: Rate = 0.0
    """Bytes of one client per second; 0: no limit. A faster client is read more slowly, not disconnected."""
    connects_per_s: Rate = 0.0
    """New connections per second from one address; 0: no limit."""


class RecorderSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Recording of topics to Parquet files for the Spark commands."""

    topics: tuple[str, ...] = ()
    """Topic filters; empty: the recorder is off."""
    folder: str = "recorded"
    """Folder of the files; below the data folder unless absolute."""
    rotate_events: Positive = 500_000
    """Largest number of events in one file."""
    rotate_s: Annotated[int, msgspec.Meta(ge=1, le=86_400, extra={"unit": SECONDS})] = 300
    """Longest time span of one file."""
    keep_bytes: Bytes = 10 << 30
    """Bytes of all files together; the oldest files are deleted beyond it."""
    buffer_events: Positive = 100_000
    """Events that may wait for the disk; further ones are dropped and counted."""
    traces_s: Annotated[float, msgspec.Meta(ge=0, le=86_400, extra={"unit": SECONDS})] = 10.0
    """Interval between samples of the receivers' queues, which a recorder that is on writes to `traces` below
    the data folder, or beside `folder` if there is none; 0: none."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node's configuration."""

    listeners: tuple[Listener, ...] = (Listener(),)
    """Ports for MQTT clients."""
    http: Http = Http()
    """Dashboard, API and metrics."""
    data: str = "penstock-data"
    """Folder for sessions, retained messages and queues; empty: nothing survives a restart."""
    anonymous: Literal["loopback", "always", "never"] = "loopback"
    """Where clients without a user name may connect from: loopback addresses, anywhere, nowhere."""
    users: tuple[User, ...] = ()
    """Users; empty: user names are not checked, and every client is anonymous."""
    acl: tuple[Rule, ...] = ()
    """Access list; empty: whoever may connect may publish and subscribe to everything."""
    access_file: str = ""
    """File with further users and rules, which apply after those above, and which the API and `penstock
    users` may change; below the folder of the file unless absolute. Empty: users and rules are changed by
    you alone."""
    policies: dict[str, str] = {}
    """Registered policies: name → the policy, its text, or the path of a file with it."""
    install: tuple[Installed, ...] = ()
    """Policies for subscriptions that do not have one of their own."""
    policy_table: str = ""
    """Folder of the control table `policies`, which gives policies to subscriptions that have none of their
    own and to which no entry of `install` applies; below the folder of the file unless absolute. Empty: no
    table is read."""
    queues: Queues = Queues()
    """Queues of the receivers."""
    bounds: Bounds = Bounds()
    """Limits for one client, and for all clients together."""
    recorder: RecorderSettings = RecorderSettings()
    """Recording of topics to Parquet files."""
    channels: ChannelSettings = ChannelSettings()
    """Channels: web pages and feeds as topics."""
    slots: SlotSettings = SlotSettings()
    """Reserved time slots, for listeners with `slots: true`."""
    streams: Streams = Streams()
    """Reliable streams."""
    notify: NotifySettings = NotifySettings()
    """Notifications of changes to people and programs."""
    cluster: ClusterSettings = ClusterSettings()
    """Other nodes that this one shares its topics with."""
    sys_interval_s: Seconds = 10.0
    """Interval between publications on $SYS topics; 0: none."""
    watch_s: Seconds = 0.0
    """Interval between checks whether a configuration file has changed, which is then loaded; 0: only SIGHUP
    loads the configuration again."""
    shutdown_s: UpToHour = 10.0
    """Longest time to write data and close connections after SIGTERM."""
    log: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest severity that is logged."""
