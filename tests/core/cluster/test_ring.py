"""Who owns an id, and who takes over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.cluster.ring import (
    BASE,
    DIGITS,
    FURTHER_OWNERS,
    RING,
    Ring,
    digit,
    distance,
    node_id,
    shared_digits,
)
from penstock.errors import ClusterError
from tests.core.cluster.rings import ids, rings


@given(ids, ids)
def test_shared_digits_are_the_leading_ones(a: int, b: int) -> None:
    by_hand = 0
    while by_hand < DIGITS and digit(a, by_hand) == digit(b, by_hand):
        by_hand += 1
    assert shared_digits(a, b) == by_hand


@given(ids)
def test_digits_spell_the_id(ident: int) -> None:
    spelt = 0
    for position in range(DIGITS):
        spelt = spelt * BASE + digit(ident, position)
    assert spelt == ident


@given(rings, ids)
def test_no_node_is_closer_than_the_primary_owner(ring: Ring, ident: int) -> None:
    best = min(ring.ids, key=lambda node: (distance(node, ident), node))
    assert ring.ids[ring.primary(ident)] == best


@given(rings, st.lists(ids, max_size=30))
def test_many_owners_at_once_are_those_of_one_at_a_time(ring: Ring, many: list[int]) -> None:
    many = [*many, *ring.ids, *((ident + 1) % RING for ident in ring.ids)]
    assert ring.primaries(many).tolist() == [ring.primary(ident) for ident in many]


@given(rings, ids)
def test_the_owners_are_the_closest_nodes(ring: Ring, ident: int) -> None:
    found = [ring.ids[place] for place in ring.owners(ident)]
    by_hand = sorted(ring.ids, key=lambda node: (distance(node, ident), node))
    assert found[0] == by_hand[0]
    assert len(found) == min(FURTHER_OWNERS + 1, len(ring))
    assert set(found) == set(by_hand[: len(found)])


@given(rings.filter(lambda ring: len(ring) > FURTHER_OWNERS), ids)
def test_when_owners_fail_one_that_holds_a_copy_takes_over(ring: Ring, ident: int) -> None:
    owners = [ring.ids[place] for place in ring.owners(ident)]
    for failed in range(1, len(owners)):
        left = ring.without(set(owners[:failed]))
        assert left.ids[left.primary(ident)] == owners[failed]


@given(rings.filter(lambda ring: len(ring) > 1), ids, st.data())
def test_a_failure_elsewhere_moves_nothing(ring: Ring, ident: int, data: st.DataObject) -> None:
    owner = ring.ids[ring.primary(ident)]
    gone = data.draw(st.sampled_from([node for node in ring.ids if node != owner]))
    left = ring.without({gone})
    assert left.ids[left.primary(ident)] == owner


def test_a_ring_that_cannot_be_is_refused() -> None:
    with pytest.raises(ClusterError, match="at least one node"):
        Ring(())
    with pytest.raises(ClusterError, match="an address of its own"):
        Ring((5, 5))
    with pytest.raises(ClusterError, match="160 bits"):
        Ring((RING,))
    with pytest.raises(ClusterError, match="no node on the ring"):
        Ring((1, 2)).place(3)


def test_ids_of_nodes_are_sha1_of_their_address() -> None:
    assert f"{node_id('10.0.0.1:1883'):040x}" == "091c6e101dc2d001dadc201dd1fc06d9f2c2cbe4"
