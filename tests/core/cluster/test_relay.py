"""Frames for several nodes in one: each gets its own, whatever items they share; damage is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.cluster.frames import Carried, data_frame, encode_item
from penstock.core.cluster.relay import (
    PASSED,
    Parcel,
    Receipts,
    Relayed,
    Stop,
    Unreached,
    decode,
    encode,
    packed,
)
from penstock.core.cluster.tree import ways
from penstock.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator

ITEMS = [encode_item(Carried(number, "a", b"%d" % number, 0)) for number in range(1, 6)]


def _delivered(relayed: Relayed) -> Iterator[tuple[str, bytes]]:
    first = relayed.stops[0]
    if first.number:
        yield first.name, relayed.frame(first)
    for branch in relayed.branches():
        found = decode(encode(branch))
        assert isinstance(found, Relayed)
        yield from _delivered(found)


@given(
    st.lists(st.lists(st.integers(0, 4), unique=True, min_size=1).map(sorted), max_size=20), st.integers(1, 3)
)
def test_each_node_gets_its_own_frame(picks: list[list[int]], fan_out: int) -> None:
    names = [f"n{number}" for number in range(len(picks))]
    found = ways("o", "", dict.fromkeys(["f", *names], ""), fan_out=fan_out)
    known = dict.fromkeys(("f", *names), 7)
    parcels = [
        Parcel(
            name,
            7,
            ("f", *(each for each in found[name] if each != "f")),
            at + 1,
            b"".join(ITEMS[pick] for pick in picks[at]),
        )
        for at, name in enumerate(names)
    ]
    got = [one for relayed in packed("o", 3, parcels, known) for one in _delivered(relayed)]
    assert sorted(got) == sorted((one.name, data_frame(one.number, one.body)) for one in parcels)


def test_an_item_is_in_a_relayed_frame_once_and_a_branch_has_only_its_own() -> None:
    parcels = [
        Parcel("a", 1, (), 5, ITEMS[0] + ITEMS[1]),
        Parcel("b", 1, ("a",), 6, ITEMS[0]),
        Parcel("c", 1, ("a",), 7, ITEMS[0] + ITEMS[1]),
    ]
    (relayed,) = packed("o", 3, parcels, {})
    assert relayed.items == [ITEMS[0], ITEMS[1]]
    assert [(one.stops[0].name, one.items) for one in relayed.branches()] == [
        ("b", [ITEMS[0]]),
        ("c", [ITEMS[0], ITEMS[1]]),
    ]


def test_frames_that_share_nothing_fill_several_relayed_frames() -> None:
    large = [encode_item(Carried(1, "a", bytes((at,)) * limits.CLUSTER_FRAME_BYTES, 0)) for at in range(5)]
    parcels = [Parcel(f"n{at}", 1, ("f",), 1, body) for at, body in enumerate(large)]
    found = list(packed("o", 3, parcels, {"f": 1}))
    assert len(found) == 5
    assert [name for one in found for name, _ in _delivered(one)] == [one.name for one in parcels]


@pytest.mark.parametrize(
    "stops",
    [
        [],
        [Stop("a", 1, 1, 2)],
        [Stop("a", 1, 1, 1), Stop("b", 1, 1, 1)],
        [Stop("a", 1, 1, 2), Stop("b", 1, 1, 2)],
        [Stop("a", 1, 1, 2), Stop("b", 1, 1, 0)],
        [Stop("a", 1, 1, 1, [1])],
    ],
)
def test_stops_that_are_no_tree_are_refused(stops: list[Stop]) -> None:
    with pytest.raises(ClusterError, match="a relay"):
        decode(encode(Relayed("o", 1, stops, [ITEMS[0]])))


def test_garbage_is_refused_at_every_length() -> None:
    whole = encode(Relayed("o", 1, [Stop("a", 1, 1, 1)], [ITEMS[0]]))
    for length in range(1, len(whole)):
        with pytest.raises(ClusterError):
            decode(whole[:length])
    with pytest.raises(ClusterError):
        decode(PASSED + b"\xff" * 9)


def test_receipts_and_complaints_come_as_they_were_sent() -> None:
    for said in (Receipts("o", 1, [("a", 2, b"ack")]), Unreached(["a", "b"])):
        assert decode(encode(said)) == said
