"""Corona's simulation: polls where they should be, waits as theory has them, the same seed the same run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.channels.allocation import Scheme, pollers_by_level
from penstock.core.channels.cooperation import CooperationOptions
from penstock.errors import SimulationError
from penstock.model.instant import SECOND_US
from penstock_lab.sim.corona.estimates import Estimates
from penstock_lab.sim.corona.failures import Failure, told_us
from penstock_lab.sim.corona.polls import (
    NEVER_US,
    Alone,
    Epoch,
    Intervals,
    Phases,
    Schedule,
    Wedges,
    blocks,
    detected_us,
)
from penstock_lab.sim.corona.schedules import CoronaNodes
from penstock_lab.sim.corona.simulation import (
    Continuous,
    Corona,
    CoronaSetting,
    Legacy,
    Method,
    a_ring,
    simulate,
)
from penstock_lab.sim.corona.workload import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    Workload,
    a_workload,
    update_intervals_us,
    updates,
)

pytestmark = pytest.mark.slow

TAU_US = 30 * MINUTE_US
SMALL = CoronaSetting(nodes=40, maintenance_us=30 * MINUTE_US)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return a_workload(channels=400, subscriptions=8_000, seed=3)


def wedges_of(pollers: int, phases: Phases, *, channels: int = 500, dead: int = 0) -> Wedges:
    keys = np.arange(1, channels + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    nodes = np.arange(1, pollers + 1, dtype=np.uint64) * np.uint64(0xD1B54A32D192ED03)
    alive = np.arange(pollers) >= dead
    ones = np.ones(channels, np.int64)
    return Wedges(0 * ones, pollers * ones, keys, nodes, alive, TAU_US, phases, 0 * ones)


def mean_wait_s(schedule: Schedule, channels: int = 500) -> float:
    dice = np.random.default_rng(1)
    channel = np.tile(np.arange(channels), 20)
    at_us = dice.integers(0, 10 * TAU_US, len(channel))
    return float((schedule.next_poll_us(channel, at_us) - at_us).mean()) / SECOND_US


@pytest.mark.parametrize("pollers", [1, 4, 16])
def test_random_phases_detect_in_tau_by_n_plus_one(pollers: int) -> None:
    assert mean_wait_s(wedges_of(pollers, Phases.RANDOM)) == pytest.approx(1800 / (pollers + 1), rel=0.05)


@pytest.mark.parametrize("pollers", [1, 4, 16])
def test_spread_phases_detect_in_tau_by_two_n(pollers: int) -> None:
    assert mean_wait_s(wedges_of(pollers, Phases.SPREAD)) == pytest.approx(900 / pollers, rel=0.05)


def test_intervals_detect_in_half_of_them() -> None:
    keys = np.arange(1, 501, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    schedule = Intervals(
        np.full(500, 90 * SECOND_US), np.zeros(500, np.int64), keys, np.ones(40, bool), TAU_US
    )
    assert mean_wait_s(schedule) == pytest.approx(45, rel=0.03)


def test_legacy_clients_detect_in_half_their_interval() -> None:
    keys = np.arange(1, 501, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert mean_wait_s(Alone(np.full(500, 7), keys, TAU_US)) == pytest.approx(900, rel=0.03)


def schedules() -> list[Schedule]:
    keys = np.arange(1, 51, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return [
        wedges_of(5, Phases.RANDOM, channels=50),
        wedges_of(5, Phases.SPREAD, channels=50),
        Intervals(np.linspace(7, 1800, 50).astype(np.int64) * SECOND_US, np.zeros(50, np.int64), keys,
                  np.ones(9, bool), TAU_US),
    ]  # fmt: skip


@pytest.mark.parametrize("schedule", schedules(), ids=["random", "spread", "intervals"])
def test_polls_counted_by_the_minute_are_the_polls_that_detect(schedule: Schedule) -> None:
    """Walk from poll to poll and count; distinct moments only, as two nodes may poll in the same one."""
    minutes = 40
    walked = np.zeros(minutes, np.int64)
    channel, at_us = np.arange(50), np.zeros(50, np.int64)
    while len(channel):
        polled = schedule.next_poll_us(channel, at_us)
        inside = polled < minutes * MINUTE_US
        channel, at_us = channel[inside], polled[inside] + 1
        walked += np.bincount((at_us - 1) // MINUTE_US, minlength=minutes)
    assert walked.tolist() == schedule.per_minute(0, minutes).tolist()


def test_a_failed_node_polls_nothing() -> None:
    assert (
        wedges_of(3, Phases.SPREAD, dead=3).next_poll_us(np.arange(5), np.zeros(5, np.int64)) == NEVER_US
    ).all()
    assert mean_wait_s(wedges_of(2, Phases.SPREAD, dead=1)) == pytest.approx(900, rel=0.05)


def test_turns_of_failed_nodes_are_missed_until_somebody_alive_has_one() -> None:
    keys = np.array([1], np.uint64)
    alive = np.array([True, False])
    turns = Intervals(np.array([TAU_US // 2]), np.array([0]), keys, alive, TAU_US)
    all_there = replace(turns, alive=np.ones(2, bool))
    at_us = np.arange(0, 4 * TAU_US, MINUTE_US)
    channel = np.zeros(len(at_us), np.int64)
    assert set(np.diff(np.unique(all_there.next_poll_us(channel, at_us)))) == {TAU_US // 2}
    assert set(np.diff(np.unique(turns.next_poll_us(channel, at_us)))) == {TAU_US}
    nobody = replace(turns, alive=np.zeros(2, bool))
    assert nobody.next_poll_us(channel[:1], at_us[:1])[0] == NEVER_US


def test_a_change_that_one_schedule_misses_is_left_to_the_next() -> None:
    nobody = wedges_of(3, Phases.SPREAD, dead=3)
    somebody = wedges_of(3, Phases.SPREAD)
    epochs = [Epoch(0, nobody), Epoch(TAU_US, somebody)]
    channel, at_us = np.arange(10), np.full(10, TAU_US // 2)
    found = detected_us(epochs, channel, at_us)
    assert (found == somebody.next_poll_us(channel, np.full(10, TAU_US))).all()


@given(st.lists(st.integers(0, 3_000_000), max_size=30))
def test_blocks_cover_all_rows_once(sizes: list[int]) -> None:
    found = [row for block in blocks(np.array(sizes, np.int64)) for row in block.tolist()]
    assert found == list(range(len(sizes)))


def test_update_intervals_are_those_of_the_survey() -> None:
    found = update_intervals_us(20_000, np.random.default_rng(1))
    assert (found <= HOUR_US).mean() == pytest.approx(0.1, abs=0.01)
    assert (found > 5 * DAY_US).mean() == pytest.approx(0.5, abs=0.02)
    assert found.min() >= 10 * MINUTE_US


def test_every_channel_has_a_subscriber_and_popularity_falls(workload: Workload) -> None:
    assert workload.subscriptions == 8_000
    assert workload.subscribers.min() >= 1
    assert workload.subscribers[:40].mean() > 2 * workload.subscribers[-40:].mean()


METHODS: tuple[Method, ...] = (
    Legacy(),
    Corona(Scheme.LITE),
    Corona(Scheme.LITE, central=True, digit_bits=2),
    Continuous(Scheme.FAIR),
)


@pytest.mark.parametrize("method", METHODS, ids=["legacy", "together", "central", "continuous"])
def test_the_same_seed_gives_the_same_run(workload: Workload, method: Method) -> None:
    first, again = (simulate(workload, method, SMALL, seed=2) for _ in range(2))
    assert (first.per_minute == again.per_minute).all()
    assert (first.updates.wait_us == again.updates.wait_us).all()
    assert first.per_subscription_s == again.per_subscription_s


def test_the_load_of_all_methods_is_that_of_legacy_clients(workload: Workload) -> None:
    legacy, *others = (simulate(workload, method, SMALL, seed=2) for method in METHODS)
    assert legacy.settled_load == pytest.approx(20.0)
    for run in others:
        assert run.settled_load <= 1.15 * legacy.settled_load
        assert run.per_update_s < legacy.per_update_s


def test_ours_is_as_fast_as_blind_polling_can_be(workload: Workload) -> None:
    run = simulate(workload, Continuous(Scheme.LITE), SMALL, seed=2)
    asked = workload.subscribers.astype(float)
    limit_s = 900 * np.sqrt(asked).sum() ** 2 / asked.sum() ** 2
    assert run.per_subscription_s == pytest.approx(limit_s, rel=0.05)


BROKEN = replace(
    SMALL,
    fail_us=4 * HOUR_US + 7 * MINUTE_US,
    fail_share=0.3,
    message_us=100_000,
    estimated=True,
)
both = pytest.mark.parametrize("method", METHODS[1::2], ids=["together", "continuous"])


@both
def test_only_where_all_owners_fail_updates_are_missed(workload: Workload, method: Method) -> None:
    run = simulate(workload, method, BROKEN, seed=8)
    failure = run.failure
    assert failure is not None
    assert 0 < failure.lost.sum() < failure.ownerless.sum() < len(workload) / 2
    where = failure.lost[run.updates.channel]
    assert run.updates.missed[~where].sum() == 0
    assert run.updates.missed[where].sum() > 0
    assert 0 < run.missed < 2 * failure.lost.mean()
    assert run.probes.mean_s(5 * HOUR_US) < 900
    late = where & (run.updates.at_us > failure.at_us + failure.renew_us + TAU_US)
    assert run.updates.missed[late].sum() == 0


@both
def test_without_copies_every_channel_of_a_failed_owner_is_lost(workload: Workload, method: Method) -> None:
    copied, alone = (simulate(workload, method, one, seed=8) for one in (BROKEN, replace(BROKEN, further=0)))
    assert copied.failure is not None
    assert alone.failure is not None
    assert alone.failure.lost.sum() == alone.failure.ownerless.sum() == copied.failure.ownerless.sum()
    assert alone.missed > 3 * copied.missed


def test_what_pollers_see_while_nobody_owns_a_channel_is_told_by_its_next_owner(workload: Workload) -> None:
    slow = replace(BROKEN, notice_us=10 * MINUTE_US)
    run = simulate(workload, Continuous(Scheme.LITE), slow, seed=2)
    failure = run.failure
    assert failure is not None
    probes = run.probes
    hit = (failure.ownerless & ~failure.lost)[probes.channel] & (probes.at_us > failure.at_us)
    hit &= probes.at_us < failure.noticed_us
    told = (probes.at_us + probes.wait_us)[hit]
    assert hit.sum() > 10
    assert (told > failure.noticed_us).all()
    assert (told < failure.noticed_us + 2 * TAU_US).all()


def test_a_message_to_an_owner_that_fails_meanwhile_is_sent_again_after_the_next_poll() -> None:
    everybody = wedges_of(2, Phases.SPREAD, channels=1)
    far = replace(everybody, far=np.array([2]))
    owner_gone = replace(far, alive=np.array([False, True]))
    polls = far.next_poll_us(np.zeros(3, np.int64), np.arange(3) * TAU_US // 2)
    fails_us = int(polls[1]) + SECOND_US
    yes, no = np.array([True]), np.array([False])
    failure = Failure(fails_us, fails_us + 30 * SECOND_US, HOUR_US, (), yes, no, np.array([0.5]))
    channel, at_us, asked = np.array([0]), polls[1:2] - 1, np.array([4])
    epochs = [Epoch(0, far), Epoch(fails_us, owner_gone), Epoch(failure.noticed_us, far)]
    arrives = told_us(epochs, channel, at_us, message_us=100_000, failure=None, asked=asked)
    assert arrives.tolist() == [int(polls[1]) + 200_000]
    told = told_us(epochs, channel, at_us, message_us=SECOND_US, failure=failure, asked=asked)
    assert told.tolist() == [int(polls[2]) + 2 * SECOND_US]


def test_clients_renew_what_was_lost_one_after_another() -> None:
    failure = Failure(
        HOUR_US,
        HOUR_US + MINUTE_US,
        HOUR_US,
        (),
        np.array([True, True]),
        np.array([True, False]),
        np.array([0.5, 0.5]),
    )
    asked, channel = np.array([4, 4]), np.array([0, 1])
    assert failure.known(asked, channel, HOUR_US - 1).tolist() == [4, 4]
    assert failure.known(asked, channel, HOUR_US + 59 * SECOND_US).tolist() == [0, 4]
    counts = [int(failure.known(asked, channel, HOUR_US + part * HOUR_US // 8)[0]) for part in range(1, 9)]
    assert counts == [1, 1, 2, 2, 3, 3, 4, 4]
    assert failure.begins_us(asked, channel)[0] == HOUR_US + HOUR_US // 8
    assert failure.known(asked, channel, failure.begins_us(asked, channel)).tolist() == [1, 4]


def test_owners_estimate_rates_from_polls(workload: Workload) -> None:
    changes = updates(workload.update_interval_us, 20 * HOUR_US, np.random.default_rng(5))
    every = np.full(len(workload), 5 * MINUTE_US)
    schedule = Intervals(every, 0 * every, workload.tops, np.ones(40, bool), TAU_US)
    estimates = Estimates(len(workload), *changes, tau_us=TAU_US)
    assert (estimates.update_interval_us() == TAU_US).all()
    estimates.watch(Epoch(0, schedule), 10 * HOUR_US)
    estimates.watch(Epoch(10 * HOUR_US, schedule), 20 * HOUR_US)
    found = estimates.update_interval_us()
    often = workload.update_interval_us < HOUR_US
    assert np.median(found[often] / workload.update_interval_us[often]) == pytest.approx(1, abs=0.15)
    assert (found[workload.update_interval_us > 5 * DAY_US] > 4 * HOUR_US).all()
    estimates.forget(often)
    assert (estimates.update_interval_us()[often] == TAU_US).all()


def test_messages_take_time(workload: Workload) -> None:
    soon, late = (
        simulate(workload, METHODS[1], replace(SMALL, message_us=message_us), seed=2)
        for message_us in (0, 5 * SECOND_US)
    )
    assert 1 < late.per_subscription_s - soon.per_subscription_s < 10


def test_whoever_takes_over_has_each_channel_once_and_at_its_level(workload: Workload) -> None:
    ring = a_ring(40, 2)
    nodes = CoronaNodes(ring, workload, CooperationOptions(Scheme.LITE, pollers_by_level(40, 16), TAU_US))
    nodes.exchange()
    nodes.maintain()
    nodes.maintain()
    levels = nodes.level.copy()
    nobody = np.zeros(len(workload), bool)
    nodes.fail((), nobody)
    lost = np.arange(len(workload)) % 5 == 0
    lost &= np.isin(nodes.owner, range(3, 9))
    nodes.fail(ring.ids[3:9], lost)
    assert lost.any()
    levels[lost] = 2
    owned = np.concatenate([node.owned.channel for node in nodes.nodes.values()])
    assert sorted(owned.tolist()) == list(range(len(workload)))
    for place, node in enumerate(nodes.nodes.values()):
        assert (nodes.owner[node.owned.channel] == place).all()
        assert (node.owned.level == levels[node.owned.channel]).all()
        known = node.owned.factors.subscribers
        assert (known == np.where(lost, 0, workload.subscribers)[node.owned.channel]).all()


def test_after_some_exchanges_every_node_knows_of_every_channel(workload: Workload) -> None:
    ring = a_ring(40, 2)
    nodes = CoronaNodes(ring, workload, CooperationOptions(Scheme.LITE, pollers_by_level(40, 16), TAU_US))
    for _ in range(6):
        nodes.exchange()
    known = [node.statistics().channels_known for node in nodes.nodes.values()]
    assert known == [pytest.approx(len(workload))] * 40


def test_subscriptions_arrive_over_time(workload: Workload) -> None:
    arriving = replace(SMALL, arriving_us=2 * HOUR_US)
    run = simulate(workload, Legacy(), arriving, seed=2)
    assert run.load(0, 30 * MINUTE_US) < run.load(HOUR_US, 90 * MINUTE_US) < run.load(3 * HOUR_US)
    assert run.per_subscription_s == pytest.approx(900, rel=0.05)


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(SimulationError, match="whole minutes"):
        CoronaSetting(tau_us=90 * SECOND_US)
    with pytest.raises(SimulationError, match="not negative"):
        CoronaSetting(message_us=-1)
    with pytest.raises(SimulationError, match="one at least"):
        CoronaSetting(fail_share=1.0)
    with pytest.raises(SimulationError, match="at least one each"):
        a_workload(channels=5, subscriptions=4, seed=1)
