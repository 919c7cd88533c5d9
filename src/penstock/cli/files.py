"""Reads policies and events from files named on the command line; an error names the file and the line."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock import limits
from penstock.errors import InputError
from penstock.model.event import Event
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from penstock.policy.nodes import Policy

ENVELOPE: Final = frozenset({"topic", "ts", "payload", "properties", "sender", "seq", "content_type"})
"""An object with a `payload` and none but these keys is an envelope; any other JSON value is a payload."""

EVENTS_BYTES: Final = 1 << 30
"""Bound of an event file, which is read into memory whole; Spark reads larger ones."""


def read_policy(path: Path) -> Policy:
    """Read a policy from a file, `-` for standard input."""
    from penstock.policy.text.forms import parse  # noqa: PLC0415  # pub and sub without a policy need no YAML

    return parse(read_bytes(path, most=limits.POLICY_BYTES), source=str(path))


def read_bytes(path: Path, *, most: int) -> bytes:
    """Read a file, `-` for standard input; raises InputError beyond `most` bytes."""
    try:
        if str(path) == "-":
            if sys.stdin is None:
                raise InputError("standard input is closed", path=path)
            data = sys.stdin.buffer.read(most + 1)
        else:
            with path.open("rb") as file:
                data = file.read(most + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from None
    if len(data) > most:
        raise InputError(f"is larger than {most} bytes", path=path)
    return data


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event from a file, and the line it came from."""

    event: Event
    line: Any


def read_events(path: Path) -> list[RecordedEvent]:
    """Read events from a file of JSON lines, `-` for standard input."""
    found: list[RecordedEvent] = []
    last_us = -SECOND_US
    for number, line in enumerate(read_bytes(path, most=EVENTS_BYTES).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"is not JSON: {error}", path=path, line=number) from None
        try:
            event = _event(value, line, len(found), last_us)
        except (ValueError, TypeError, OverflowError) as error:
            raise InputError(str(error), path=path, line=number) from None
        last_us = event.ts_us
        found.append(RecordedEvent(event, value))
    return found


def _event(value: Any, line: bytes, place: int, last_us: int) -> Event:
    """Make an event of a payload or an envelope; without a time it is one second after the last event."""
    if not (isinstance(value, dict) and "payload" in value and value.keys() <= ENVELOPE):
        return Event("", line.strip(), last_us + SECOND_US, seq=place)
    payload = value["payload"]
    return Event(
        topic=_text(value, "topic"),
        payload=payload.encode() if isinstance(payload, str) else msgspec.json.encode(payload),
        ts_us=_instant(value["ts"]) if "ts" in value else last_us + SECOND_US,
        sender=_text(value, "sender"),
        seq=_whole(value, "seq", place),
        properties=_properties(value.get("properties", {})),
        content_type=_text(value, "content_type"),
    )


def _text(value: dict[str, Any], key: str) -> str:
    found = value.get(key, "")
    if not isinstance(found, str):
        raise TypeError(f"'{key}' should be a text, found {found!r}")
    return found


def _whole(value: dict[str, Any], key: str, default: int) -> int:
    found = value.get(key, default)
    if isinstance(found, bool) or not isinstance(found, int) or abs(found) >= 2**63:
        raise TypeError(f"'{key}' should be a whole number of 64 bits, found {found!r}")
    return found


def _instant(found: Any) -> int:
    """Read microseconds, or an ISO 8601 date and time (UTC unless it says otherwise)."""
    if isinstance(found, str):
        try:
            when = datetime.fromisoformat(found)
        except ValueError:
            raise ValueError(f"'ts' should be microseconds or ISO 8601, found {found!r}") from None
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return round((when - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * SECOND_US)
    if isinstance(found, bool) or not isinstance(found, int | float) or abs(found) >= 2**63:
        raise TypeError(f"'ts' should be microseconds or ISO 8601, found {found!r}")
    return int(found)


def _properties(found: Any) -> tuple[tuple[str, str], ...]:
    """Read user properties: a map, or a list of pairs where a name repeats."""
    pairs = list(found.items()) if isinstance(found, dict) else found
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
        for pair in pairs
    ):
        raise TypeError(f"'properties' should be a map of texts or a list of pairs of texts, found {found!r}")
    return tuple((name, value) for name, value in pairs)


def writable(path: Path, *, folder: bool = False) -> None:
    """Raise InputError if a result cannot be written there; make its folder."""
    place = path if folder else path.parent
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=path) from None
    if not os.access(place, os.W_OK | os.X_OK) or (not folder and path.is_dir()):
        reason = "it is a folder" if path.is_dir() and not folder else "permission denied"
        raise InputError(f"cannot be written: {reason}", path=path)


def write_text(path: Path, text: str) -> None:
    """Write a result file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=path) from None
