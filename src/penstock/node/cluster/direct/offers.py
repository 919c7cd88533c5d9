"""What two nodes say to each other through Zenoh to arrange a direct connection.

These frames begin with a byte of their own, 32, and go to no link.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from penstock.errors import ClusterError

ARRANGES: Final = bytes((32,))
"""First byte of these frames; those of links and trees begin with others."""

TICKET_BYTES: Final = 32


class Offer(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=1):
    """The receiver may connect to the sender."""

    address: Annotated[str, msgspec.Meta(max_length=300)]
    """Where, as tcp/10.0.0.1:7448 or tls/10.0.0.1:7448; empty: nowhere, and no use in asking again."""
    ticket: Annotated[bytes, msgspec.Meta(max_length=TICKET_BYTES)] = b""


class Ask(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=2):
    """The sender wants an offer."""


Arrangement: TypeAlias = Offer | Ask

_decoder: msgspec.msgpack.Decoder[Arrangement] = msgspec.msgpack.Decoder(Offer | Ask)


def encode(said: Arrangement) -> bytes:
    """The frame that says it."""
    return ARRANGES + msgspec.msgpack.encode(said)


def decode(frame: bytes) -> Arrangement:
    """Read such a frame; ClusterError if it is none."""
    try:
        return _decoder.decode(memoryview(frame)[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ClusterError(f"a frame about direct connections cannot be read: {error}") from None
