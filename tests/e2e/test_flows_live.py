"""A flow of constant rate on a slow link that is offered three times its rate: with slots and without."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import pstdev
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from penstock.client import Client
from penstock.model.digest import Digest
from penstock_lab.rigs.local_node import local_node
from penstock_lab.rigs.slow_link import SlowLink

if TYPE_CHECKING:
    from penstock.client import Subscription
    from penstock_lab.rigs.local_node import LocalNode

pytestmark = pytest.mark.e2e

LINK_BYTES_S = 60_000
PERIOD_S = 0.1
SECONDS = 7.0
WARM_UP_S = 2.0
SETTINGS: dict[str, Any] = {
    "queues": {"events": 400},
    "sys_interval_s": 0,
    "slots": {"slot_s": 0.02, "capacity": 10, "silent_after": 5},
}
LATE_S = 0.02
ATTEMPTS = 5
"""A machine that is too busy to send at a constant rate is asked again."""
POLICY = "levels:\n- keep: {latest: 200}\n- keep: {latest: 50}\n"


@dataclass
class Heard:
    """What the receiver got."""

    beats: dict[int, float] = field(default_factory=dict)
    """Number → seconds since the start."""
    others: int = 0
    digested: int = 0
    late: int = 0
    """Beats that were not sent when they were due."""


async def listen(subscription: Subscription, heard: Heard, start_s: float) -> None:
    async for item in subscription:
        if isinstance(item, Digest):
            heard.digested += item.count
        elif item.topic == "load/beat":
            heard.beats[int(item.payload[:6])] = time.monotonic() - start_s
        else:
            heard.others += 1


async def overload(node: LocalNode, *, told: bool) -> tuple[Heard, int]:
    """One flow and bursts through a link that carries a third; what was heard, and beats sent."""
    heard = Heard()
    async with (
        SlowLink(node.port, bytes_per_s=LINK_BYTES_S) as link,
        Client(node.url, client_id="sensor") as sensor,
        Client(node.url, client_id="bursts") as bursts,
        Client(node.url, client_id="liar") as liar,
        Client(f"mqtt://127.0.0.1:{link.port}", client_id="phone") as phone,
    ):
        subscription = await phone.subscribe("load/#", policy=POLICY)
        start_s = time.monotonic()
        listening = asyncio.create_task(listen(subscription, heard, start_s))
        beats, lies, offered = 0, 0, 0
        while (passed_s := time.monotonic() - start_s) < SECONDS:
            if passed_s >= beats * PERIOD_S:
                properties = {"penstock-period": "100ms", "penstock-jitter": "5ms"} if told else None
                sensor.publish_nowait("load/beat", b"%06d" % beats + bytes(60), properties=properties)
                heard.late += passed_s > beats * PERIOD_S + LATE_S
                beats += 1
            while told and lies < passed_s * 5 / PERIOD_S:  # five times what it tells
                liar.publish_nowait("load/liar", bytes(20), properties={"penstock-period": "100ms"})
                lies += 1
            while offered < passed_s * 3 * LINK_BYTES_S / 500:
                bursts.publish_nowait("load/burst", bytes(480))
                offered += 1
            await asyncio.sleep(0.005)
        await asyncio.sleep(1.0)
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
    return heard, beats


def jitter_s(heard: Heard) -> float:
    late = [at_s - PERIOD_S * number for number, at_s in heard.beats.items() if number * PERIOD_S > WARM_UP_S]
    return pstdev(late)


def lost(heard: Heard, beats: int) -> float:
    wanted = [number for number in range(beats) if number * PERIOD_S > WARM_UP_S]
    return sum(number not in heard.beats for number in wanted) / len(wanted)


def settings(*, slots: bool) -> dict[str, Any]:
    return SETTINGS | {"listeners": [{"kind": "tcp", "slots": slots}]}


def api(node: LocalNode, path: str) -> Any:
    with urlopen(f"{node.http.rstrip('/')}/api/v1{path}", timeout=300) as answer:  # noqa: S310  # our own node
        return json.load(answer)


def with_slots() -> tuple[Heard, int, Any, Any, Any]:
    """What was heard, beats sent, what the node says of flows and of all messages, what the command says."""
    with local_node(settings(slots=True)) as node:
        kept, beats = asyncio.run(overload(node, told=True))
        command = [sys.executable, "-m", "penstock", "flows", "--url", node.http, "--json"]
        listed = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=300).stdout)
        return kept, beats, api(node, "/flows"), api(node, "/status"), listed


def test_a_reserved_flow_keeps_its_jitter_and_loses_nothing_while_best_effort_is_packed() -> None:
    for attempt in range(1, ATTEMPTS + 1):
        kept, beats, found, account, listed = with_slots()
        if kept.late <= 0.1 * beats or attempt == ATTEMPTS:
            break
    flow, liar = (
        next(row for row in found["flows"] if row["topic"] == topic) for topic in ("load/beat", "load/liar")
    )
    with local_node(settings(slots=False)) as node:
        plain, plain_beats = asyncio.run(overload(node, told=False))
    assert found["status"]["refused"].get("sends more than it declared", 0) >= 1, (found["status"], liar)
    assert liar["excess"] >= 5
    assert liar["on_time"] < liar["arrivals"] / 4, "it goes ahead with no more than it told"
    assert flow["told"] == "client"
    assert flow["on_time"] > 0.6 * beats, flow
    assert [row["topic"] for row in listed["flows"]].count("load/beat") == 1
    assert account["balanced"], account["account"]
    assert account["account"]["digested"] > 0, "best effort is packed"
    assert kept.digested > 0
    assert kept.others > 0
    assert sorted(kept.beats) == list(kept.beats), "a flow's messages come in order"
    assert lost(kept, beats) <= 0.02, (lost(kept, beats), flow)
    assert lost(plain, plain_beats) > 0.2 or jitter_s(plain) > 2 * jitter_s(kept), (
        f"with slots {jitter_s(kept):.3f} s and {lost(kept, beats):.1%} lost, "
        f"without {jitter_s(plain):.3f} s and {lost(plain, plain_beats):.1%}"
    )
    print(  # noqa: T201  # shown with -s
        f"with slots: jitter {jitter_s(kept) * 1_000:.0f} ms, {lost(kept, beats):.1%} lost; "
        f"without: {jitter_s(plain) * 1_000:.0f} ms, {lost(plain, plain_beats):.1%} lost"
    )
