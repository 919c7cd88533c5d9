"""Constant-rate flows and bursts over real TCP, through links offered 0.5 to 3 times what they carry.

    flows ──────────► node with slots ──────► 1 Mbit/s ──► receiver on an idle link
    flows, bursts ──► the same node ────────► 1 Mbit/s ──► receiver with slots
    flows, bursts ──► node without slots ───► 1 Mbit/s ──► receiver without

The three receivers get the same flows at the same moments, so whatever the machine does meanwhile, it does to
all of them: the idle link is the baseline of the same run, and of the same second.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import msgspec

from penstock.client import Client
from penstock.model.instant import SECOND_US
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Publish
from penstock.node.broker.status import Account
from penstock.policy.text.forms import to_json
from penstock_lab.experiments.ces.live_figures import (
    IDLE,
    KEPT,
    PLAIN,
    URGENT,
    WARM_UP_S,
    LivePhase,
    Received,
    rows,
    table,
    too_busy,
)
from penstock_lab.experiments.ces.overload import POLICY
from penstock_lab.experiments.result import ExperimentResult
from penstock_lab.rigs.local_node import local_node
from penstock_lab.rigs.raw_client import RawClient
from penstock_lab.rigs.way import SlowLink
from penstock_lab.runs.shows import Shows
from penstock_lab.sim.constant_rate import VOICE, ConstantRateSetting, source
from penstock_lab.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.model.event import Event
    from penstock_lab.experiments.result import Progress

NAME: Final = "ces-overload-live"
SHOWS: Final = Shows(live=True, paper="RBF", figures={"served flows": "Table 2"})
LOADS: Final = (0.5, 1.0, 3.0)
SECONDS: Final = 30
QUICK_SECONDS: Final = 10
SETTLE_S: Final = 300
"""Longest wait for what is still on its way at the end."""
ATTEMPTS: Final = 3
"""How often a load is played if the machine is too busy to tell."""

NODE: Final[dict[str, Any]] = {
    "queues": {"events": 400},
    "sys_interval_s": 0,
    "slots": {"slot_s": 0.02, "capacity": 20, "reserved_share": 0.6, "silent_after": 5},
}


def setting_of(load: float, seconds: int) -> ConstantRateSetting:
    """Two flows each of 50, 100 and 200 ms, their own jitter 5 % of that, and the simulator's bursts."""
    return ConstantRateSetting(
        seconds=seconds, bytes_per_s=125_000, load=load, periods_us=(50_000, 100_000, 200_000), flows=2
    )


def reproduce(*, seed: int, quick: bool, out: Path | None, progress: Progress) -> ExperimentResult:  # noqa: ARG001
    """Run all loads, one after the other, in real time."""
    seconds = QUICK_SECONDS if quick else SECONDS
    phases = []
    with ExitStack() as stack:
        nodes = {
            slots: stack.enter_context(local_node(NODE | {"listeners": [{"kind": "tcp", "slots": slots}]}))
            for slots in (True, False)
        }
        ports = {slots: node.port for slots, node in nodes.items()}
        http = {slots: node.http for slots, node in nodes.items()}
        for number, load in enumerate(LOADS):
            progress(number, len(LOADS), f"{load:g} × what the links carry, {seconds} s")
            setting = setting_of(load, seconds)
            phase = asyncio.run(measure(setting, ports, seed=seed + number, http=http))
            phases.append(phase)
    return ExperimentResult(
        experiment=NAME,
        title="Circuit emulation, live: constant-rate flows on overloaded links",
        setting=f"{seconds} s of real time for each load{' (shortened by --quick)' if quick else ''}, links "
        "of 1 Mbit/s (relays on loopback), 6 flows of 50, 100 and 200 ms with 5 % jitter that tell their "
        "periods, 20 sources of bursts, queues of 400 packed by urgency; all receivers at once, figures "
        f"count from second {WARM_UP_S:g} on",
        rows=rows(phases),
        tables=(table(phases),),
        plots=(),
        seed=seed,
        rival="promised",
    )


async def measure(
    setting: ConstantRateSetting,
    ports: Mapping[bool, int],
    *,
    seed: int,
    http: Mapping[bool, str] | None = None,
) -> LivePhase:
    """Play one load at the nodes with slots (True) and without; again if the machine was too busy.

    Only the idle link decides about that: what the other receivers got does not.
    """
    for attempt in range(ATTEMPTS):
        phase = await _play(setting, ports, http or {}, seed=seed, tag=f"{setting.load:g}-{attempt}")
        if not too_busy(phase):
            break
    return phase


