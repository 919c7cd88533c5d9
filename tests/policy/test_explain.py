"""A policy in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given

from penstock.policy.explain import explain
from penstock.policy.text.forms import parse
from penstock.policy.text.python_form import drop, keep, policy, when
from tests.kit.policies import policies

if TYPE_CHECKING:
    from penstock.policy.nodes import Policy


DIGEST = "A digest replaces dropped events and states how many they were and from when to when"


def test_the_vitals_policy() -> None:
    made = policy(
        drop.delta(5),
        drop.within(50, 100),
        keep.latest(10),
        name="vitals",
        attribute="pulse",
        digest=["count", "mean", "min", "max"],
    )
    assert explain(made) == [
        "Policy 'vitals' has 3 levels; a level applies all levels below it first.",
        "Level 1 drops an event if pulse changed by less than 5 since the last one kept.",
        "Level 2 also drops an event if pulse is between 50 and 100.",
        "Level 3 also drops an event unless it is among the newest 10 of the queue.",
        "An event whose attribute a filter cannot read is kept by that filter.",
        f"{DIGEST}; of pulse also mean, min and max.",
        "If even level 3 frees too little, all waiting events are dropped into one digest.",
    ]


def test_fresh_and_urgent() -> None:
    made = policy(
        drop.delta(5), attribute="pulse", fresh="1s", urgent=[when.gt(120), when(attribute="spo2").lt(90)]
    )
    found = explain(made)
    assert found[1:3] == [
        (
            "No event should wait longer than 1 s: before one would, the queue is packed at the lowest level "
            "that suffices. How long events wait follows from the pace of the receiver, or from a `drain`; "
            "where neither is known, `fresh` has no effect."
        ),
        (
            "An event is urgent if pulse is greater than 120 or spo2 is less than 90: it goes ahead of what "
            "waits, and no level drops it. The order among urgent events, and among all others, stays."
        ),
    ]
    assert "all waiting events, the urgent ones last, are dropped into one digest" in found[-1]


def test_what_matters() -> None:
    found = explain(policy(drop.delta(5), attribute="pulse", matters=[when.gt(120), when.lt(40)]))
    assert found[1] == (
        "An event matters if pulse is greater than 120 or pulse is less than 40: a backtest shows how many "
        "of these arrive, and how late."
    )


def test_chains_and_settings() -> None:
    made = policy(
        [drop.guniq(), drop(attribute="spo2", missing="keep").gt(95), keep(missing="keep").latest(5)],
        missing="drop",
        payload="cbor",
        description="What it is for.",
    )
    assert explain(made) == [
        "This policy has 1 level; a level applies all levels below it first.",
        "What it is for.",
        "Payloads are read as cbor, unless an event says otherwise.",
        (
            "Level 1 drops an event if $value already stood in an earlier event of the queue, "
            "and then an event if spo2 is greater than 95 (kept if that cannot be read), "
            "and then an event unless it is among the newest 5 of the queue."
        ),
        "An event whose attribute a filter cannot read is dropped by that filter.",
        f"{DIGEST}.",
        "If even level 1 frees too little, all waiting events are dropped into one digest.",
    ]


def test_a_policy_that_reads_nothing_says_nothing_of_reading() -> None:
    assert not any("cannot read" in line for line in explain(policy(keep.latest(5), drop.random(0.1))))
    assert any("cannot read" in line for line in explain(policy(keep.latest_by("$prop.unit"))))


@given(policies())
def test_every_policy_has_words(policy: Policy) -> None:
    assert sum(line.startswith("Level ") for line in explain(policy)) >= policy.highest


def test_how_digests_are_sent() -> None:
    found = explain(parse("digest: {every: 2s, share: 0.05}\nlevels: [drop: uniq]"))
    assert "Digests are gathered for 2 s and sent as one, which may come behind later events." in found
    assert "Digests take at most 0.05 of what the link carries; beyond that they are gathered, too." in found
    whole = explain(parse("digest: {share: 1}\nlevels: [drop: uniq]"))
    assert "Digests may take all that the link carries." in whole
    assert not [line for line in explain(parse("levels: [drop: uniq]")) if "gathered" in line]
