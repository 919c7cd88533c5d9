"""Offers cross as they are; damaged ones are told from others."""

from __future__ import annotations

import pytest

from penstock.core.cluster.forwarding import Forwarding
from penstock.core.cluster.frames import decode_frame
from penstock.errors import ClusterError
from penstock.node.cluster.direct.offers import ARRANGES, Arrangement, Ask, Offer, decode, encode


@pytest.mark.parametrize("said", [Offer("tcp/10.0.0.1:7448", b"t" * 32), Offer(""), Ask()])
def test_what_is_said_arrives(said: Arrangement) -> None:
    frame = encode(said)
    assert decode(frame) == said
    assert frame[:1] == ARRANGES


def test_no_link_and_no_tree_takes_them_for_its_own() -> None:
    frame = encode(Ask())
    assert not Forwarding.concerns(frame)
    with pytest.raises(ClusterError):
        decode_frame(frame)


@pytest.mark.parametrize(
    "rest", [b"", b"\xff", b"\x91\x01", b"\x93\x01\xa1a\xc4\x21" + b"t" * 33, b"\x93\x01\xa1\xff\xc4\0"]
)
def test_damaged_ones(rest: bytes) -> None:
    with pytest.raises(ClusterError, match="about direct connections cannot be read"):
        decode(ARRANGES + rest)
