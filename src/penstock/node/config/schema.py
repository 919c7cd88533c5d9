"""Every setting of a node with its default, its unit and its bounds; amounts such as `10min`, `1.5 MiB`.

These are values only; `read` makes them of a file and says what is wrong with it.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

import msgspec

from penstock import limits
from penstock.core.slots.options import ControlOptions
from penstock.model.instant import to_us
from penstock.node.config.channels import Polling
from penstock.node.config.notify import NotifySettings
from penstock.node.config.streams import Streams


class SlotSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Reserved slots for flows of constant rate, at listeners with `slots: true`."""

    slot_s: Annotated[float, msgspec.Meta(ge=0.001, le=3_600, extra={"unit": "s"})] = 0.02
    """Length of a time slot; the shortest period that can be served. To begin a new one takes 0.1 ms."""
    window: Annotated[int, msgspec.Meta(ge=4, le=limits.SLOT_WINDOW)] = 64
    """Slots that are looked ahead; the longest period that can be served is two less."""
    capacity: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 100
    """Messages a slot's worth of the receivers' links carries."""
    reserved_share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5
    """Of the capacity: what may be reserved; the rest stays for best effort."""
    request_share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.1
    """Of the capacity: what messages with `penstock-retry` may take, one of them in a slot at least."""
    late_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.1
    """Late messages that go out for each one of best effort, while both wait."""
    tolerance: Annotated[float, msgspec.Meta(gt=0, le=10)] = 3.0
    """Standard deviations of its jitter by which a message may be early or late and is still on time."""
    detect: bool = True
    """Whether periods are found out that nobody told."""
    flows: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
    """Flows known at a time."""
    idle_s: Annotated[float, msgspec.Meta(gt=0, le=10**9, extra={"unit": "s"})] = 600.0
    """A flow that is not served and has not come for so long is forgotten."""
    silent_after: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 3
    """Messages a served flow may miss in a row before $flows/silent tells."""
    silent_least_s: Annotated[float, msgspec.Meta(ge=0, le=10**9, extra={"unit": "s"})] = 0.5
    """And it is not silent before so long has passed."""
    lane_events: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1_000
    """Messages that may wait in the reserved and late lanes of one receiver; beyond, they are best effort."""
    reservations: str = ""
    """Folder of the control table `reservations`, which tells periods; empty: none is read."""

    def options(self) -> ControlOptions:
        """For the core; SlotError if they cannot be together."""
        return ControlOptions(
            slot_us=to_us(self.slot_s),
            slots=self.window,
            capacity=self.capacity,
            share=self.reserved_share,
            request_share=self.request_share,
            sigmas=self.tolerance,
            detect=self.detect,
            flows=self.flows,
            idle_us=max(1, to_us(self.idle_s)),
            silent_after=self.silent_after,
            silent_least_us=to_us(self.silent_least_s),
        )


SECONDS: Final = "s"
BYTES: Final = "bytes"
"""Units a setting may have; `quantity` reads texts with them, as 10min and 1MiB."""

MOST: Final = 1 << 48
"""Where nothing else bounds a number: what floats count exactly, with room."""

Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=MOST)]
Bytes = Annotated[int, msgspec.Meta(ge=1, le=MOST, extra={"unit": BYTES})]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=10**9, extra={"unit": SECONDS})]
WholeSeconds = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF_FFFF, extra={"unit": SECONDS})]
Rate = Annotated[float, msgspec.Meta(ge=0, le=MOST)]


