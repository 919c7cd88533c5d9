"""Checks the section `cluster` of a configuration: names, addresses, and who may join."""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from penstock import limits
from penstock.model.host import is_loopback, is_wildcard
from penstock.node.config.cluster import address_of
from penstock.node.config.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.node.config.cluster import ClusterSettings

NAME: Final = f"letters, digits, . _ and -, at most {limits.CLUSTER_NAME_CHARACTERS}"
ADDRESS: Final = "as tcp/10.0.0.1:7447 or tls/10.0.0.1:7447"
DIRECT_ADDRESS: Final = "as tcp/10.0.0.1:7448 or tls/10.0.0.1:7448, or off"

OWN_ADDRESSES: Final = ("cluster.listen", "cluster.direct")
"""Settings with addresses at which the node listens."""

CLIENT_ADDRESS: Final = "as mqtt://10.0.0.1:1883, with mqtt, mqtts, ws or wss, and the port"


def is_client_address(url: str) -> bool:
    """Whether a text is an address that other nodes can give to clients."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    known = parts.scheme in ("mqtt", "mqtts", "ws", "wss") and bool(parts.hostname) and bool(port)
    return known and url.isprintable() and "@" not in url and not is_wildcard(parts.hostname or "")


def _advertised(cluster: ClusterSettings) -> Iterator[Problem]:
    for number, url in enumerate(cluster.advertise):
        if not is_client_address(url):
            yield Problem(f"cluster.advertise[{number}]", f"found {url!r}", CLIENT_ADDRESS)


def _direct(cluster: ClusterSettings) -> Iterator[Problem]:
    """Find settings of direct connections that say too little about them, or that contradict others."""
    listen, direct = address_of(cluster.listen), address_of(cluster.direct)
    if direct is not None and listen is not None and (listen.protocol, direct.protocol) == ("tls", "tcp"):
        yield Problem(
            "cluster.direct",
            f"{cluster.direct} is not encrypted, and cluster.listen {cluster.listen} is",
            "as tls/10.0.0.1:7448, or off",
        )
    told = cluster.direct_advertise
    if not told:
        return
    address = address_of(told)
    if address is None or not address.port or is_wildcard(address.host):
        yield Problem("cluster.direct_advertise", f"found {told!r}", "host and port, as 10.0.0.1:7448")
    elif cluster.direct == "off":
        yield Problem("cluster.direct_advertise", "cluster.direct is off, so it is not used")


def problems(cluster: ClusterSettings) -> Iterator[Problem]:
    """Find settings of `cluster` that cannot work, in their order."""
    if not cluster.name:
        yield Problem("cluster.name", "is required in a section `cluster`", NAME)
    for field in ("name", "node", "zone"):
        found = getattr(cluster, field)
        if found and not is_name(found):
            yield Problem(f"cluster.{field}", f"found {found!r}", NAME)
    encrypted = False
    for path, text in _addresses(cluster):
        address = address_of(text)
        if address is None:
            allowed = DIRECT_ADDRESS if path == "cluster.direct" else ADDRESS
            yield Problem(path, f"found {text!r}", allowed)
            continue
        if path not in OWN_ADDRESSES and not address.port:
            yield Problem(path, "port 0 cannot be joined", ADDRESS)
        encrypted |= address.protocol == "tls"
        if path in OWN_ADDRESSES and not is_loopback(address.host) and not _guarded(cluster, text):
            yield Problem(
                path,
                f"{text} is not a loopback address, and whoever reaches it could join",
                "with a password, or with tls/ and certificates",
            )
    yield from _advertised(cluster)
    yield from _direct(cluster)
    if encrypted:
        yield from _files(cluster)
    elif cluster.certificate or cluster.key or cluster.ca:
        yield Problem("cluster.certificate", "no address begins with tls/, so it is not used", ADDRESS)
    if cluster.password and (len(cluster.password) > 200 or not cluster.password.isprintable()):
        yield Problem("cluster.password", "is not usable", "up to 200 printable characters, without :")
    elif ":" in cluster.password:
        yield Problem("cluster.password", "has a colon", "up to 200 printable characters, without :")


def warnings(cluster: ClusterSettings) -> Iterator[str]:
    """Find settings of `cluster` that work and are probably mistakes."""
    for name in ("listen", "direct"):
        text: str = getattr(cluster, name)
        address = address_of(text)
        if address is not None and not is_loopback(address.host) and address.protocol == "tcp":
            yield f"cluster.{name}: messages cross the network unencrypted at {text}; use tls/"


def is_name(text: str) -> bool:
    """Whether a text can be the name of a cluster, a node or a zone."""
    return re.fullmatch(r"[A-Za-z0-9._-]+", text) is not None and len(text) <= limits.CLUSTER_NAME_CHARACTERS


def _addresses(cluster: ClusterSettings) -> Iterator[tuple[str, str]]:
    if cluster.listen:
        yield "cluster.listen", cluster.listen
    if cluster.direct and cluster.direct != "off":
        yield "cluster.direct", cluster.direct
    for number, text in enumerate(cluster.join):
        yield f"cluster.join[{number}]", text


def _guarded(cluster: ClusterSettings, listen: str) -> bool:
    return bool(cluster.password) or (listen.startswith("tls/") and bool(cluster.ca))


def _files(cluster: ClusterSettings) -> Iterator[Problem]:
    for field in ("certificate", "key", "ca"):
        if not getattr(cluster, field):
            yield Problem(f"cluster.{field}", "is required for addresses with tls/", "a PEM file")
            return
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        made.load_cert_chain(cluster.certificate, cluster.key)
    except (OSError, ValueError) as error:
        yield Problem("cluster.certificate", f"{cluster.certificate} with {cluster.key}: {_reason(error)}")
    try:
        made.load_verify_locations(cluster.ca)
    except (OSError, ValueError) as error:
        yield Problem("cluster.ca", f"{cluster.ca}: {_reason(error)}")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"is not a PEM file for TLS ({error.reason or 'damaged'})"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
