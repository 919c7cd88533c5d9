"""One pack climbs from its level until enough is gone; only a pack for room ends in the worst case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.queues.climbing import Climber
from penstock.core.queues.controllers import Predictive
from penstock.core.queues.pace import Pace
from penstock.core.queues.sparing import Sparing
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.policy.text.forms import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.event import Item

POLICY = parse("""
name: halves
levels:
  - keep: {latest: 8}
  - keep: {latest: 4}
  - keep: {latest: 2}
""")
NOW_US = 1_000_000


def climber() -> Climber:
    return Climber(POLICY, Predictive(), digests_at_once=True)


def sixteen() -> list[Item]:
    return [Event("t", b"%d" % number, NOW_US, seq=number) for number in range(16)]


def events(items: Sequence[Item]) -> list[int]:
    return [item.seq for item in items if isinstance(item, Event)]


def counted(items: Sequence[Item]) -> int:
    return sum(item.count if isinstance(item, Digest) else 1 for item in items)


def test_it_climbs_until_enough_is_gone() -> None:
    found = climber().climb(sixteen(), 1, now_us=NOW_US, enough=lambda left: len(events(left)) <= 4)
    assert (found.level, found.collapsed) == (2, None)
    assert events(found.items) == [12, 13, 14, 15]
    assert [effect.dropped for effect in found.effects] == [8, 4]
    assert counted(found.items) == 16


def test_the_worst_case_ends_a_climb_for_room() -> None:
    found = climber().climb(sixteen(), 2, now_us=NOW_US, enough=lambda left: not events(left))
    assert (found.level, found.collapsed) == (0, 2)
    assert [item.count for item in found.items if isinstance(item, Digest)] == [16]


def test_without_a_policy_everything_becomes_one_digest() -> None:
    found = Climber(None, Predictive(), digests_at_once=False).climb(
        sixteen(), 0, now_us=NOW_US, enough=lambda _: True
    )
    assert (found.level, found.collapsed, counted(found.items)) == (0, 16, 16)


def test_a_climb_for_time_ends_with_the_highest_level() -> None:
    found = climber().climb_in_time(
        sixteen(),
        1,
        ahead=(),
        pace=Pace(by_items=True),
        sparing=Sparing(),
        most=1.0,
        now_us=NOW_US,
    )
    assert (found.level, found.collapsed) == (3, None)
    assert events(found.items) == [14, 15]
    assert counted(found.items) == 16