class Listener(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A door for MQTT clients."""

    kind: Literal["tcp", "tls", "websocket", "websockets"] = "tcp"
    """`websockets` is WebSocket over TLS."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 or :: for all."""
    port: Port = 1883
    """0: a free port, which is logged."""
    certificate: str = ""
    """PEM file with the certificate chain, for TLS."""
    key: str = ""
    """PEM file with the private key, for TLS; if empty, it is in the file of the certificate."""
    client_ca: str = ""
    """PEM file of authorities; if given, clients must show a certificate signed by one of them."""
    path: str = "/mqtt"
    """Of a WebSocket."""
    origins: tuple[str, ...] = ()
    """Web pages that may open a WebSocket, as https://example.org; those of this machine always may."""
    slots: bool = False
    """Whether flows of constant rate that come in here get reserved time slots."""

    @property
    def encrypted(self) -> bool:
        """Whether it speaks TLS."""
        return self.kind in ("tls", "websockets")

    @property
    def web(self) -> bool:
        """Whether it speaks WebSocket."""
        return self.kind in ("websocket", "websockets")


class Http(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dashboard, API and metrics."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Port = 8080
    """0: a free port, which is logged."""
    enabled: bool = True
    """Whether there is one."""
    token: str = ""
    """Bearer token that requests must carry; required unless the host is a loopback address."""
    base_url: str = ""
    """Address at which others reach this port, as https://penstock.example.org; empty: host and port. Feed
    readers and WebSub hubs are given it."""
    contact: str = ""
    """Web or mail address for the User-Agent of requests the node makes, so that those who run a site can
    reach you."""


ANONYMOUS: Final = "anonymous"
"""In a line of the access list: clients without a user name."""


class User(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody who may connect."""

    name: str
    """As clients give it."""
    password: str
    """The argon2 hash that `penstock passwd` prints."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the access list; the first that fits decides, and if none fits it is refused."""

    allow: bool = True
    """false: it is refused."""
    user: str = "*"
    """A user's name, `*` for any, `anonymous` for clients without one."""
    client: str = "*"
    """Client id; `*` and `?` stand for any letters, any letter."""
    action: Literal["publish", "subscribe", "both"] = "both"
    """What the line is about."""
    topic: str = "#"
    """Topic filter; %u and %c stand for the user's name and the client id."""


class Installed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy given by the operator: for these clients' subscriptions to these filters."""

    policy: str
    """Name of a registered policy."""
    client: str = "*"
    """Client id; `*` and `?` stand for any letters, any letter."""
    filter: str = "#"
    """Subscriptions whose filter is matched by this one, as a topic would be."""


class Queues(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The queues of receivers."""

    events: Annotated[int, msgspec.Meta(ge=limits.QUEUE_EVENTS_LEAST, le=MOST)] = limits.QUEUE_EVENTS
    """Items one queue may hold."""
    bytes: Bytes = limits.QUEUE_BYTES
    """Bytes one queue may hold."""
    controller: Literal["ladder", "predictive"] = "ladder"
    """Who chooses the level of a pack."""


class Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much one client, and all together, may ask for."""

    connections: Positive = 10_000
    """Open at the same time."""
    connections_per_address: Positive = 1_000
    """Open at the same time from one address; of IPv6, from one network of 64 bits."""
    packet_bytes: Annotated[int, msgspec.Meta(ge=64, le=268_435_455, extra={"unit": BYTES})] = (
        limits.MQTT_PACKET_BYTES
    )
    """Larger packets are refused; at most 268,435,455, what MQTT can say."""
    receive_maximum: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = limits.MQTT_RECEIVE_MAXIMUM
    """QoS 1 and 2 messages a client may have unacknowledged at the node."""
    topic_aliases: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = limits.MQTT_TOPIC_ALIASES
    """Aliases a client may set, and the node sets at most."""
    subscriptions_per_client: Positive = limits.MQTT_SUBSCRIPTIONS
    """Of one session."""
    sessions: Positive = 100_000
    """Detached ones included."""
    session_expiry_s: WholeSeconds = 7 * 86_400
    """Longest time a detached session is kept."""
    keep_alive_s: Annotated[int, msgspec.Meta(ge=1, le=65_535, extra={"unit": SECONDS})] = 3_600
    """Longest keep-alive; a client that asks for none or more gets this one (MQTT 5)."""
    connect_s: Annotated[float, msgspec.Meta(gt=0, le=3_600, extra={"unit": SECONDS})] = float(
        limits.MQTT_CONNECT_S
    )
    """A connection that has not said CONNECT by then is closed."""
    retained: Count = 100_000
    """Retained messages."""
    retained_bytes: Bytes = 256 << 20
    """Payloads of retained messages together."""
    messages_per_s: Rate = 0.0
    """Of one client; 0: no bound. A client above it is read more slowly, not closed."""
    bytes_per_s: Rate = 0.0
    """Of one client; 0: no bound. A client above it is read more slowly, not closed."""
    connects_per_s: Rate = 0.0
    """New connections of one address; 0: no bound."""


class Recorder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Chosen topics written to Parquet for the Spark commands."""

    topics: tuple[str, ...] = ()
    """Topic filters; none: the recorder is off."""
    folder: str = "recorded"
    """Below the data folder unless absolute."""
    rotate_events: Positive = 500_000
    """Events in one file."""
    rotate_s: Annotated[int, msgspec.Meta(ge=1, le=86_400, extra={"unit": SECONDS})] = 300
    """Longest time one file is written to."""
    keep_bytes: Bytes = 10 << 30
    """Oldest files are deleted beyond this."""
    buffer_events: Positive = 100_000
    """Events that may wait for the disk; beyond it they are dropped and counted."""


class ChannelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Web channels: pages and feeds as streams, below the topic web/."""

    enabled: bool = False
    """Whether a subscription to web/<url> makes the node fetch that page; else it is a topic like others."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that may be fetched, as example.org or *.example.org; none: all but those refused."""
    deny_hosts: tuple[str, ...] = ()
    """Hosts that may not be fetched, written the same way; they count more."""
    max_channels: Positive = 20_000
    """Channels, those without subscribers included that are remembered for a day."""
    max_subscriptions: Positive = 200_000
    """Subscriptions to channels, of MQTT clients and of people together."""
    max_per_subscriber: Positive = 1_000
    """Channels of one MQTT client or one person."""
    scheme: Literal["lite", "fast", "fair", "fair-sqrt", "fair-log"] = "lite"
    """What the schedule optimises: least delay at the load of `interval_s`, or least load at `target_s`."""
    interval_s: Annotated[float, msgspec.Meta(gt=0, le=30 * 86_400, extra={"unit": SECONDS})] = 900.0
    """How often each subscriber would fetch alone; all of them together cause no more load than that."""
    target_s: Annotated[float, msgspec.Meta(gt=0, le=30 * 86_400, extra={"unit": SECONDS})] = 300.0
    """Mean delay that the scheme `fast` reaches."""
    polls_per_s: Rate = 0.0
    """Of all channels together, on average; 0: as many as `interval_s` allows."""
    allocate_s: Annotated[float, msgspec.Meta(gt=0, le=86_400, extra={"unit": SECONDS})] = 300.0
    """Between allocations of polls to channels; one follows sooner when subscriptions change."""
    table: str = ""
    """Folder of the control table `allocation`, which then decides instead; channels it does not know are
    allocated as before. Below the folder of the file unless absolute."""
    websub: bool = True
    """Whether hubs that pages name are asked to send changes (WebSub); they must reach http.base_url."""
    retain: bool = True
    """Whether the last change of a channel is retained, so that who subscribes sees it."""
    history: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 50
    """Changes kept of one channel."""
    log: bool = False
    """Whether polls and subscriptions are written to Parquet, in `polls` and `subscriptions` below the data
    folder, for the Spark commands; kept as long as recorder.keep_bytes allows."""
    polling: Polling = Polling()
    """How pages are fetched."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node's configuration."""

    listeners: tuple[Listener, ...] = (Listener(),)
    """Doors for MQTT clients."""
    http: Http = Http()
    """Dashboard, API and metrics."""
    data: str = "penstock-data"
    """Folder of the store (sessions, retained messages, queues); empty: nothing survives a restart."""
    anonymous: Literal["loopback", "always", "never"] = "loopback"
    """Clients without a user name: from loopback addresses, from anywhere, not at all."""
    users: tuple[User, ...] = ()
    """Who may connect with a name; empty: names are not asked for, whoever gives one is anonymous."""
    acl: tuple[Rule, ...] = ()
    """Empty: everything is allowed to whoever may connect."""
    policies: dict[str, str] = {}
    """Registered policies: name → the policy, its text, or the path of a file with it."""
    install: tuple[Installed, ...] = ()
    """Policies given to subscriptions that do not bring their own."""
    queues: Queues = Queues()
    """The queues of receivers."""
    bounds: Bounds = Bounds()
    """How much one client, and all together, may ask for."""
    recorder: Recorder = Recorder()
    """Chosen topics written to Parquet."""
    channels: ChannelSettings = ChannelSettings()
    """Web channels: pages and feeds as streams."""
    slots: SlotSettings = SlotSettings()
    """Reserved time slots, for listeners that have them."""
    streams: Streams = Streams()
    """Reliable streams."""
    notify: NotifySettings = NotifySettings()
    """Notifications of changes to people and programs."""
    sys_interval_s: Seconds = 10.0
    """Between publications of the $SYS topics; 0: none."""
    watch_s: Seconds = 0.0
    """Between looks at the files of the configuration, which is read again when one changed; 0: only on
    SIGHUP."""
    shutdown_s: Annotated[float, msgspec.Meta(gt=0, le=3_600, extra={"unit": SECONDS})] = 10.0
    """What is not written or closed so long after SIGTERM is given up."""
    log: Literal["debug", "info", "warning", "error"] = "info"
    """Least important lines that are logged."""


UNITS: Final[dict[str, dict[str, float]]] = {
    SECONDS: {"ms": 0.001, "s": 1, "min": 60, "h": 3_600, "d": 86_400},
    BYTES: {
        "B": 1,
        "kB": 1_000,
        "MB": 1_000_000,
        "GB": 1_000_000_000,
        "KiB": 1 << 10,
        "MiB": 1 << 20,
        "GiB": 1 << 30,
    },
}
"""By the unit of the setting: what may stand behind a number, and how many of that unit it is."""

_AMOUNT: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]+)")


def quantity(text: str, unit: str) -> float | None:
    """How many seconds or bytes a text says; None if it says no such thing."""
    found = _AMOUNT.fullmatch(text)
    if found is None or found[2] not in UNITS[unit]:
        return None
    amount = float(found[1]) * UNITS[unit][found[2]]
    return int(amount) if amount.is_integer() else amount
