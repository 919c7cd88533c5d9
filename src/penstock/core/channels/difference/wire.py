"""A delta as a message: JSON with the counts that policies work on, and back."""

from __future__ import annotations

import msgspec

from penstock import limits
from penstock.core.channels.delta import Change, Delta, Item
from penstock.core.channels.difference.content import Kind  # noqa: TC001  # msgspec reads annotations at run time
from penstock.errors import ChannelError


class _Message(msgspec.Struct, frozen=True):
    url: str
    version: int
    old_version: int
    at_us: int
    kind: Kind
    title: str = ""
    added: int = 0
    """Lines that came."""
    removed: int = 0
    """Lines that went."""
    new_items: int = 0
    changes: tuple[Change, ...] = ()
    items: tuple[Item, ...] = ()
    cut: bool = False
    old_crc: int = 0


def to_json(delta: Delta) -> bytes:
    """The payload of a delta; one beyond DELTA_BYTES loses its last changes and says so."""
    message = _Message(
        delta.url,
        delta.version,
        delta.old_version,
        delta.at_us,
        delta.kind,
        delta.title,
        sum(len(change.new) for change in delta.changes),
        sum(len(change.old) for change in delta.changes),
        sum(1 for item in delta.items if item.kind == "new"),
        delta.changes,
        delta.items,
        delta.cut,
        delta.old_crc,
    )
    encoded = msgspec.json.encode(message)
    if len(encoded) <= limits.DELTA_BYTES:
        return encoded
    room = limits.DELTA_BYTES - len(
        msgspec.json.encode(msgspec.structs.replace(message, changes=(), items=()))
    )
    items: list[Item] = []
    changes: list[Change] = []
    for found, part in ((items, delta.items), (changes, delta.changes)):
        for one in part:
            room -= len(msgspec.json.encode(one)) + 1
            if room < 0:
                break
            found.append(one)  # type: ignore[arg-type]
    return msgspec.json.encode(
        msgspec.structs.replace(message, changes=tuple(changes), items=tuple(items), cut=True)
    )


def from_json(body: bytes) -> Delta:
    """The delta of a payload; ChannelError if it is none."""
    try:
        message = msgspec.json.decode(body, type=_Message)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise ChannelError(f"this is no delta: {error}") from None
    if any(change.at < 0 for change in message.changes):
        raise ChannelError("this is no delta: a change before the first line")
    return Delta(
        message.url,
        message.version,
        message.old_version,
        message.at_us,
        message.kind,
        message.title,
        message.changes,
        message.items,
        message.cut,
        message.old_crc,
    )
