"""Byte-level MQTT cases from a folder of JSON files: groups, cases, messages, and tokens to bytes.

A file is a list of groups `{group, ver, connect, tests}`, a test is `{name, connect, expect_disconnect, ver,
msgs}` and a message `{type, payload, …}`. A payload is a list of tokens separated by blanks: hex bytes; `iN`
8-bit, `HN kN mN sN` 16-bit and `LN` 32-bit integers; `rN vN` variable byte integers; `'text'` UTF-8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TOKEN: Final = re.compile(r"'([^']*)'|([iHkmsLrv])(\d+)|((?:[0-9A-Fa-f]{2})+)")
_WIDTHS: Final = {"i": 1, "H": 2, "k": 2, "m": 2, "s": 2, "L": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Bytes to send."""

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Receive:
    """Bytes that must arrive."""

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalPublish:
    """A second client publishes."""

    topic: str
    payload: bytes
    qos: int
    retain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The client subscribes or unsubscribes and gets its answer."""

    what: str
    """`subscribe` or `unsubscribe`."""
    topic: str
    qos: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionCheck:
    """The connection must be closed, or answer a PINGREQ."""

    connected: bool


Message = Send | Receive | ExternalPublish | Request | ConnectionCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case: what is sent, what must arrive, how it ends."""

    file: str
    group: str
    name: str
    version: int
    """MQTT protocol level: 3, 4 or 5."""
    connect: bool
    """Whether CONNECT and CONNACK are exchanged first, with the case's name as client identifier."""
    expect_disconnect: bool
    messages: tuple[Message, ...]

    @property
    def title(self) -> str:
        """File, group and name: identifies the case."""
        return f"{self.file}: {self.group}: {self.name.strip()}"


def read_vectors(folder: Path) -> list[Case]:
    """Read every case of a folder, in order of file names."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise InputError("no *.json files with cases here", path=folder)
    return [case for file in files for case in _cases(file)]


def _cases(file: Path) -> Iterator[Case]:
    try:
        groups = msgspec.json.decode(file.read_bytes())
        for group in groups:
            for test in group["tests"]:
                yield _case(file.stem, group, test)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(str(error), path=file) from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"not a list of groups of cases: {error!r}", path=file) from None


def _case(file: str, group: dict[str, Any], test: dict[str, Any]) -> Case:
    return Case(
        file=file,
        group=" ".join(group["group"].split()),
        name=test["name"],
        version=test.get("ver", group["ver"]),
        connect=test.get("connect", group.get("connect", True)),
        expect_disconnect=test.get("expect_disconnect", group.get("expect_disconnect", True)),
        messages=tuple(_message(message) for message in test["msgs"]),
    )


def _message(message: dict[str, Any]) -> Message:
    match message["type"]:
        case "send":
            return Send(data=token_bytes(message["payload"]))
        case "recv":
            return Receive(data=token_bytes(message["payload"]))
        case "external_publish":
            return ExternalPublish(
                topic=message["topic"],
                payload=message["payload"].encode(),
                qos=message.get("qos", 0),
                retain=bool(message.get("retain", False)),
            )
        case "subscribe" | "unsubscribe" as what:
            return Request(what=what, topic=message["topic"], qos=message.get("qos", 0))
        case "disconnected_check" | "connected_check" as what:
            return ConnectionCheck(connected=what == "connected_check")
        case other:
            raise ValueError(f"message type {other!r}")


def token_bytes(payload: str) -> bytes:
    """The bytes a payload's tokens stand for."""
    parts = []
    at = 0
    while at < len(payload):
        if payload[at].isspace():
            at += 1
            continue
        found = _TOKEN.match(payload, at)
        if found is None:
            raise ValueError(f"token {payload[at : at + 16]!r} in {payload!r}")
        parts.append(_token(found))
        at = found.end()
    return b"".join(parts)


def _token(found: re.Match[str]) -> bytes:
    text, letter, number, digits = found.groups()
    if text is not None:
        return text.encode()
    if digits is not None:
        return bytes.fromhex(digits)
    if letter in _WIDTHS:
        try:
            return int(number).to_bytes(_WIDTHS[letter], "big")
        except OverflowError:
            raise ValueError(f"{number} does not fit the token {letter}") from None
    return _any_varint(int(number))


def _any_varint(value: int) -> bytes:
    """A variable byte integer without its bound: cases send five bytes to see them refused."""
    digits = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        digits.append(low | (0x80 if value else 0))
        if not value:
            return bytes(digits)
