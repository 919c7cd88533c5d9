"""The locator asks an access point once in 30 s, and only where the message does not say the address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from penstock.core.queues import DropNewestQueue, PackingQueue, QueueOptions, Replay
from penstock.model.event import Event
from penstock.model.instant import SECOND_US
from penstock_lab.experiments.pack.campus import LEAST_S, MOST_S, READ_US, Locator

if TYPE_CHECKING:
    from penstock.model.digest import Digest


def message(at_s: float, *, action: str = "Associated", kind: str = "Info", **more: str) -> Event:
    said = {"action": action, "message_type": kind, "ap": "AP-b000-0", "host": "00:09"} | more
    return Event("campus", msgspec.json.encode(said), round(at_s * SECOND_US))


@pytest.fixture
def locator() -> Locator:
    return Locator(np.random.default_rng(1))


def test_a_query_takes_its_time_and_its_answer_serves_for_30_s(locator: Locator) -> None:
    took_us = locator.takes_us(message(0), now_us=SECOND_US)
    assert LEAST_S * SECOND_US <= took_us - READ_US <= MOST_S * SECOND_US
    answered_us = SECOND_US + took_us
    assert locator.resolved == [answered_us]
    assert locator.takes_us(message(2), now_us=answered_us + 29 * SECOND_US) == READ_US
    assert locator.queries == 1
    assert locator.takes_us(message(3), now_us=answered_us + 30 * SECOND_US) > READ_US
    assert locator.takes_us(message(4, ap="AP-b000-1"), now_us=answered_us) > READ_US
    assert locator.queries == 3


@pytest.mark.parametrize(
    "other",
    [
        message(0, action="Disassociated"),
        message(0, action="roamed"),
        message(0, kind="Warning"),
        message(0, ip="10.0.0.1"),
    ],
)
def test_whatever_else_it_is_done_with_at_once(locator: Locator, other: Event) -> None:
    assert locator.takes_us(other, now_us=0) == READ_US
    assert locator.queries == 0


def test_only_associations_are_answers(locator: Locator) -> None:
    locator.takes_us(message(0, action="roamed"), now_us=0)
    assert locator.resolved == []
    locator.takes_us(message(0, ip="10.0.0.1"), now_us=0)
    assert locator.resolved == [READ_US]


def test_a_reader_behind_a_replayed_queue(locator: Locator) -> None:
    replay = Replay(DropNewestQueue(), locator)
    for at_s in range(3):
        replay.offer(message(at_s, action="roamed"))
    assert list(replay.finish().delivered_us) == [at_s * SECOND_US + READ_US for at_s in range(3)]


class Steady:
    """A reader that takes one second for an event."""

    def takes_us(self, item: Event | Digest, *, now_us: int) -> int:  # noqa: ARG002
        return SECOND_US if isinstance(item, Event) else 0


def test_a_reader_says_itself_what_a_digest_takes() -> None:
    replay = Replay(PackingQueue(None, QueueOptions(capacity_events=3)), Steady())
    for number in range(50):
        replay.offer(message(number / 1_000))
    done = replay.finish()
    assert done.digests >= 1
    assert done.statistics.conserved
    assert max(done.delivered_us) == done.statistics.delivered * SECOND_US
