"""Topic filters match topics: by example, and the trees against the plain definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import MqttError
from penstock.mqtt.topics import Shared, check_filter, check_topic, covers, matches, shared_of
from penstock.mqtt.trees import RetainedTree, TopicTree

LEVELS = st.sampled_from(["a", "b", "", "$s"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = st.builds(
    lambda levels, end: "/".join([*levels, *end]),
    st.lists(LEVELS | st.just("+"), max_size=4),
    st.sampled_from([[], ["#"]]),
).filter(bool)


@pytest.mark.parametrize(
    ("filter_", "topic", "expected"),
    [
        ("sport/tennis", "sport/tennis", True),
        ("sport/tennis", "sport/Tennis", False),
        ("sport/tennis", "sport/tennis/player", False),
        ("sport/tennis/#", "sport/tennis", True),
        ("sport/tennis/#", "sport/tennis/a/b", True),
        ("sport/tennis/#", "sport/tenni", False),
        ("#", "sport", True),
        ("#", "/", True),
        ("#", "$SYS/uptime", False),
        ("+", "sport", True),
        ("+", "/sport", False),
        ("+/+", "/sport", True),
        ("/+", "/sport", True),
        ("+/sport", "$x/sport", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("sport/+/player", "sport/a/player", True),
        ("sport/+/#", "sport", False),
        ("sport/+/#", "sport/a", True),
        ("$SYS/#", "$SYS/uptime", True),
        ("$SYS/#", "$SYS", True),
        ("$SYS/+", "$SYS/uptime", True),
        ("a/+", "a/$b", True),
        ("a/#", "a/$b/c", True),
    ],
)
def test_a_filter_matches(filter_: str, topic: str, expected: bool) -> None:
    assert matches(filter_, topic) is expected
    tree: TopicTree[str, str] = TopicTree()
    tree.add(filter_, "k", "v")
    assert tree.match(topic) == (["v"] if expected else [])
    kept: RetainedTree[int] = RetainedTree()
    kept.set(topic, 1)
    assert list(kept.match(filter_)) == ([(topic, 1)] if expected else [])


@given(
    filters=st.lists(FILTERS, max_size=12),
    topics=st.lists(TOPICS, min_size=1, max_size=6),
    gone=st.sets(st.integers(0, 11)),
)
def test_the_tree_finds_what_the_definition_says(
    filters: list[str], topics: list[str], gone: set[int]
) -> None:
    tree: TopicTree[int, tuple[str, int]] = TopicTree()
    held: dict[tuple[str, int], None] = {}
    for key, filter_ in enumerate(filters):
        assert tree.add(filter_, key % 3, (filter_, key % 3)) is ((filter_, key % 3) not in held)
        held[filter_, key % 3] = None
    for key, filter_ in enumerate(filters):
        if key in gone:
            before = (filter_, key % 3) in held
            assert (tree.remove(filter_, key % 3) is not None) is before
            held.pop((filter_, key % 3), None)
    assert len(tree) == len(held)
    for topic in topics:
        found = tree.match(topic)
        assert sorted(found) == sorted(value for value in held if matches(value[0], topic))
        assert len(set(found)) == len(found), "each once"


@given(topics=st.lists(TOPICS, max_size=12), gone=st.lists(TOPICS, max_size=4), filter_=FILTERS)
def test_retained_topics_found_are_those_the_definition_says(
    topics: list[str], gone: list[str], filter_: str
) -> None:
    tree: RetainedTree[int] = RetainedTree()
    held: dict[str, int] = {}
    for value, topic in enumerate(topics):
        assert tree.set(topic, value) == held.get(topic)
        held[topic] = value
    for topic in gone:
        assert tree.discard(topic) == held.pop(topic, None)
    assert len(tree) == len(held)
    assert sorted(tree.match(filter_)) == sorted(
        (topic, value) for topic, value in held.items() if matches(filter_, topic)
    )
    assert all(tree.get(topic) == held.get(topic) for topic in topics)


def test_an_empty_tree_keeps_nothing() -> None:
    tree: TopicTree[str, int] = TopicTree()
    filters = ["a/b/c", "a/+/#", "#", "a", "+/+"]
    for filter_ in filters:
        tree.add(filter_, "k", 1)
    for filter_ in filters:
        assert tree.remove(filter_, "other") is None
        assert tree.remove(filter_, "k") == 1
    assert tree._root.empty
    kept: RetainedTree[int] = RetainedTree()
    kept.set("a/b/c", 1)
    kept.set("a/b", 2)
    assert kept.discard("a/b/c/d") is None
    assert (kept.discard("a/b/c"), kept.get("a/b"), kept.discard("a/b")) == (1, 2, 2)
    assert not kept._root.children


def test_a_key_has_one_value_at_a_filter() -> None:
    tree: TopicTree[str, int] = TopicTree()
    assert tree.add("a", "k", 1)
    assert not tree.add("a", "k", 2)
    assert tree.add("+", "k", 3)
    assert sorted(tree.match("a")) == [2, 3]
    assert len(tree) == 2


def test_a_shared_filter_is_taken_apart() -> None:
    assert shared_of("a/b") == Shared("", "a/b")
    assert check_filter("$share/g/a/#") == Shared("g", "a/#")
    assert check_filter("$share/g//x") == Shared("g", "/x")
    assert check_filter("$shared/x") == Shared("", "$shared/x")


def test_depth_and_length_are_bounded() -> None:
    deepest = "/" * (limits.MQTT_TOPIC_LEVELS - 1)
    assert check_topic(deepest) == deepest
    assert check_filter(deepest).filter == deepest
    for check in (check_topic, check_filter):
        with pytest.raises(MqttError, match="129 levels"):
            check(deepest + "/")
        with pytest.raises(MqttError, match="longer than 65535 bytes"):
            check("é" * 32_768)
        with pytest.raises(MqttError, match="U\\+D800"):
            check("a\ud800")
    tree: TopicTree[str, int] = TopicTree()
    with pytest.raises(MqttError, match="whole levels"):
        tree.add("a/#/b", "k", 1)


@pytest.mark.parametrize(
    ("filter_", "within", "all_of_it"),
    [
        ("#", "a/+", True),
        ("#", "$SYS/#", False),
        ("+/b", "$x/b", False),
        ("a/#", "a", True),
        ("a/#", "a/+/c", True),
        ("a/+", "a/b", True),
        ("a/+", "a/+", True),
        ("a/+", "a/#", False),
        ("a/+", "a", False),
        ("a/b", "a/+", False),
        ("a/+/c", "a/b", False),
        ("a", "a/b", False),
    ],
)
def test_a_filter_covers_another_one(filter_: str, within: str, all_of_it: bool) -> None:
    assert covers(filter_, within) is all_of_it
