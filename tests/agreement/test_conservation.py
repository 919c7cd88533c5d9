"""Laws that hold for every policy, queue, level and engine; 10,000 generated cases in a long run.

IDEMPOTENT lists the filters whose second pack changes nothing; the test finds, for each of the others, a
queue where it does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from random import Random
from typing import Literal, TypeAlias

import pytest
import xxhash

from penstock.model import Control, Digest, Event, Item
from penstock.policy import evaluate, filters
from penstock.policy.columns import Plan, plan
from penstock.policy.evaluate import Packed
from penstock.policy.filters import CATALOGUE, Verb
from penstock.policy.nodes import Policy, Step
from tests.agreement.cases import Case, a_filter, a_queue, case
from tests.agreement.comparing import assert_same
from tests.kit.effort import seeds
from tests.kit.paths import ROOT

CASES = 10_000
BATCH = 250

Engine: TypeAlias = Callable[[Policy, Sequence[Item], int, int, int], Packed]
"""(policy, items, level, now_us, above) → the packed queue."""


def by_reference(policy: Policy, items: Sequence[Item], level: int, now_us: int, above: int) -> Packed:
    return evaluate.pack(policy, items, level=level, now_us=now_us, above=above)


def by_columns(policy: Policy, items: Sequence[Item], level: int, now_us: int, above: int) -> Packed:
    return Plan(policy).pack(items, level=level, now_us=now_us, above=above)


ENGINES: dict[str, Engine] = {"reference": by_reference, "fast": by_columns}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(plan, "SMALL", 0)
    return ENGINES[request.param]


def total(items: Sequence[Item]) -> int:
    """Events, those counted in digests included."""
    return sum(item.count if isinstance(item, Digest) else isinstance(item, Event) for item in items)


def standing(items: Sequence[Item]) -> list[int]:
    """The events and control items: the same objects wherever they stand."""
    return [id(item) for item in items if not isinstance(item, Digest)]


def gaps(items: Sequence[Item], stayed: set[int]) -> list[list[Event | Digest]]:
    """The items before, between and after those that stayed."""
    found: list[list[Event | Digest]] = [[]]
    for item in items:
        if id(item) in stayed:
            found.append([])
        else:
            assert not isinstance(item, Control)
            found[-1].append(item)
    return found


def span(item: Event | Digest) -> tuple[int, int, int, int]:
    if isinstance(item, Event):
        return item.ts_us, item.ts_us, item.seq, item.seq
    return item.from_us, item.to_us, item.seq_first, item.seq_last


def assert_lawful(before: Sequence[Item], after: Sequence[Item]) -> None:
    """Order, control items, and in each gap one digest for exactly what stood there."""
    stayed = set(standing(after))
    assert standing(after) == [one for one in standing(before) if one in stayed]
    assert all(id(item) in stayed for item in before if isinstance(item, Control))
    for lost, told in zip(gaps(before, stayed), gaps(after, stayed), strict=True):
        assert len(told) == (1 if lost else 0)
        for digest in told:
            assert isinstance(digest, Digest)
            assert digest.count == total(lost) == sum(count for _, count in digest.causes)
            from_us, to_us, seq_first, seq_last = zip(*map(span, lost), strict=True)
            assert span(digest) == (min(from_us), max(to_us), min(seq_first), max(seq_last))


def check_case(engine: Engine, found: Case) -> None:
    policy, items, now_us = found.policy, found.items, found.now_us
    below: set[int] = set(standing(items))
    for level in range(policy.highest + 1):
        packed = engine(policy, items, level, now_us, 0)
        assert total(packed.items) == total(items)
        if level:
            assert_lawful(items, packed.items)
        else:
            assert packed.items == items
        now = set(standing(packed.items))
        assert now <= below, "a higher level keeps what a lower one drops"
        below = now
        events = sum(isinstance(item, Event) for item in items)
        for effect in packed.effects:
            assert effect.seen == events
            events -= effect.dropped
        assert events == sum(isinstance(item, Event) for item in packed.items)


def check_two_hops(engine: Engine, found: Case) -> None:
    """Packing at a low level and then further is packing at the high level at once."""
    policy, items, now_us = found.policy, found.items, found.now_us
    at_once = engine(policy, items, policy.highest, now_us, 0)
    low = found.level
    first = engine(policy, items, low, now_us, 0)
    then = engine(policy, first.items, policy.highest, now_us, low)
    assert first.effects + then.effects == at_once.effects
    if low < policy.highest:
        assert_same(then.items, at_once.items)


@pytest.mark.parametrize("batch", seeds(0, CASES // BATCH))
def test_every_event_is_accounted_for_in_its_place_at_every_level(engine: Engine, batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        try:
            check_case(engine, case(seed, most=30))
        except AssertionError as error:
            raise AssertionError(f"case({seed}, most=30)") from error


@pytest.mark.parametrize("batch", seeds(0, 4))
def test_packing_in_two_hops(engine: Engine, batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        try:
            check_two_hops(engine, case(seed))
        except AssertionError as error:
            raise AssertionError(f"case({seed})") from error


# -- idempotence ---------------------------------------------------------------------------------------------

PREDICATES = (
    "gt", "ge", "eq", "ne", "lt", "le", "match", "within", "inset", "contain", "subset", "supset", "random",
    "older",
)  # fmt: skip

IDEMPOTENT = {
    *((name, verb) for name in PREDICATES for verb in Verb),
    ("first", Verb.KEEP),
    ("last", Verb.KEEP),
    ("uniq", Verb.DROP),
    ("guniq", Verb.DROP),
    ("latest", Verb.KEEP),
    ("latest_by", Verb.KEEP),
    ("throttle", Verb.DROP),
    ("top", Verb.KEEP),
}


def changes_again(verb: Verb, found: str | filters.Filter, seed: int) -> bool:
    """Whether a second pack (of a queue packed once by this filter) drops something."""
    dice = Random(seed)
    node = a_filter(dice, CATALOGUE[found]) if isinstance(found, str) else found
    policy = Policy(levels=((Step(verb, node),),), attribute="v")
    items = a_queue(dice, 25)
    once = evaluate.pack(policy, items, level=1, now_us=12_000_000)
    twice = evaluate.pack(policy, once.items, level=1, now_us=12_000_000)
    return standing(twice.items) != standing(once.items)


@pytest.mark.parametrize("verb", Verb)
@pytest.mark.parametrize("name", CATALOGUE)
def test_which_filters_are_idempotent(name: str, verb: Verb) -> None:
    changed = any(changes_again(verb, name, seed) for seed in seeds(0, 600))
    assert changed is ((name, verb) not in IDEMPOTENT)


@pytest.mark.parametrize("max_silence", [None, 0.5, 2])
def test_the_dead_band_is_idempotent_if_its_reference_is_what_was_kept(max_silence: float | None) -> None:
    def changed(since: Literal["kept", "event"], seed: int) -> bool:
        delta = filters.Delta(change=5, since=since, max_silence=max_silence)
        return changes_again(Verb.DROP, delta, seed)

    assert not any(changed("kept", seed) for seed in seeds(0, 2_400))
    assert any(changed("event", seed) for seed in seeds(0, 2_400))


# -- determinism ---------------------------------------------------------------------------------------------

FINGERPRINT = """
import xxhash
from penstock.model import Digest, Event
from penstock.policy import evaluate
from penstock.policy.columns import Plan, plan
from tests.agreement.cases import case
plan.SMALL = 0
seen = xxhash.xxh64()
for seed in range(400):
    found = case(seed)
    for packed in (
        evaluate.pack(found.policy, found.items, level=found.level, now_us=found.now_us),
        Plan(found.policy).pack(found.items, level=found.level, now_us=found.now_us),
    ):
        seen.update(repr(packed.effects).encode())
        for item in packed.items:
            if isinstance(item, Digest):
                known = [(name, s.n, s.total, s.first, s.last, s.distinct) for name, s in item.attributes]
                seen.update(repr((item.count, item.causes, known)).encode())
            else:
                seen.update(repr(item.seq if isinstance(item, Event) else item.body).encode())
