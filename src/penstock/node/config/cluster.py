"""Settings of the cluster: the section `cluster` of the configuration."""

from __future__ import annotations

import re
from typing import Annotated, Final, NamedTuple

import msgspec

from penstock import limits
from penstock.node.config.amounts import SECONDS, Bytes, Positive

PORT: Final = 7447
"""Port of the cluster unless another one is configured."""

DEFAULT_NAME: Final = "penstock"
"""Name of a cluster that is joined from the command line."""

_ADDRESS: Final = re.compile(r"(?:(tcp|tls)/)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


class Address(NamedTuple):
    """Where a node listens for others, or where another one does."""

    protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.protocol}/{host}:{self.port}"


def address_of(text: str) -> Address | None:
    """Read an address such as tcp/10.0.0.1:7447 or 10.0.0.1:7447; None if it is none."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[3]) > 65_535:
        return None
    return Address(found[1] or "tcp", found[2].strip("[]"), int(found[3]))


class ClusterSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Other nodes that this one shares its topics with."""

    name: str = ""
    """Name of the cluster, the same at all its nodes; empty: the node is on its own."""
    node: str = ""
    """Name of this node, unique in the cluster; empty: the name of the machine and the port of the first
    listener."""
    listen: str = ""
    """Address for other nodes, as tcp/10.0.0.1:7447 or tls/10.0.0.1:7447; empty: port 7447 of the loopback
    address, or a free port if that is taken and `join` names other nodes."""
    join: tuple[str, ...] = ()
    """Addresses of some nodes of the cluster; one that can be reached is enough."""
    gossip: bool = True
    """Whether nodes tell each other of further nodes. If not, this one connects only to those in `join`, and
    the others to it: each pair of nodes has to be joined at one end."""
    direct: str = ""
    """Address for direct connections of other nodes, which carry what nodes send each other faster than Zenoh
    does, as tcp/10.0.0.1:7448 or tls/10.0.0.1:7448; empty: a free port of the host of `listen`, with TLS if
    that has it; off: Zenoh carries everything. A node that cannot be reached there is reached by Zenoh."""
    direct_advertise: str = ""
    """Address at which other nodes reach `direct`, if it is another one: behind a router that translates
    addresses, or in a container."""
    zone: str = ""
    """Where the node is, as a rack or a site. A message goes into each other zone once, and is passed on
    there; a node that sends its clients away sends them to its own zone first."""
    fan_out: Annotated[int, msgspec.Meta(ge=1, le=limits.CLUSTER_FAN_OUT_MOST)] = limits.CLUSTER_FAN_OUT
    """Nodes of one zone that a node sends a message to; those pass it on to further ones."""
    advertise: tuple[str, ...] = ()
    """Addresses at which clients reach this node, as mqtt://10.0.0.1:1883, if they are not those of its
    listeners: behind a proxy, or in a container. Other nodes send clients there."""
    password: str = ""
    """Secret that all nodes share, in plain text: protect the file. Required beyond loopback without
    certificates."""
    password_file: str = ""
    """File whose first line is the password, in the place of `password`."""
    certificate: str = ""
    """PEM file with this node's certificate, for addresses with tls/; nodes show theirs to each other."""
    key: str = ""
    """PEM file with its private key."""
    ca: str = ""
    """PEM file of the certificate authority that has signed the certificates of all nodes."""
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=60, extra={"unit": SECONDS})] = 2.0
    """Longest time that the answer to a SUBSCRIBE, or to a message of QoS 1 or 2, waits for other nodes."""
    move_s: Annotated[float, msgspec.Meta(ge=0, le=60, extra={"unit": SECONDS})] = 3.0
    """Longest time that one question takes when the session of a client comes from another node; without an
    answer the client is served with what is known."""
    queue_events: Positive = limits.CLUSTER_QUEUE_EVENTS
    """Events that may wait for one other node; further ones push out the oldest, which a digest counts."""
    queue_bytes: Bytes = limits.CLUSTER_QUEUE_BYTES
    """Bytes that may wait for one other node."""

    @property
    def on(self) -> bool:
        """Whether the node belongs to a cluster."""
        return bool(self.name)
