"""Which text may stand in a packet: well-formed UTF-8, no U+0000; in names also nothing unprintable.

The specification lets a receiver refuse control characters and noncharacters (section 1.5.4). Names (topics,
filters, client identifiers, user names) end up in logs, access rules and paths, so there they are refused;
elsewhere they are let through, because a policy in a user property has line breaks.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import MalformedPacket

TEXT_BYTES: Final = 65_535
"""Longest text or binary value: its length field has 16 bits."""

_NONCHARACTERS: Final = "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
_UNFIT_IN_NAMES: Final = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef{_NONCHARACTERS}]")


def decode_text(raw: bytes, *, where: str, reason: int = 0x81) -> str:
    """Text from its bytes."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedPacket(
            f"not UTF-8 at byte {error.start} of {len(raw)}", where=where, reason=reason
        ) from None
    if "\0" in text:
        raise MalformedPacket(f"U+0000 at character {text.index(chr(0))}", where=where, reason=reason)
    return text


def check_name(text: str, *, where: str, reason: int = 0x81) -> str:
    """The same text, if it may name something."""
    unfit = _UNFIT_IN_NAMES.search(text)
    if unfit:
        raise MalformedPacket(
            f"U+{ord(unfit[0]):04X} at character {unfit.start()}; names have no control characters",
            where=where,
            reason=reason,
        )
    return text


def encode_text(text: str, *, where: str) -> bytes:
    """Text with its length in front."""
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise MalformedPacket(f"a lone surrogate at character {error.start}", where=where) from None
    if "\0" in text:
        raise MalformedPacket(f"U+0000 at character {text.index(chr(0))}", where=where)
    return encode_binary(raw, where=where)


def encode_binary(raw: bytes, *, where: str) -> bytes:
    """Bytes with their length in front."""
    if len(raw) > TEXT_BYTES:
        raise MalformedPacket(f"{len(raw)} bytes; at most {TEXT_BYTES}", where=where)
    return len(raw).to_bytes(2, "big") + raw
