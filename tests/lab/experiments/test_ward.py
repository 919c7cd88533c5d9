"""The ward on a slow link: each row fails where the queue of the phone with a policy is broken on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.core.queues import PackingQueue
from penstock_lab.experiments import ward

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.queues.bounded import BoundedQueue
    from penstock_lab.experiments.ward import View

SECONDS = 120
ALARMS, DELAY, AGE, READINGS, LADDER, UNTOLD, ACCOUNT = range(7)


@pytest.fixture(scope="module")
def views() -> dict[str, View]:
    return {phone.name: ward._watch(phone, 5, SECONDS) for phone in ward.PHONES}


def failing(views: dict[str, View]) -> list[int]:
    return [number for number, row in enumerate(ward._rows(views)) if row.ok is False]


def with_queue(views: dict[str, View], make: Callable[[], BoundedQueue]) -> dict[str, View]:
    """The views with another queue for the phone with a policy."""
    phone = next(each for each in ward.PHONES if each.name == "policy")
    return {**views, "policy": ward._watch(replace(phone, make=make), 5, SECONDS)}


@pytest.mark.slow
def test_every_row_holds(views: dict[str, View]) -> None:
    assert failing(views) == []


@pytest.mark.slow
def test_alarms_that_are_not_urgent_fail_the_row(views: dict[str, View]) -> None:
    plain = replace(ward.POLICY, urgent=())
    assert failing(with_queue(views, lambda: PackingQueue(plain, ward._room()))) == [ALARMS]


def test_a_queue_that_lets_readings_wait_fails_the_row_of_ages(views: dict[str, View]) -> None:
    oldest = next(each for each in ward.PHONES if each.name == "drop oldest")
    assert AGE in failing(with_queue(views, oldest.make))


@pytest.mark.parametrize(
    ("broken", "row"),
    [
        ({"alarms": 0.98}, ALARMS),
        ({"late_s": 1.5}, DELAY),
        ({"late_s": float("nan")}, DELAY),
        ({"events": 1}, READINGS),
        ({"untold": 1}, UNTOLD),
        ({"conserved": False}, ACCOUNT),
    ],
)
def test_a_view_that_misses_a_promise_fails_its_row(
    views: dict[str, View], broken: dict[str, float], row: int
) -> None:
    one = replace(views["policy"], **broken)  # type: ignore[arg-type]
    assert failing({**views, "policy": one}) == [row]
