"""Trees over nodes: everybody once, few links at each node, each zone entered once."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.cluster.tree import one_hop, ways

ZONES = st.dictionaries(
    st.text("abc0", min_size=1, max_size=4), st.sampled_from(["", "e", "w", "n"]), max_size=60
)


def _links(found: dict[str, tuple[str, ...]]) -> set[tuple[str, str]]:
    """Pairs of nodes, the origin as '', that an event for everybody goes over."""
    return {pair for name, way in found.items() for pair in pairwise(("", *way, name))}


@given(ZONES, st.integers(1, 4), st.randoms(use_true_random=False))
def test_each_node_gets_an_event_once_and_the_tree_does_not_depend_on_the_order_of_the_view(
    zones: dict[str, str], fan_out: int, dice: object
) -> None:
    found = ways("origin", "e", zones, fan_out=fan_out)
    assert found.keys() == zones.keys()
    links = _links(found)
    assert Counter(to for _, to in links) == Counter(list(zones))
    assert max(Counter(sender for sender, _ in links).values(), default=0) <= 2 * fan_out
    others = list(zones.items())
    dice.shuffle(others)  # type: ignore[attr-defined]
    assert ways("origin", "e", dict(others), fan_out=fan_out) == found


@given(ZONES, st.integers(1, 4))
def test_an_event_enters_each_zone_once(zones: dict[str, str], fan_out: int) -> None:
    placed = {"": "e"} | {name: f"{zone}!" if zone != "e" else zone for name, zone in zones.items()}
    found = ways("origin", "e", {name: placed[name] for name in zones}, fan_out=fan_out)
    entered = Counter(placed[to] for sender, to in _links(found) if placed[sender] != placed[to])
    assert entered == Counter(set(placed.values()) - {"e"})


@given(ZONES, st.integers(1, 4))
def test_one_hop_is_a_tree_without_forwarders(zones: dict[str, str], fan_out: int) -> None:
    found = ways("origin", "e", zones, fan_out=fan_out)
    assert one_hop("e", zones.values(), fan_out=fan_out) == (not any(found.values()))


def test_few_nodes_are_one_hop_and_a_thousand_are_four() -> None:
    few = {f"n{number}": "" for number in range(8)}
    assert set(ways("n9", "", few, fan_out=8).values()) == {()}
    many = {f"n{number}": "" for number in range(999)}
    found = ways("n999", "", many, fan_out=8)
    assert max(len(way) for way in found.values()) == 3
    first = Counter(way[0] for way in found.values() if way)
    assert max(first.values()) - min(first.values()) <= 1


def test_origins_have_different_forwarders() -> None:
    many = {f"n{number}": "" for number in range(100)}
    forwarders = {
        way[0] for origin in "abcdefgh" for way in ways(origin, "", many, fan_out=4).values() if way
    }
    assert len(forwarders) > 4 * 4