async def _play(
    setting: ConstantRateSetting,
    ports: Mapping[bool, int],
    http: Mapping[bool, str],
    *,
    seed: int,
    tag: str,
) -> LivePhase:
    """Publish flows and bursts until all has arrived."""
    phase = LivePhase(setting)
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        senders = {}
        for slots, port in ports.items():
            url = f"mqtt://127.0.0.1:{port}"
            senders[slots] = [
                await stack.enter_async_context(Client(url, client_id=f"{who}-{tag}", send_events=100_000))
                for who in ("flows", "bursts")
            ]
        listening = []
        clients, links = {}, {}
        for name in phase.receivers:
            link = links[name] = SlowLink(ports[name != PLAIN], bytes_per_s=setting.bytes_per_s)
            await stack.enter_async_context(link)
            client = RawClient(link.port, f"{name}-{tag}", receive_maximum=100)
            clients[name] = await stack.enter_async_context(client)
            asked = Properties(user=(("policy", to_json(POLICY, compact=True)),))
            await client.subscribe(f"{_tree(name, tag)}/#", asked, qos=0)
        start_s = loop.time() + 0.1
        for name, receiver in phase.receivers.items():
            listening.append(asyncio.create_task(_listen(receiver, clients[name], start_s)))
        try:
            await _publish(phase, senders, tag, seed=seed, start_s=start_s)
            for name, link in links.items():
                phase.receivers[name].carried_per_s = link.carried / (loop.time() - start_s)
            await _settled(phase)
            for slots, url in http.items():
                for name in (IDLE, KEPT) if slots else (PLAIN,):
                    phase.receivers[name].balanced = await _balanced(url, f"{name}-{tag}")
        finally:
            for task in listening:
                task.cancel()
            await asyncio.gather(*listening, return_exceptions=True)
    return phase


def _tree(name: str, tag: str) -> str:
    """First level of a receiver's topics; both receivers under load get the same."""
    return f"{IDLE if name == IDLE else 'load'}-{tag}"


async def _publish(
    phase: LivePhase, senders: Mapping[bool, list[Client]], tag: str, *, seed: int, start_s: float
) -> None:
    loop = asyncio.get_running_loop()
    setting, receivers = phase.setting, phase.receivers
    for event in source(World(seed, keep_trace=False), setting):
        wait_s = start_s + event.ts_us / SECOND_US - loop.time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        payload = b'%s,"n":%d}' % (event.payload.rstrip()[:-1], event.seq)
        payload = payload.ljust(len(event.payload))
        if event.topic.startswith(VOICE):
            phase.flows[event.sender, event.seq] = loop.time() - start_s
            said = {"penstock-period": f"{_period_us(setting, event) // 1_000}ms"}
            flows = senders[True][0]
            flows.publish_nowait(f"{_tree(IDLE, tag)}/{event.topic}", payload, properties=said)
            receivers[IDLE].sent += 1
            for sender, _ in senders.values():
                sender.publish_nowait(f"{_tree(KEPT, tag)}/{event.topic}", payload, properties=said)
        else:
            phase.bursts += 1
            phase.urgent += payload.startswith(b'{"urgency":%d' % URGENT)
            for _, sender in senders.values():
                sender.publish_nowait(f"{_tree(KEPT, tag)}/{event.topic}", payload)
        receivers[KEPT].sent += 1
        receivers[PLAIN].sent += 1


def _period_us(setting: ConstantRateSetting, event: Event) -> int:
    return setting.periods_us[int(event.sender[1:]) // setting.flows]


async def _listen(receiver: Received, client: RawClient, start_s: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
        packet = await client.next()
        if isinstance(packet, Publish):
            receiver.took(packet, loop.time() - start_s)


async def _settled(phase: LivePhase) -> None:
    """Wait until every receiver was told of all that was published."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + SETTLE_S
    while loop.time() < until_s and any(one.told < one.sent for one in phase.receivers.values()):
        await asyncio.sleep(0.1)


async def _balanced(url: str, client_id: str) -> bool:
    """Ask a node for its account of a receiver."""
    address = f"{url.rstrip('/')}/api/v1/clients/{client_id}"
    async with aiohttp.ClientSession() as session, session.get(address) as answer:
        (subscription,) = (await answer.json())["subscriptions"]
    return msgspec.convert(subscription["account"], Account).balanced
