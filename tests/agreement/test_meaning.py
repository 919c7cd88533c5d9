"""The meaning of each filter, by example; every engine must agree.

An example is a list of values, one event each (a second apart unless said otherwise), and who stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import cbor2
import msgspec
import pytest

from penstock.model import SECOND_US, Control, Digest, Event, Item
from penstock.model.digest import WORST_CASE
from penstock.model.sketches import distinct_estimate, quantile_estimates
from penstock.policy import evaluate, filters
from penstock.policy.columns import Plan, plan
from penstock.policy.filters import CATALOGUE, Filter, Verb
from penstock.policy.nodes import Missing, PayloadFormat, Policy, Step

Engine: TypeAlias = Callable[[Policy, Sequence[Item], int], list[Item]]
"""A queue after all levels of a policy, packed at some instant."""


def by_reference(policy: Policy, items: Sequence[Item], now_us: int) -> list[Item]:
    return evaluate.pack(policy, items, level=policy.highest, now_us=now_us).items


def by_columns(policy: Policy, items: Sequence[Item], now_us: int) -> list[Item]:
    return Plan(policy).pack(items, level=policy.highest, now_us=now_us).items


ENGINES: dict[str, Engine] = {"reference": by_reference, "fast": by_columns}

KEEP, DROP = Verb.KEEP, Verb.DROP
GONE = object()
"""A payload without the attribute."""
NAN, INF = float("nan"), float("inf")
NOW_US = 1_000 * SECOND_US


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(plan, "SMALL", 0)  # else small queues go to the reference and agree by definition
    return ENGINES[request.param]


def events_of(found: Sequence[Any], times: Sequence[float] | None = None) -> list[Event]:
    """One event per value; CBOR, since it alone carries NaN, infinities and sets."""
    seconds = range(len(found)) if times is None else times
    return [
        Event(
            topic="t",
            payload=cbor2.dumps({} if value is GONE else {"v": value}),
            ts_us=round(second * SECOND_US),
            sender="s",
            seq=seq,
            content_type="application/cbor",
        )
        for seq, (value, second) in enumerate(zip(found, seconds, strict=True))
    ]


def policy_of(
    verb: Verb, filter_: Filter, *, missing: Missing = Missing.KEEP, attribute: str | None = None
) -> Policy:
    step = Step(verb, filter_, attribute if filter_.reads else None)
    return Policy(levels=((step,),), attribute="v", missing=missing)


def kept(
    engine: Engine,
    verb: Verb,
    filter_: Filter,
    found: Sequence[Any],
    *,
    times: Sequence[float] | None = None,
    missing: Missing = Missing.KEEP,
) -> list[int]:
    """Places of the events that stay; the rest must be in the digests."""
    events = events_of(found, times)
    items = engine(policy_of(verb, filter_, missing=missing), events, NOW_US)
    stayed = [item.seq for item in items if isinstance(item, Event)]
    digested = sum(item.count for item in items if isinstance(item, Digest))
    assert len(stayed) + digested == len(found)
    return stayed


def matched(engine: Engine, filter_: Filter, found: Sequence[Any], **more: Any) -> list[int]:
    """Places of the events a filter matches: what `drop` loses and (readable, in scope) `keep` keeps."""
    dropped = sorted(set(range(len(found))) - set(kept(engine, DROP, filter_, found, **more)))
    assert set(dropped) <= set(kept(engine, KEEP, filter_, found, **more))
    return dropped


# -- comparison ----------------------------------------------------------------------------------------------

UNREADABLE_NUMBERS = [None, NAN, GONE, True, False, "5", "", [5], {"x": 5}, b"5"]


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (filters.Gt(value=5), [3, 4]),
        (filters.Ge(value=5), [1, 2, 3, 4]),
        (filters.Lt(value=5), [0]),
        (filters.Le(value=5), [0, 1, 2]),
        (filters.Eq(value=5), [1, 2]),
        (filters.Ne(value=5), [0, 3, 4]),
        (filters.Within(low=5, high=6), [1, 2, 3]),
        (filters.Inset(values=(4, 6)), [0, 3]),
    ],
    ids=lambda found: found.name if isinstance(found, Filter) else "",
)
def test_comparisons_include_the_ends_they_name(engine: Engine, filter_: Filter, expected: list[int]) -> None:
    found = [4, 5, 5.0, 6, INF]
    assert matched(engine, filter_, found) == expected
    assert kept(engine, KEEP, filter_, found) == expected


@pytest.mark.parametrize(
    "filter_", [filters.Gt(value=0), filters.Le(value=99), filters.Within(low=0, high=9)]
)
def test_order_reads_numbers_only_where_the_parameter_is_one(engine: Engine, filter_: Filter) -> None:
    everything = list(range(len(UNREADABLE_NUMBERS)))
    for verb in Verb:
        assert kept(engine, verb, filter_, UNREADABLE_NUMBERS) == everything
        assert kept(engine, verb, filter_, UNREADABLE_NUMBERS, missing=Missing.DROP) == []


def test_missing_drop_takes_only_the_unreadable(engine: Engine) -> None:
    found = [1, GONE, 9, None]
    assert kept(engine, KEEP, filters.Gt(value=5), found) == [1, 2, 3]
    assert kept(engine, KEEP, filters.Gt(value=5), found, missing=Missing.DROP) == [2]
    assert kept(engine, DROP, filters.Gt(value=5), found, missing=Missing.DROP) == [0]


def test_a_step_may_have_its_own_missing_rule(engine: Engine) -> None:
    step = Step(DROP, filters.Gt(value=5), missing=Missing.DROP)
    policy = Policy(levels=((step,),), attribute="v", missing=Missing.KEEP)
    (digest, event) = engine(policy, events_of([GONE, 1]), NOW_US)
    assert isinstance(digest, Digest)
    assert isinstance(event, Event)


def test_order_is_that_of_floats_identity_is_exact(engine: Engine) -> None:
    found = [2**53, 2**53 + 1, float(2**53)]
    assert matched(engine, filters.Gt(value=2**53), found) == []  # one float
    assert matched(engine, filters.Eq(value=2**53), found) == [0, 2]
    assert matched(engine, filters.Eq(value=2**53 + 1), found) == [1]
    assert matched(engine, filters.Ne(value=2**53), found) == [1]
    assert matched(engine, filters.Inset(values=(2**53 + 1,)), found) == [1]


def test_true_is_not_one_and_one_is_one_point_zero(engine: Engine) -> None:
    found = [True, 1, 1.0, "1", False, 0, -0.0, ""]
    assert matched(engine, filters.Eq(value=1), found) == [1, 2]
    assert matched(engine, filters.Eq(value=True), found) == [0]
    assert matched(engine, filters.Eq(value=0), found) == [5, 6]
    assert matched(engine, filters.Inset(values=(True, "1")), found) == [0, 3]
    assert matched(engine, filters.Ne(value=True), found) == [1, 2, 3, 4, 5, 6, 7]


def test_numbers_beyond_64_bits_are_floats(engine: Engine) -> None:
    found = [10**30, 1e30, 10**400]  # the last is beyond every float: unreadable
    assert matched(engine, filters.Eq(value=1e30), found) == [0, 1]
    assert kept(engine, DROP, filters.Gt(value=0), found, missing=Missing.KEEP) == [2]


def test_texts_are_ordered_by_code_point(engine: Engine) -> None:
    found = ["Z", "a", "z", "ä", "日本", "😀", 5, True]
    assert matched(engine, filters.Gt(value="z"), found) == [3, 4, 5]
    assert matched(engine, filters.Le(value="a"), found) == [0, 1]
    assert matched(engine, filters.Within(low="a", high="ä"), found) == [1, 2, 3]
    assert matched(engine, filters.Gt(value="日本"), found) == [5]  # above the surrogates of UTF-16


def test_match_finds_the_pattern_anywhere(engine: Engine) -> None:
    found = ["info", "an info", "INFO", "", "ü", 5, None]
    assert matched(engine, filters.Match(pattern="info"), found) == [0, 1]
    assert matched(engine, filters.Match(pattern="^info$"), found) == [0]
    assert matched(engine, filters.Match(pattern="(?i)INFO"), found) == [0, 1, 2]
    assert matched(engine, filters.Match(pattern="^.$"), found) == [4]  # one character, two bytes
    assert kept(engine, KEEP, filters.Match(pattern="info"), found) == [0, 1, 5, 6]


# -- sets ----------------------------------------------------------------------------------------------------

LISTS: list[Any] = [[], ["a"], ["a", "b"], ["b", "a", "a"], [1, True], ["a", None], "a", None, ["a", ["a"]]]


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (filters.Contain(value="a"), [1, 2, 3, 5, 8]),
        (filters.Contain(value=True), [4]),
        (filters.Contain(value=1.0), [4]),
        (filters.Subset(values=("a", "b", "c")), [0, 1, 2, 3, 5, 8]),  # unreadable members equal nothing
        (filters.Subset(values=("a",)), [0, 1, 5, 8]),
        (filters.Supset(values=("a", "b")), [2, 3]),
        (filters.Supset(values=("a",)), [1, 2, 3, 5, 8]),
    ],
)
def test_list_filters(engine: Engine, filter_: Filter, expected: list[int]) -> None:
    assert matched(engine, filter_, LISTS) == expected
    assert kept(engine, KEEP, filter_, LISTS) == sorted([*expected, 6, 7])  # "a" and null are no lists
    assert kept(engine, KEEP, filter_, LISTS, missing=Missing.DROP) == expected


def test_a_cbor_set_is_a_list_too_and_scalars_filters_cannot_read_lists(engine: Engine) -> None:
    assert matched(engine, filters.Contain(value="a"), [{"a", "b"}, {"b"}]) == [0]
    for filter_ in (filters.Eq(value="a"), filters.Inset(values=("a",)), filters.Ne(value="a")):
        assert kept(engine, KEEP, filter_, [["a"]], missing=Missing.KEEP) == [0]
        assert kept(engine, KEEP, filter_, [["a"]], missing=Missing.DROP) == []


def test_first_and_last_leave_other_values_alone(engine: Engine) -> None:
    found = ["on", "x", "on", "off", "on", None, "off", 5]
    scope = ("on", "off")
    assert kept(engine, KEEP, filters.First(values=scope), found) == [0, 1, 5, 7]
    assert kept(engine, KEEP, filters.Last(values=scope), found) == [1, 5, 6, 7]
    assert kept(engine, DROP, filters.First(values=scope), found) == [1, 2, 3, 4, 5, 6, 7]
    assert kept(engine, DROP, filters.Last(values=scope), found) == [0, 1, 2, 3, 4, 5, 7]
    assert kept(engine, KEEP, filters.First(), found) == [0, 5]
    assert kept(engine, KEEP, filters.Last(), found) == [5, 7]
    assert kept(engine, KEEP, filters.Last(), found, missing=Missing.DROP) == [7]
    assert kept(engine, KEEP, filters.First(values=(99,)), found) == list(range(8))


# -- repetition and change -----------------------------------------------------------------------------------


def test_uniq_compares_with_the_previous_event_whatever_became_of_it(engine: Engine) -> None:
    found = [1, 1, 1.0, 2, 1, True, True, None, True, "1", 2**53, 2**53 + 1]
    assert matched(engine, filters.Uniq(), found) == [1, 2, 6, 8]
    assert matched(engine, filters.Uniq(), [5, 5, 6, 6, 5]) == [1, 3]


def test_guniq_compares_with_all_earlier_events(engine: Engine) -> None:
    found = [1, 2, 1, True, 1.0, "a", None, "a", NAN, NAN, True]
    assert matched(engine, filters.Guniq(), found) == [2, 4, 7, 10]


def test_delta_drops_changes_below_the_band_and_not_those_equal_to_it(engine: Engine) -> None:
    assert matched(engine, filters.Delta(change=5), [70, 74.999, 75, 70.001, 70, 80, 85]) == [1, 3]
    assert matched(engine, filters.Delta(change=5), [0, 3, 6, 9, 12]) == [1, 3]  # creeping is seen
    assert matched(engine, filters.Delta(change=5, since="event"), [0, 3, 6, 9, 14]) == [1, 2, 3]
    assert kept(engine, KEEP, filters.Delta(change=5), [0, 3, 6]) == [1]


def test_delta_passes_over_what_it_cannot_read(engine: Engine) -> None:
    assert matched(engine, filters.Delta(change=5), [None, 1, "x", 2, True, 3, NAN, 9]) == [3, 5]
    assert (
        matched(engine, filters.Delta(change=5), [INF, INF, 0, -INF, -INF]) == []
    )  # ∞ − ∞ is no small change


def test_delta_is_broken_by_silence_of_exactly_the_limit(engine: Engine) -> None:
    dead = filters.Delta(change=5, max_silence=10)
    times = [0, 9.999999, 10, 19.999999, 20, 30.5]
    assert matched(engine, dead, [1] * 6, times=times) == [1, 3]
    since_event = filters.Delta(change=5, since="event", max_silence=10)
    assert matched(engine, since_event, [1] * 4, times=[0, 9, 18, 28]) == [1, 2]
    # an event older than the reference does not break the silence
    assert matched(engine, dead, [1, 1, 1], times=[100, 0, 110]) == [1]


def test_delta_is_arithmetic_of_floats_whatever_the_size_of_the_band(engine: Engine) -> None:
    assert matched(engine, filters.Delta(change=2**53 + 1), [0, 2**53] * 8) == []


def test_swing_drops_what_a_straight_line_says_already(engine: Engine) -> None:
    assert kept(engine, DROP, filters.Swing(deviation=0.5), [0, 1, 2, 3, 4]) == [0, 4]
    assert kept(engine, DROP, filters.Swing(deviation=0.5), [0, 0, 0, 9, 9, 9]) == [0, 2, 3, 5]
    assert kept(engine, DROP, filters.Swing(deviation=1), [0, 1, 0]) == [0, 2]  # exactly the deviation
    assert kept(engine, DROP, filters.Swing(deviation=1), [0, 1.001, 0]) == [0, 1, 2]
    assert kept(engine, DROP, filters.Swing(deviation=1), [5]) == [0]
    assert kept(engine, DROP, filters.Swing(deviation=1), [5, 5]) == [0, 1]


def test_swing_begins_anew_where_time_does_not_rise(engine: Engine) -> None:
    assert kept(engine, DROP, filters.Swing(deviation=9), [1, 1, 1, 1], times=[0, 0, 0, 0]) == [0, 1, 2, 3]
    assert kept(engine, DROP, filters.Swing(deviation=9), [1, 1, 1, 1, 1], times=[0, 5, 2, 3, 4]) == [
        0,
        1,
        2,
        4,
    ]


def test_no_line_leads_to_infinity(engine: Engine) -> None:
    assert kept(engine, DROP, filters.Swing(deviation=1), [INF, 5, 900, 7]) == [0, 1, 2, 3]
    assert kept(engine, DROP, filters.Swing(deviation=1), [0, -INF, 0, 1e308, -1e308, 0]) == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]


@pytest.mark.parametrize("seed", range(20))
def test_swing_error_stays_within_the_deviation(engine: Engine, seed: int) -> None:
    """Between two kept events every dropped one lies within the deviation of their line."""
    dice = Random(seed)
    values, times, at = [], [], 0.0
    level = 50.0
    for _ in range(120):
        at += dice.choice([0.1, 1, 7])
        level += dice.gauss(0, 2)
        values.append(level)
        times.append(at)
    stayed = kept(engine, DROP, filters.Swing(deviation=3), values, times=times)
    assert stayed[0] == 0
    assert stayed[-1] == 119
    assert len(stayed) < 80
    for begin, end in pairwise(stayed):
        for place in range(begin + 1, end):
            share = (times[place] - times[begin]) / (times[end] - times[begin])
            line = values[begin] + share * (values[end] - values[begin])
            assert abs(values[place] - line) <= 3 + 1e-9


# -- position, lot, time -------------------------------------------------------------------------------------


def test_latest_goes_by_event_time_not_by_arrival(engine: Engine) -> None:
    assert kept(engine, KEEP, filters.Latest(n=2), "abcd") == [2, 3]
    assert kept(engine, KEEP, filters.Latest(n=2), "abcd", times=[5, 9, 7, 1]) == [1, 2]  # the late one goes
    assert kept(engine, KEEP, filters.Latest(n=1), "abc", times=[3, 3, 3]) == [2]  # same time: later place
    assert kept(engine, KEEP, filters.Latest(n=9), "abc") == [0, 1, 2]
    assert kept(engine, DROP, filters.Latest(n=1), "abc") == [0, 1]


def test_latest_by_never_lets_an_older_value_replace_a_newer_one(engine: Engine) -> None:
    one = filters.LatestBy(by="v")
    assert kept(engine, KEEP, one, ["a", "b", "a", "b"]) == [2, 3]
    assert kept(engine, KEEP, one, ["a", "b", "a", "b"], times=[5, 6, 4, 6]) == [0, 3]
    assert kept(engine, KEEP, one, [1, True, 1.0, None, "1"]) == [1, 2, 3, 4]
    assert kept(engine, KEEP, one, [1, None], missing=Missing.DROP) == [0]
    assert kept(engine, KEEP, filters.LatestBy(by="v", n=2), "aaab", times=[1, 3, 2, 0]) == [1, 2, 3]
    assert kept(engine, KEEP, filters.LatestBy(by="$topic"), "abc") == [2]


def test_every_counts_places_from_one(engine: Engine) -> None:
    assert kept(engine, KEEP, filters.Every(n=3), range(7)) == [2, 5]
    assert kept(engine, DROP, filters.Every(n=3), range(7)) == [0, 1, 3, 4, 6]
    assert kept(engine, KEEP, filters.Every(n=1), range(3)) == [0, 1, 2]
    assert kept(engine, KEEP, filters.Every(n=8), range(7)) == []


def test_random_takes_its_share_the_same_each_time(engine: Engine) -> None:
    found = range(2000)
    stayed = kept(engine, DROP, filters.Random(fraction=0.25, seed=3), found)
    assert 1430 < len(stayed) < 1570
    assert stayed == kept(engine, DROP, filters.Random(fraction=0.25, seed=3), found)
    assert stayed != kept(engine, DROP, filters.Random(fraction=0.25, seed=4), found)
    more = kept(engine, DROP, filters.Random(fraction=0.5, seed=3), found)
    assert set(more) < set(stayed)
    assert kept(engine, DROP, filters.Random(fraction=0, seed=1), found) == list(found)
    assert kept(engine, DROP, filters.Random(fraction=1, seed=1), found) == []


def test_older_is_strictly_older_at_packing_time(engine: Engine) -> None:
    times = [990, 989.999999, 1000, 2000, 0]
    assert matched(engine, filters.Older(seconds=10), range(5), times=times) == [1, 4]


def test_throttle_keeps_the_newest_of_each_interval(engine: Engine) -> None:
    assert kept(engine, DROP, filters.Throttle(seconds=10), range(5), times=[0, 9.999999, 10, 11, 20]) == [
        1,
        3,
        4,
    ]
    assert kept(engine, DROP, filters.Throttle(seconds=10), range(4), times=[5, 3, 12, 11]) == [0, 2]
    assert kept(engine, DROP, filters.Throttle(seconds=10), range(3), times=[5, 5, 5]) == [2]
    assert kept(engine, DROP, filters.Throttle(seconds=10), range(2), times=[-1, 1]) == [0, 1]


def test_throttle_by_key(engine: Engine) -> None:
    by = filters.Throttle(seconds=10, by="v")
    assert kept(engine, DROP, by, ["a", "b", "a", None, None, 1, True]) == [1, 2, 3, 4, 5, 6]
    assert kept(engine, DROP, by, ["a", None], missing=Missing.DROP) == [0]


def test_top_keeps_the_earlier_of_equals(engine: Engine) -> None:
    found = [3, 9, "x", 9.0, 1, INF, None, True]
    assert kept(engine, KEEP, filters.Top(n=2), found) == [1, 2, 5, 6, 7]
    assert kept(engine, KEEP, filters.Top(n=2, order="smallest"), found) == [0, 2, 4, 6, 7]
    assert kept(engine, KEEP, filters.Top(n=2), found, missing=Missing.DROP) == [1, 5]
    assert kept(engine, KEEP, filters.Top(n=1, by="$ts"), [1, 2, 3], times=[5, 9, 7]) == [1]
    assert kept(engine, DROP, filters.Top(n=1), [1, 3, 2]) == [0, 2]
    assert kept(engine, KEEP, filters.Top(n=50), [1, "x"], missing=Missing.DROP) == [0]
    assert kept(engine, KEEP, filters.Top(n=3), [1, 2, 2, 2, 2, 0] * 50) == [1, 2, 3]


@pytest.mark.parametrize(
    "filter_",
    [
        filters.Throttle(seconds=1e20),
        filters.Throttle(seconds=1e305, by="v"),
        filters.Older(seconds=1e305),
        filters.Delta(change=1, max_silence=1e305),
        filters.Delta(change=1e308, max_silence=1e-9),
        filters.Throttle(seconds=1e-9),
        filters.Latest(n=2**63 - 1),
        filters.LatestBy(by="v", n=2**63 - 1),
        filters.Every(n=2**63 - 1),
        filters.Top(n=2**63 - 1),
    ],
    ids=str,
)
def test_no_parameter_is_too_large_to_compute_with(engine: Engine, filter_: Filter) -> None:
    for verb in Verb:
        kept(engine, verb, filter_, [1, 2, 3])  # the account inside is the assertion


# -- the walk ------------------------------------------------------------------------------------------------


def test_one_digest_per_gap_in_its_place(engine: Engine) -> None:
    policy = Policy(
        levels=((Step(DROP, filters.Lt(value=5)),), (Step(DROP, filters.Ge(value=8)),)),
        attribute="v",
        digest=(("v", "mean"), ("v", "min"), ("v", "max"), ("v", "first"), ("v", "last"), ("v", "stddev")),
    )
    events = events_of([1, 9, 5, 2, 6, 3, 8, 4])
    up = evaluate.digest_of(None, events[0], WORST_CASE)
    mark = Control(kind="mark")
    items: list[Item] = [*events[:2], mark, up, events[2], up, *events[3:]]
    out = engine(policy, items, NOW_US)
    shape = [item.count if isinstance(item, Digest) else item for item in out]
    assert shape == [2, mark, 1, events[2], 2, events[4], 3]
    last = out[-1]
    assert isinstance(last, Digest)
    assert [(str(cause), count) for cause, count in last.causes] == [("1.1 lt", 2), ("2.1 ge", 1)]
    ((name, summary),) = last.attributes
    assert (name, summary.n, summary.mean, summary.least, summary.most) == ("v", 3, 5.0, 3.0, 8.0)
    assert summary.first is not None
    assert summary.last is not None
    assert (summary.first.value, summary.last.value) == (3, 4)
    assert summary.stddev == pytest.approx((14 / 3) ** 0.5)
    assert (last.seq_first, last.seq_last) == (5, 7)
    assert (last.from_us, last.to_us) == (5 * SECOND_US, 7 * SECOND_US)


def test_digesters_read_what_they_can(engine: Engine) -> None:
    asked = tuple(("v", name) for name in ("sum", "min", "max", "first", "last", "distinct", "quantiles"))
    policy = Policy(levels=((Step(KEEP, filters.Every(n=99)),),), attribute="v", digest=asked)
    (digest,) = engine(policy, events_of(["a", 1, None, True, 1.0, [1], NAN, "b"]), NOW_US)
    assert isinstance(digest, Digest)
    ((_, summary),) = digest.attributes
    assert (digest.count, summary.n, summary.total) == (8, 2, 2.0)
    assert summary.first is not None
    assert summary.last is not None
    assert (summary.first.value, summary.last.value) == ("a", "b")
    assert summary.distinct is not None
    assert summary.quantiles is not None
    assert round(distinct_estimate(summary.distinct)) == 4  # "a", 1 and 1.0, true, "b"
    assert quantile_estimates(summary.quantiles, (0.5,)) == {0.5: 1.0}


def test_a_long_text_is_carried_by_its_beginning(engine: Engine) -> None:
    policy = Policy(levels=((Step(KEEP, filters.Every(n=99)),),), attribute="v", digest=(("v", "last"),))
    (digest,) = engine(policy, events_of(["x" * 10_000, "é" * 10_000]), NOW_US)
    assert isinstance(digest, Digest)
    assert digest.attributes[0][1].last is not None
    assert digest.attributes[0][1].last.value == "é" * 1024
    assert digest.size < 1500


def test_formats_given_by_the_policy(engine: Engine) -> None:
    def stayed(payload: bytes, given: PayloadFormat) -> int:
        policy = Policy(levels=((Step(DROP, filters.Gt(value=5)),),), attribute="v", payload=given)
        out = engine(policy, [Event("t", payload, 0)], NOW_US)
        return sum(isinstance(item, Event) for item in out)

    assert stayed(msgspec.json.encode({"v": 6}), PayloadFormat.AUTO) == 0
    assert stayed(msgspec.msgpack.encode({"v": 6}), PayloadFormat.MSGPACK) == 0
    assert stayed(msgspec.json.encode({"v": 6}), PayloadFormat.MSGPACK) == 1  # cannot be read: is kept


def test_every_filter_has_an_example_here() -> None:
    """A filter added to the catalogue needs its examples."""
    here = Path(__file__).read_text(encoding="utf-8")
    assert [name for name, kind in CATALOGUE.items() if f"filters.{kind.__name__}(" not in here] == []
