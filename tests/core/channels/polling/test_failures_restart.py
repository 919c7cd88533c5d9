"""Nodes that crash: once is no reason to wait, again and again is."""

from __future__ import annotations

from penstock import limits
from penstock.core.channels.polling import Life, Manners
from penstock.core.channels.polling.failures import begun, restart_hold
from penstock.model.instant import SECOND_US

MANNERS = Manners()
START_US = 1_700_000_000 * SECOND_US
MINUTE_US = 60 * SECOND_US


def test_pauses_grow_while_a_node_crashes_again_and_again() -> None:
    pauses = []
    life, now_us = None, START_US
    for _ in range(12):
        life = begun(life, manners=MANNERS, now_us=now_us)
        pauses.append((life.began_us - now_us) // MINUTE_US)
        now_us = life.began_us + SECOND_US  # it crashes a second after it began
    assert pauses == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_a_node_that_lived_for_a_while_or_was_closed_begins_at_once() -> None:
    crashed = Life(START_US, crashes=9)
    later_us = START_US + limits.RESTART_SOON_US
    assert begun(crashed, manners=MANNERS, now_us=later_us) == Life(later_us)
    assert begun(None, manners=MANNERS, now_us=START_US + 1) == Life(START_US + 1)


def test_a_node_that_ended_in_its_pause_asked_nobody() -> None:
    before = Life(START_US + MINUTE_US, crashes=3)
    again = begun(before, manners=MANNERS, now_us=START_US)
    assert (again.crashes, again.began_us - START_US) == (3, 2 * MINUTE_US)


def test_a_clock_that_was_years_ahead_costs_an_hour_at_most() -> None:
    before = Life(START_US * 2, crashes=50)
    again = begun(before, manners=MANNERS, now_us=START_US)
    assert again.began_us - START_US == limits.RESTART_MOST_US


def test_the_pause_is_a_sentence_and_holds_whoever_asks() -> None:
    found = restart_hold(Life(START_US, crashes=3), now_us=START_US - 1)
    assert found is not None
    assert found.hard
    assert found.reason == "This node crashed 3 times, so it fetches nothing until 2023-11-14 22:13:20 UTC."
    assert restart_hold(Life(START_US, crashes=3), now_us=START_US) is None
