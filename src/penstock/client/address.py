"""Where a node is: `mqtt://host:1883`, `mqtts://`, `ws://` and `wss://`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from penstock.errors import InputError

PORTS: Final = {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443}
"""By scheme, where an address names none."""


@dataclass(frozen=True, slots=True)
class Address:
    """A node's address, taken apart."""

    scheme: str
    host: str
    port: int
    path: str = ""
    """Of a WebSocket."""

    @property
    def secure(self) -> bool:
        """Whether TLS is spoken."""
        return self.scheme in ("mqtts", "wss")

    @property
    def web(self) -> bool:
        """Whether it is a WebSocket."""
        return self.scheme in ("ws", "wss")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def read_address(url: str) -> Address:
    """The address in a text; InputError says what is wrong with it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InputError(f"'{url}' is no address: {error}") from None
    if parts.scheme not in PORTS or not parts.hostname:
        known = ", ".join(f"{scheme}://" for scheme in PORTS)
        raise InputError(f"'{url}' should be like mqtt://127.0.0.1:1883; it begins with one of {known}")
    if parts.username is not None or parts.password is not None:
        raise InputError("an address holds no user and no password; give them as `user` and `password`")
    web = parts.scheme in ("ws", "wss")
    if parts.query or parts.fragment or (parts.path.strip("/") and not web):
        raise InputError(f"'{url}' goes on behind the port; only ws:// and wss:// have a path")
    path = (parts.path if parts.path.strip("/") else "/mqtt") if web else ""
    return Address(parts.scheme, parts.hostname, port or PORTS[parts.scheme], path)
