"""Where a node's door for streams is: `stream://[user:password@]host:1884`, and `streams://` with TLS."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from penstock.errors import InputError

PORT: Final = 1884
"""Where an address names none."""


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """An address, taken apart; its text holds no password."""

    host: str
    port: int
    secure: bool = False
    user: str = ""
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'streams' if self.secure else 'stream'}://{host}:{self.port}"


def read_stream_address(url: str) -> StreamAddress:
    """The address in a text; InputError says what is wrong with it, and never shows a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text may hold a password
        raise InputError(
            "this is no address of a node's streams: its host or port cannot be read; in a user name or "
            "password write / as %2F, # as %23, ? as %3F, @ as %40"
        ) from None
    if parts.scheme not in ("stream", "streams") or not parts.hostname:
        shown = f"{parts.scheme}://{parts.hostname or ''}" if parts.scheme else repr(url.rpartition("@")[2])
        raise InputError(f"{shown} should be like stream://127.0.0.1:{PORT}, or streams://… for TLS")
    if parts.query or parts.fragment or parts.path.strip("/"):
        raise InputError(f"stream://{parts.hostname} goes on behind the port; name the stream by itself")
    return StreamAddress(
        parts.hostname,
        PORT if port is None else port,
        parts.scheme == "streams",
        unquote(parts.username or ""),
        unquote(parts.password or ""),
    )
