"""The node of a command: --node, else PENSTOCK_CONTEXT, else the context in use, else this machine.

Nodes speak MQTT, HTTP and the protocol of streams on different ports. `--node` is one option for all of them:
the name of a context, a host, a host with the port of what the command speaks, or the URL of one of the
three; the others are then at the same host, on the usual ports. Several addresses with commas between them
are nodes of one cluster: the command speaks to the first that answers. Credentials of a context go to the
nodes of that context only, never to an address that is given.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

import typer

from penstock import limits
from penstock.cli.context import store
from penstock.cli.context.store import Context
from penstock.errors import InputError

Service = Literal["mqtt", "http", "stream"]

HERE: Final = ""
"""Default of --node: the context in use, else this machine."""

VARIABLE: Final = "PENSTOCK_CONTEXT"

SCHEMES: Final[dict[str, Service]] = {
    "mqtt": "mqtt",
    "mqtts": "mqtt",
    "penstock": "mqtt",
    "penstocks": "mqtt",
    "ws": "mqtt",
    "wss": "mqtt",
    "http": "http",
    "https": "http",
    "stream": "stream",
    "streams": "stream",
}
SECURE: Final = frozenset({"mqtts", "penstocks", "wss", "https", "streams"})

USUAL: Final[dict[tuple[Service, bool], tuple[str, int]]] = {
    ("mqtt", False): ("mqtt", 1883),
    ("mqtt", True): ("mqtts", 8883),
    ("http", False): ("http", 8080),
    ("http", True): ("https", 443),  # a node has no TLS for HTTP: a web server in front of it has
    ("stream", False): ("stream", 1884),
    ("stream", True): ("streams", 1884),
}
"""Scheme and port of each service, without and with TLS."""

_HELP: Final = (
    "The node: a context, HOST, HOST:PORT or URL, or several of a cluster as A,B,C; "
    "if omitted, the context in use or this machine."
)

MqttOption = Annotated[str, typer.Option("--node", envvar="PENSTOCK_URL", metavar="NODE", help=_HELP)]
ApiOption = Annotated[str, typer.Option("--node", envvar="PENSTOCK_HTTP_URL", metavar="NODE", help=_HELP)]
StreamOption = Annotated[str, typer.Option("--node", metavar="NODE", help=_HELP)]


@dataclass(frozen=True, slots=True)
class Target:
    """The address of one service of a node, and the context it comes from, if it comes from one.

    Of several nodes it is a list of URLs with commas between them.
    """

    url: str
    context: Context | None = None
    name: str = ""

    def login(
        self, user: str | None, password: str | None, ca: Path | None
    ) -> tuple[str | None, str | None, Path | None]:
        """Return user, password and certificates: what a command was given, completed by the context."""
        context = self.context
        if context is not None:
            # The password of the context is that of its user, not of another one who is given.
            if password is None and user in (None, context.user):
                password = context.password()
            user = user or context.user or None
            ca = ca or (Path(context.ca) if context.ca else None)
        if password is not None and user is None:
            raise typer.BadParameter("a password without --user")
        return user, password, ca


def target(given: str, service: Service) -> Target:
    """Return where a command connects to; `given` is the value of --node."""
    if given:
        if store.NAME.fullmatch(given):
            found = store.load().contexts.get(given)
            if found is not None:
                return Target(_one_if_stream(address_in(found, service), service), found, given)
        return Target(_one_if_stream(addresses(given, service, said="--node"), service))
    contexts = store.load()
    asked = os.environ.get(VARIABLE, "")
    name = asked or contexts.current
    if not name:
        return Target(address("127.0.0.1", service))
    found = contexts.named(name, said=VARIABLE if asked else str(store.path()))
    return Target(_one_if_stream(address_in(found, service), service), found, name)


def address_in(context: Context, service: Service) -> str:
    """Return the URL of a service in a context, or the URLs if it has several nodes."""
    told = {"http": context.http, "stream": context.streams}.get(service, "")
    secure = bool(context.ca)
    # A port without a scheme is the port of MQTT, whatever the command speaks.
    node = context.node if "://" in context.node else addresses(context.node, "mqtt", secure=secure)
    return told or addresses(node, service, secure=secure)


def addresses(given: str, service: Service, *, secure: bool = False, said: str = "") -> str:
    """Return the URL of a service for each address of a list; one without a scheme has that before it.

    `said` is given if the list comes from a user who may mean contexts: these have no place in a list.
    """
    parts = [part.strip() for part in given.split(",")]
    if len(parts) == 1:
        return address(given, service, secure=secure)
    if not all(parts):
        raise InputError(
            f"'{given}': there is nothing before, after or between two commas; write A,B,C", path="--node"
        )
    if len(parts) > limits.CLIENT_NODES:
        raise InputError(f"{len(parts)} addresses; a list has at most {limits.CLIENT_NODES}", path="--node")
    contexts = store.load().contexts if said else {}
    found: dict[str, None] = {}
    scheme = ""
    for part in parts:
        head, is_url, _ = part.partition("://")
        scheme = head if is_url else scheme
        if not is_url and not scheme and part in contexts:
            raise InputError(
                f"'{part}' is a context; a list has addresses: write mqtt://{part} for the host, or make a "
                "context of the list with `penstock context add NAME A,B,C`",
                path=said,
            )
        found[address(part if is_url or not scheme else f"{scheme}://{part}", service, secure=secure)] = None
    if len({url.partition("://")[0] in SECURE for url in found}) > 1:
        raise InputError(f"'{given}': a list has TLS everywhere or nowhere", path="--node")
    return ",".join(found)


def _one_if_stream(url: str, service: Service) -> str:
    """Refuse a list for streams: each is at the node that hosts it, and at those that pass it on."""
    if service == "stream" and "," in url:
        raise InputError(
            f"'{url}': a stream is read and written at one node; give that one, or a context with --streams",
            path="--node",
        )
    return url


def address(given: str, service: Service, *, secure: bool = False) -> str:
    """Return the URL of a service at a host, a host with the port of this service, or the URL of any service.

    A URL of this service is returned unchanged: it may have a user, and a WebSocket has a path.
    """
    scheme, found, _ = given.partition("://")
    if not found:
        host, port = _host(given)
        scheme, usual = USUAL[service, secure]
        return f"{scheme}://{host}:{port or usual}"
    kind = SCHEMES.get(scheme)
    if kind is None:
        raise InputError(
            f"'{given}': write a context, a host, HOST:PORT, or a URL with {', '.join(SCHEMES)}",
            path="--node",
        )
    if "," in given:
        raise InputError(f"'{given}': write one address", path="--node")
    if kind == service:
        return given
    try:
        host = urlsplit(given).hostname or ""
    except ValueError as error:
        raise InputError(f"'{given}' is not a URL: {error}", path="--node") from None
    if not host:
        raise InputError(f"'{given}' has no host", path="--node")
    return address(f"[{host}]" if ":" in host else host, service, secure=secure or scheme in SECURE)


def _host(given: str) -> tuple[str, int | None]:
    """Split HOST or HOST:PORT; an IPv6 address may do without brackets if it has no port."""
    wrong = InputError(f"'{given}': write a context, a host, HOST:PORT or a URL", path="--node")
    if given.count(":") > 1 and not given.startswith("["):
        return f"[{given}]", None
    if any(sign in given for sign in "/@?#, ") or not given.isprintable():
        raise wrong
    host, bracket, rest = given.rpartition("]") if given.startswith("[") else ("", "", given)
    name, colon, port = rest.partition(":")
    host = host + bracket + name
    if not host or (bracket and name) or (colon and not (port.isascii() and port.isdigit())):
        raise wrong
    if colon and not 0 < int(port[:6]) < 65_536:
        raise InputError(f"'{given}': ports are 1 to 65535", path="--node")
    return host, int(port) if colon else None
