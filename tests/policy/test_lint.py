"""Warnings: each is right about some policy, and none is ever wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.event import Event
from penstock.policy import evaluate
from penstock.policy.lint import lint, unpaced
from penstock.policy.text.forms import parse
from penstock.policy.text.python_form import drop, keep, policy, when
from tests.kit.policies import policies

if TYPE_CHECKING:
    from penstock.policy.nodes import Level, Policy, Step


@pytest.mark.parametrize(
    ("levels", "warning"),
    [
        (
            [keep.delta(5)],
            "level 1: `keep: delta` keeps only events whose value hardly changed; did you mean `drop`?",
        ),
        (
            [drop.latest(5)],
            "level 1: `drop: latest` drops the newest events and keeps the older ones; did you mean",
        ),
        (
            [drop.eq(5), drop.eq(5)],
            "level 2: `eq` finds nothing left to drop: level 1 has dropped it already",
        ),
        (
            [(drop.eq(5), drop.uniq(), drop.eq(5))],
            "level 1, filter 3: `eq` finds nothing left to drop: level 1, filter 1",
        ),
        ([keep.latest(5), keep.latest(10)], "level 2: `latest` finds nothing left to drop"),
        ([keep.latest_by("a"), drop.uniq(), keep.latest_by("a", n=2)], "level 3: `latest_by` finds nothing"),
        ([drop.older(5), drop.older(10)], "level 2: `older` finds nothing left to drop"),
        (
            [keep.random(0.1, seed=1), keep.random(0.2, seed=1)],
            "level 2: `random` finds nothing left to drop",
        ),
        ([keep.every(1)], "level 1: `every` matches every event it can read: the step drops none of them"),
        ([drop.random(1)], "level 1: `random` matches every event it can read: the step drops all of them"),
        ([drop.random(0.0)], "level 1: `random` matches no event it can read: the step drops none of them"),
        ([keep.random(0)], "level 1: `random` matches no event it can read: the step drops all of them"),
        ([keep.match("")], "level 1: `match` matches every event it can read: the step drops none of them"),
        ([keep(missing="drop").latest(5)], "level 1: `missing` has no meaning for `latest`"),
        (
            [drop(attribute="$topic").delta(5)],
            "level 1: $topic is always a text, `delta` here reads only a number",
        ),
        (
            [drop(attribute="$ts").match("a")],
            "level 1: $ts is always a number, `match` here reads only a text",
        ),
        (
            [drop(attribute="$size").contain(1)],
            "level 1: $size is always a number, `contain` here reads only a list",
        ),
        ([drop(attribute="$size").gt("a")], "level 1: $size is always a number, `gt` here reads only a text"),
        (
            [drop(attribute="$prop.a").within(1, 2)],
            "level 1: $prop.a is always a text, `within` here reads only a num",
        ),
        ([keep.top(3, by="$topic")], "level 1: $topic is always a text, `top` here reads only a number"),
    ],
)
def test_warnings(levels: list[Level], warning: str) -> None:
    (found,) = lint(policy(*levels))
    assert found.startswith(warning)


def test_urgent_reorders_a_topic_declared_ordered() -> None:
    made = policy(drop.delta(5), urgent=when.gt(120))
    assert lint(made) == []
    assert lint(made, ordered=["ward/log", "ward/a"]) == [
        "urgent: its events overtake others of the same topic, but the order of ward/a, ward/log is declared"
    ]
    assert lint(policy(drop.delta(5)), ordered=["ward/log"]) == []


@pytest.mark.parametrize(
    ("urgent", "warning"),
    [
        (when(attribute="$topic").gt(5), "urgent: $topic is always a text, `gt` here reads only a number"),
        (when.match(""), "urgent: `match` matches every event it can read: none goes ahead of the others"),
        (
            [when.gt(1), when(attribute="$ts").match("a")],
            "urgent, predicate 2: $ts is always a number, `match` here reads only a text",
        ),
    ],
)
def test_urgent_that_is_not_meant(urgent: Step | list[Step], warning: str) -> None:
    (found,) = lint(policy(drop.uniq(), urgent=urgent))
    assert found.startswith(warning)


def test_digests_of_texts() -> None:
    made = policy(drop.uniq(), digest={"$topic": ["mean", "distinct", "count"], "pulse": ["mean"]})
    assert lint(made) == ["digest: $topic is always a text, `mean` is about numbers only"]


@pytest.mark.parametrize(
    "levels",
    [
        [drop.uniq(), drop.every(3), drop.uniq()],
        [drop.every(3), drop.every(3)],
        [drop.random(0.1), drop.random(0.1)],
        [keep.latest(10), keep.latest(5)],
        [drop.delta(5), drop.delta(5)],
        [drop.eq(1), drop.eq(True)],
        [drop.eq(1), keep.eq(1)],
        [drop.eq(1), drop(attribute="b").eq(1)],
        [drop.eq(1), drop(missing="drop").eq(1)],
        [drop.gt(5), drop(attribute="$ts").gt(5), keep(attribute="$topic").match("^a")],
        [keep.within(0, 10), keep.inset("a"), drop.top(3), drop.first("a"), keep.random(0.5)],
    ],
)
def test_no_warnings(levels: list[Level]) -> None:
    assert lint(policy(*levels, attribute="a")) == []


def event(topic: str, payload: bytes, ts_us: int, seq: int) -> Event:
    return Event(topic=topic, payload=payload, ts_us=ts_us, seq=seq)


EVENTS = st.lists(
    st.builds(
        event,
        topic=st.sampled_from(["a", "b"]),
        payload=st.sampled_from(
            [b'{"a": 1}', b'{"a": 2}', b'{"a": "x"}', b'{"a": ["x", 1]}', b'{"b": 1}', b"{"]
        ),
        ts_us=st.integers(0, 5_000_000),
        seq=st.integers(0, 20),
    ),
    max_size=20,
)


def doubled(found: Policy) -> Policy:
    """All levels twice over: many steps then have nothing left to do."""
    return policy(*found.levels, *found.levels, attribute=found.attribute, missing=found.missing.value)


@given(
    policies(
        attribute=st.sampled_from(["a", "b", "$topic", "$ts"]),
        scalar=st.sampled_from([1, 2, True, "x", "a"]),
    ).map(doubled),
    EVENTS,
)
def test_no_warning_is_wrong(policy: Policy, events: list[Event]) -> None:
    packed = evaluate.pack(policy, events, level=policy.highest, now_us=6_000_000)
    effects = {(effect.cause.level, effect.cause.position): effect for effect in packed.effects}
    for warning in lint(policy):
        place = re.match(r"level (\d+)(?:, filter (\d+))?: ", warning)
        assert place is not None
        effect = effects[int(place[1]), int(place[2] or 1)]
        if "finds nothing left to drop" in warning or "drops none of them" in warning:
            missing = policy.missing_of(policy.levels[effect.cause.level - 1][effect.cause.position - 1])
            assert effect.dropped == 0 or ("drops none" in warning and missing.value == "drop")
        elif "matches" in warning and "looks at no attribute" not in warning:
            assert effect.dropped == effect.seen or effect.cause.filter == "match"


def test_digests_that_would_hardly_come() -> None:
    (little,) = lint(parse("digest: {share: 0.001}\nlevels: [drop: uniq]"))
    assert little == (
        "digest: a share of 0.001 leaves hardly any digest while events wait: one for every 100,000 bytes"
    )
    (late,) = lint(parse("digest: {every: 2h}\nlevels: [drop: uniq]"))
    assert late == "digest: gathered for 2 h, a digest tells of losses long ago"
    assert lint(parse("digest: {every: 1s, share: 0.05}\nlevels: [drop: uniq]")) == []


def test_a_time_without_a_pace_is_warned_about() -> None:
    said = {"reason": "nothing waits", "instead": "give a drain"}
    timed = parse("{fresh: 1500ms, levels: [{keep: {latest: 1}}]}")
    assert unpaced(timed, **said) == "fresh: 1.5 s has no effect: nothing waits; give a drain"
    assert unpaced(parse("levels: [{keep: {latest: 1}}]"), **said) is None
