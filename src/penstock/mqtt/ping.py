"""PINGREQ and PINGRESP, which say nothing but: still here."""

from __future__ import annotations

from typing import Final

import msgspec


class Pingreq(msgspec.Struct, frozen=True, gc=False):
    """A client asks."""


class Pingresp(msgspec.Struct, frozen=True, gc=False):
    """The server answers."""


PINGREQ: Final = b"\xc0\x00"
"""The whole packet."""

PINGRESP: Final = b"\xd0\x00"
"""The whole packet."""