print(seen.hexdigest())
"""


@pytest.mark.slow
def test_the_hash_seed_of_python_changes_nothing() -> None:
    def run(hash_seed: str) -> str:
        root = ROOT
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{root / 'src'}:{root}"}
        done = subprocess.run(
            [sys.executable, "-c", FINGERPRINT], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    fingerprints = {run(hash_seed) for hash_seed in ("0", "1", "4711")}
    assert len(fingerprints) == 1
    assert len(fingerprints.pop()) == 16


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.25, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("seed", [0, 7, -3, 2**62])
def test_random_is_xxh64_of_the_documented_text(engine: Engine, fraction: float, seed: int) -> None:
    """The upper 53 bits of XXH64, seed 42, of `<seed>|<sender>|<seq>`, as a fraction of 2⁵³."""
    senders = ["s", "日本", "", "a|b", "1"]
    events = [Event("t", b"", n, sender=senders[n % 5], seq=n * n - 5) for n in range(200)]
    policy = Policy(levels=((Step(Verb.DROP, filters.Random(fraction=fraction, seed=seed)),),))
    out = engine(policy, events, 1, 0, 0).items
    expected = []
    for event in events:
        drawn = xxhash.xxh64(f"{seed}|{event.sender}|{event.seq}".encode(), seed=42).intdigest()
        if (drawn >> 11) / 2**53 >= fraction:
            expected.append(event)
    assert [item for item in out if isinstance(item, Event)] == expected


def test_random_filters_of_one_policy_draw_different_lots(engine: Engine) -> None:
    """The paper's RANDOM 10 %, then 25 %: 0.1 + 0.9 · 0.25 of the events go, not 0.25."""
    levels = tuple((Step(Verb.DROP, filters.Random(fraction=share)),) for share in (0.1, 0.25))
    events = [Event("t", b"", n, sender="s", seq=n) for n in range(20_000)]
    out = engine(Policy(levels=levels), events, 2, 0, 0).items
    gone = 1 - sum(isinstance(item, Event) for item in out) / len(events)
    assert gone == pytest.approx(0.325, abs=0.01)
