"""Who polls together, whom a node knows, and how a delta reaches them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.cluster.dissemination import disseminate
from penstock.core.cluster.ring import DIGITS, Ring, digit, shared_digits, tops
from penstock.core.cluster.wedges import deepest, pollers, prefix_table, wedge, wedges
from penstock.errors import ClusterError
from tests.core.cluster.rings import ids, rings

levels = st.integers(0, 4) | st.integers(0, DIGITS)


@given(rings, ids, levels)
def test_a_wedge_is_who_shares_that_many_digits(ring: Ring, ident: int, level: int) -> None:
    by_hand = [place for place, node in enumerate(ring.ids) if shared_digits(node, ident) >= level]
    assert list(wedge(ring, ident, level)) == by_hand


@given(rings, ids, st.integers(0, DIGITS - 1))
def test_every_wedge_contains_its_deeper_wedge(ring: Ring, ident: int, level: int) -> None:
    assert set(wedge(ring, ident, level + 1)) <= set(wedge(ring, ident, level))


@given(rings, st.lists(ids, min_size=1, max_size=20), st.integers(0, 16))
def test_many_wedges_at_once_are_those_of_one_at_a_time(ring: Ring, many: list[int], level: int) -> None:
    firsts, behinds = wedges(ring, tops(many), level)
    found = [list(range(first, behind)) for first, behind in zip(firsts, behinds, strict=True)]
    assert found == [list(wedge(ring, ident, level)) for ident in many]


@given(rings, ids, st.integers(0, 4))
def test_every_channel_has_a_poller_at_every_level(ring: Ring, ident: int, level: int) -> None:
    found = pollers(ring, ident, level)
    assert found
    if level >= deepest(len(ring)) or not wedge(ring, ident, level):
        assert found == (ring.primary(ident),)


@pytest.mark.parametrize(("nodes", "level"), [(1, 0), (2, 1), (16, 1), (17, 2), (256, 2), (1024, 3)])
def test_the_deepest_level_is_the_logarithm_rounded_up(nodes: int, level: int) -> None:
    assert deepest(nodes) == level


@given(rings)
def test_contacts_share_their_row_and_no_more(ring: Ring) -> None:
    for place, own in enumerate(ring.ids):
        for row, contacts in enumerate(prefix_table(ring, place).rows):
            assert [shared_digits(ring.ids[contact], own) for contact in contacts] == [row] * len(contacts)
            columns = [digit(ring.ids[contact], row) for contact in contacts]
            there = {digit(node, row) for node in ring.ids if shared_digits(node, own) == row}
            assert columns == sorted(there)


@given(rings, ids, levels, st.data())
def test_a_delta_reaches_every_member_exactly_once(
    ring: Ring, ident: int, level: int, data: st.DataObject
) -> None:
    root = data.draw(st.integers(0, len(ring) - 1))
    members = wedge(ring, ident, level)
    hops = list(disseminate(ring, ident, level, root=root))
    expected = [place for place in members if place != root]
    assert sorted(hop.receiver for hop in hops) == expected
    have = {root}
    for hop in sorted(hops, key=lambda hop: hop.depth):
        assert hop.sender in have
        have.add(hop.receiver)


def test_a_delta_takes_few_hops() -> None:
    ring = Ring(number * 7919**13 % (1 << 160) for number in range(1, 1025))
    hops = list(disseminate(ring, ring.ids[100], 0, root=100))
    assert len(hops) == 1023
    rows = max(len(prefix_table(ring, place).rows) for place in range(len(ring)))
    assert max(hop.depth for hop in hops) <= rows


def test_levels_beyond_the_id_are_refused() -> None:
    with pytest.raises(ClusterError, match="level 41"):
        wedge(Ring((1,)), 1, 41)
    with pytest.raises(ClusterError, match="level 17"):
        wedges(Ring((1,)), tops([1]), 17)
    with pytest.raises(ClusterError, match="0 nodes; at least 1"):
        deepest(0)
