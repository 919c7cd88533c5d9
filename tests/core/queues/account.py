"""Compares a queue's input with its output: events in order, the rest in digests in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model import Control, Digest, Event, Item
from penstock.model.digest import WORST_CASE
from penstock.policy import evaluate, filters
from penstock.policy.filters import Verb
from penstock.policy.nodes import Policy, Step
from penstock.policy.text.python_form import drop, keep

if TYPE_CHECKING:
    from collections.abc import Sequence

LEVELS = {
    "nothing": [drop.eq("never")],
    "everything": [keep.eq("never")],
    "every other": [drop.every(2), keep.latest(2)],
    "ladder": [drop.uniq(), drop.delta(2), keep.latest(3)],
}
"""Levels by what they take out of a full queue, for machines that try all of them."""


def an_event(seq: int, value: object = 0, *, size: int = 0, ts_us: int | None = None) -> Event:
    payload = str(value).encode().ljust(size)
    return Event("t", payload, seq * 1000 if ts_us is None else ts_us, sender="s", seq=seq)


def a_digest(seq: int, count: int = 1, policy: Policy | None = None) -> Digest:
    """A digest from upstream: `count` events numbered from `seq`."""
    (digest,) = evaluate.collapse(policy, [an_event(seq + n) for n in range(count)], cause=WORST_CASE)
    assert isinstance(digest, Digest)
    return digest


def policy(*levels: tuple[Verb, filters.Filter], **more: object) -> Policy:
    """A policy of one filter per level, on the whole payload; digests stay in their places."""
    more = {"digest_share": 1.0} | more
    return Policy(levels=tuple((Step(verb, node),) for verb, node in levels), **more)  # type: ignore[arg-type]


POLICIES: dict[str, Policy | None] = {
    "none": None,
    "drops nothing": policy((Verb.DROP, filters.Eq(value="never"))),
    "drops all": policy((Verb.KEEP, filters.Eq(value="never"))),
    "every other": policy((Verb.DROP, filters.Every(n=2))),  # digests take the places of events
    "latest": policy((Verb.KEEP, filters.Latest(n=2)), digest=(("$value", "mean"), ("$value", "last"))),
    "conflate": policy((Verb.KEEP, filters.LatestBy(by="$value"))),
    "ladder": policy(
        (Verb.DROP, filters.Uniq()),
        (Verb.DROP, filters.Delta(change=2)),
        (Verb.KEEP, filters.Latest(n=3)),
        digest=(("$value", "stddev"),),
    ),
}


def total(items: Sequence[Item]) -> int:
    """Events, those counted in digests included."""
    return sum(item.count if isinstance(item, Digest) else isinstance(item, Event) for item in items)


def standing(items: Sequence[Item]) -> list[int]:
    """Events and control items: the same objects wherever they stand."""
    return [id(item) for item in items if not isinstance(item, Digest)]


def gaps(items: Sequence[Item], stayed: set[int]) -> list[list[Item]]:
    """The items before, between and after those that stayed."""
    found: list[list[Item]] = [[]]
    for item in items:
        if id(item) in stayed:
            found.append([])
        else:
            found[-1].append(item)
    return found


def span(items: Sequence[Item]) -> tuple[int, int, int, int] | None:
    """Times and numbers from … to."""
    times: list[int] = []
    places: list[int] = []
    for item in items:
        if isinstance(item, Event):
            times.append(item.ts_us)
            places.append(item.seq)
        elif isinstance(item, Digest):
            times += [item.from_us, item.to_us]
            places += [item.seq_first, item.seq_last]
    return (min(times), max(times), min(places), max(places)) if times else None


def assert_told(offered: Sequence[Item], out: Sequence[Item]) -> None:
    """Events came out once and in order, control items all, and each gap counts exactly what it lost."""
    stayed = set(standing(out))
    assert len(stayed) == len(standing(out)), "an item came out twice"
    assert standing(out) == [one for one in standing(offered) if one in stayed]
    assert all(id(item) in stayed for item in offered if isinstance(item, Control))
    for lost, told in zip(gaps(offered, stayed), gaps(out, stayed), strict=True):
        assert total(lost) == total(told)
        assert span(lost) == span(told)
