"""What a node can be told: every setting with its default and its unit.

These are values only; `read_config` makes them of a file and says what is wrong with it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock import limits


class Listener(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A door for MQTT clients."""

    kind: Literal["tcp", "tls", "websocket", "websockets"] = "tcp"
    """`websockets` is WebSocket over TLS."""
    host: str = "127.0.0.1"
    port: int = 1883
    """0: a free port, which is logged."""
    certificate: str = ""
    """PEM file with the certificate chain, for TLS."""
    key: str = ""
    """PEM file with the private key, for TLS."""
    client_ca: str = ""
    """PEM file of authorities; if given, clients must show a certificate signed by one of them."""
    path: str = "/mqtt"
    """Of a WebSocket."""


class Http(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dashboard, API and metrics."""

    host: str = "127.0.0.1"
    port: int = 8080
    """0: a free port, which is logged."""
    enabled: bool = True
    token: str = ""
    """Bearer token that requests must carry; required unless the host is a loopback address."""


class User(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody who may connect."""

    name: str
    password: str
    """The argon2 hash that `penstock passwd` prints."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the access list; the first that fits decides."""

    allow: bool = True
    user: str = "*"
    """A user's name, `*` for any, `anonymous` for clients without one."""
    client: str = "*"
    """Client id; `*` and `?` stand for any letters, any letter."""
    action: Literal["publish", "subscribe", "both"] = "both"
    topic: str = "#"
    """Topic filter; %u and %c stand for the user's name and the client id."""


class Installed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy given by the operator: for these clients' subscriptions to these filters."""

    policy: str
    """Name of a registered policy."""
    client: str = "*"
    filter: str = "#"
    """Subscriptions whose filter is matched by this one, as a topic would be."""


class Queues(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The queues of receivers."""

    events: int = limits.QUEUE_EVENTS
    """Items one queue may hold."""
    bytes: int = limits.QUEUE_BYTES
    """Bytes one queue may hold."""
    controller: Literal["ladder", "predictive"] = "ladder"
    """Who chooses the level of a pack."""


class Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much one client, and all together, may ask for."""

    connections: int = 10_000
    connections_per_address: int = 1_000
    packet_bytes: int = 1 << 20
    """Larger packets are refused; at most 268,435,455, what MQTT can say."""
    receive_maximum: int = 1_024
    """QoS 1 and 2 messages a client may have unacknowledged at the node."""
    topic_aliases: int = 64
    """Aliases a client may set, and the node sets at most."""
    subscriptions_per_client: int = 1_000
    sessions: int = 100_000
    """Detached ones included."""
    session_expiry_s: int = 7 * 86_400
    """Longest time a detached session is kept."""
    keep_alive_s: int = 3_600
    """Longest keep-alive; a client that asks for none or more gets this one (MQTT 5)."""
    connect_s: float = 10.0
    """A connection that has not said CONNECT by then is closed."""
    retained: int = 100_000
    retained_bytes: int = 256 << 20
    messages_per_s: float = 0.0
    """Of one client; 0: no bound. A client above it is read more slowly, not closed."""
    bytes_per_s: float = 0.0
    connects_per_s: float = 0.0
    """Of one address; 0: no bound."""


class Recorder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Chosen topics written to Parquet for the Spark commands."""

    topics: tuple[str, ...] = ()
    """Topic filters; none: the recorder is off."""
    folder: str = "recorded"
    """Below the data folder unless absolute."""
    rotate_events: int = 500_000
    rotate_s: int = 300
    keep_bytes: int = 10 << 30
    """Oldest files are deleted beyond this."""
    buffer_events: int = 100_000
    """Events that may wait for the disk; beyond it they are dropped and counted."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node's configuration."""

    listeners: tuple[Listener, ...] = (Listener(),)
    http: Http = Http()
    data: str = "penstock-data"
    """Folder of the store (sessions, retained messages, queues); empty: nothing survives a restart."""
    anonymous: Literal["loopback", "always", "never"] = "loopback"
    """Clients without a user name: from loopback addresses, from anywhere, not at all."""
    users: tuple[User, ...] = ()
    acl: tuple[Rule, ...] = ()
    """Empty: everything is allowed to whoever may connect."""
    policies: dict[str, str] = {}
    """Registered policies: name → the policy's text, or the path of a file with it."""
    install: tuple[Installed, ...] = ()
    queues: Queues = Queues()
    bounds: Bounds = Bounds()
    recorder: Recorder = Recorder()
    sys_interval_s: float = 10.0
    """Between publications of the $SYS topics; 0: none."""
    log: Literal["debug", "info", "warning", "error"] = "info"
