"""Flows on real links: rows fail when a lane is not served, when much waits in sockets, and without slots."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.kit.configuration import read_config
from tests.kit.peer import node

from penstock.node.slots.lanes import SessionLanes
from penstock_lab.experiments.ces.live_figures import (
    IDLE,
    KEPT,
    MOST_JITTER,
    MOST_LEFT_OUT,
    PLAIN,
    LivePhase,
    figures,
    rows,
    table,
    too_busy,
)
from penstock_lab.experiments.ces.overload_live import NODE, measure, setting_of

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.node.config.schema import Config
    from penstock_lab.experiments.result import Claim

pytestmark = pytest.mark.slow

SECONDS = 5
JITTER = "served flows keep their jitter at 3 × load"
LOSS = "… and lose nothing at 3 × load"
WITHOUT = "without slots they do not"
ACCOUNT = "every message is accounted for"
ORDER = "the order of each sender's messages is kept"


def config(folder: Path, *, slots: bool) -> Config:
    path = folder / f"{slots}.json"
    settings = NODE | {"data": "", "listeners": [{"kind": "tcp", "slots": slots}]}
    path.write_bytes(msgspec.json.encode(settings))
    return read_config(path)


async def three_times(folder: Path, *, slots: bool = True) -> LivePhase:
    """Three times what the links carry, with both nodes in this process, where a test can break them."""
    async with AsyncExitStack() as stack:
        reserved = await stack.enter_async_context(node(config(folder, slots=slots)))
        plain = await stack.enter_async_context(node(config(folder, slots=False)))
        ports = {True: reserved.port, False: plain.port}
        phase = await measure(setting_of(3, SECONDS), ports, seed=1)
        assert reserved.account_holds()
        assert plain.account_holds()
    return phase


def fails_by_itself(phase: LivePhase) -> bool:
    """Whether flows with slots have too much jitter. A machine that stands still fails the row anyway, and
    leaves too little to tell why."""
    kept, idle = figures(phase, KEPT), figures(phase, IDLE)
    return phase.left_out > MOST_LEFT_OUT or kept.jitter_ms > MOST_JITTER * idle.jitter_ms


def judged(phase: LivePhase) -> dict[str, Claim]:
    return {row.what: row for row in rows([phase])}


async def test_every_row_holds(tmp_path: Path) -> None:
    phase = await three_times(tmp_path)
    found = judged(phase)
    failing = [row for row in found.values() if row.ok is False]
    if busy := too_busy(phase):  # nothing can be said of jitter then, and the rows say so
        assert {JITTER, LOSS} <= {row.what for row in failing if busy in row.note}
    else:
        assert failing == []
    assert [found[what].ok for what in (ACCOUNT, ORDER)] == [True, True]
    assert all(row.note for row in found.values()), "each says what would make it fail"
    assert len(table([phase]).rows) == 3
    slots, none = (phase.receivers[name] for name in (KEPT, PLAIN))
    assert slots.digested > 0
    assert slots.told == slots.sent == none.told == none.sent


async def test_a_lane_that_is_not_served_fails_the_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_served(*_: Any, **__: Any) -> None:
        """Flows wait until the queues are empty."""

    monkeypatch.setattr(SessionLanes, "drain_before_queues", not_served)
    phase = await three_times(tmp_path)
    assert judged(phase)[JITTER].ok is False
    assert fails_by_itself(phase)


async def test_what_waits_in_sockets_fails_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        """The receiver is not metered."""

    monkeypatch.setattr(SessionLanes, "watch", never)
    phase = await three_times(tmp_path)
    assert judged(phase)[JITTER].ok is False
    assert fails_by_itself(phase)


async def test_without_slots_rows_fail(tmp_path: Path) -> None:
    phase = await three_times(tmp_path, slots=False)
    found = judged(phase)
    assert fails_by_itself(phase)
    assert figures(phase, KEPT).loss > 0 or phase.left_out > MOST_LEFT_OUT
    assert [found[what].ok for what in (JITTER, LOSS, WITHOUT)] == [False, False, False]


def made(*, late_s: float = 0.0, stalled: bool = False) -> LivePhase:
    """Ten seconds of one flow that arrives after 1 ms, and a little later at the receiver with slots."""
    phase = LivePhase(setting_of(3, 10))
    for number in range(200):
        sent_s = 0.05 * number
        phase.flows["v00", number] = sent_s
        slow_s = 5.0 if stalled and number == 100 else 0.001
        for name in (IDLE, KEPT, PLAIN):
            more_s = late_s * (number % 2) if name == KEPT else 0.002 * (number % 2)
            phase.receivers[name].flows["v00", number] = sent_s + slow_s + more_s
    return phase


def test_jitter_is_judged_by_the_idle_link_of_the_same_run() -> None:
    assert judged(made(late_s=0.0029))[JITTER].ok
    assert judged(made(late_s=0.0031))[JITTER].ok is False


def test_what_is_near_a_stall_is_left_out_for_all_receivers() -> None:
    calm, stalled = made(late_s=0.002), made(late_s=0.002, stalled=True)
    assert not calm.left_out
    assert stalled.left_out > 0.5, "the idle link stood still for five of eight seconds"
    assert figures(stalled, KEPT).p99_ms == pytest.approx(figures(calm, KEPT).p99_ms)
    assert judged(stalled)[JITTER].ok is False, "too little is left"


def test_a_busy_machine_fails_the_rows_and_is_named() -> None:
    phase = made()
    for name in (IDLE, KEPT, PLAIN):
        for (flow, number), at_s in phase.receivers[name].flows.items():
            phase.receivers[name].flows[flow, number] = at_s + 0.01 * (number % 3)
    row = judged(phase)[JITTER]
    assert row.ok is False
    assert "the machine is too busy" in row.note


def test_one_lost_message_fails_the_row() -> None:
    phase = made()
    del phase.receivers[KEPT].flows["v00", 150]
    assert judged(phase)[LOSS].ok is False


def test_a_message_that_a_receiver_was_not_told_of_fails_the_row() -> None:
    phase = made()
    for receiver in phase.receivers.values():
        receiver.sent = receiver.told
    assert judged(phase)[ACCOUNT].ok
    phase.receivers[PLAIN].sent += 1
    assert judged(phase)[ACCOUNT].ok is False
    phase.receivers[PLAIN].digested += 1
    assert judged(phase)[ACCOUNT].ok
    phase.receivers[PLAIN].balanced = False
    assert judged(phase)[ACCOUNT].ok is False


def test_a_flow_out_of_order_fails_the_row() -> None:
    phase = made()
    phase.receivers[KEPT].in_order = False
    assert judged(phase)[ORDER].ok is False
