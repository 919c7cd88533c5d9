"""PACK, Figure 8, over real TCP: brokers and receivers with relays of 50 kbit/s between them.

    sensor, an event every 30 ms ──► node, the paper's policy ──► 50 kbit/s ──► receiver
                                 ├─► the same with the paper's ladder ──►       receiver
                                 └─► Mosquitto, which drops the newest ──►      receiver

All of it at the same time and in real time, so the length is a choice: what a controller does after an hour
shows in an hour. Everything is QoS 1 with a small window: what Mosquitto sends with QoS 0 waits in its
sockets without bound. Messages in the window are out of a queue's reach; the simulator's link has one.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import aiohttp
import msgspec

from penstock.client import Client
from penstock.errors import InputError
from penstock.model.digest_wire import from_message, is_marked
from penstock.model.event import Event
from penstock.model.instant import SECOND_US
from penstock.mqtt.codes import Kind
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Publish, ack_frame
from penstock.node.broker.status import Account
from penstock.policy.text.forms import to_json
from penstock_lab.experiments.pack import fig8
from penstock_lab.experiments.pack.fig8 import CAPACITY, CONTESTANTS, POLICY
from penstock_lab.experiments.pack.queue_figures import QueueFigures, drawn, figures_of
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.rigs.brokers import Broker, mosquitto, our_node
from penstock_lab.rigs.raw_client import RawClient
from penstock_lab.rigs.way import SlowLink
from penstock_lab.runs.shows import Shows
from penstock_lab.sim.pack_queue import Figure8Setting, QueueRun

if TYPE_CHECKING:
    from pathlib import Path

    from penstock_lab.experiments.result import Progress

NAME: Final = "pack-fig8-live"
SHOWS: Final = Shows(live=True, paper="PACK", figures={"": "Figure 8"})
MINUTES: Final = 10.0
QUICK_MINUTES: Final = 1.0
MOST_MINUTES: Final = 24 * 60.0
TOPIC: Final = "vitals"
FRAME_BYTES: Final = 14
"""Of a PUBLISH besides its payload: first byte, two of length, topic with its length, packet identifier, no
properties."""
SETTLE_S: Final = 30
"""Longest wait for the receivers to catch up when the sensor has stopped."""
IN_FLIGHT: Final = 20
"""Messages that are sent before an acknowledgement, Mosquitto's default; queues hold the others."""


@dataclass(slots=True)
class LiveReceiver:
    """A receiver behind its slow link, and what it got."""

    name: str
    """Name of the contestant of the same kind in the simulator."""
    broker: Broker
    policy: str | None = None
    seen: QueueRun = field(default_factory=QueueRun)
    digested: int = 0
    last_s: float = 0.0
    """Time of the last arrival."""
    packs_by_level: dict[int, int] = field(default_factory=dict)
    conserved: bool = True
    carried_per_s: float = 0.0
    """Bytes a second that its link carried while events were published."""

    @property
    def told(self) -> int:
        """Events that arrived or were counted in digests that did."""
        return len(self.seen.arrivals) + self.digested


def reproduce(
    *, seed: int, quick: bool, out: Path | None, progress: Progress, minutes: str | None = None
) -> ExperimentResult:
    """Run all contestants at the same time for so many minutes; pictures go to `out`, if given."""
    length = QUICK_MINUTES if quick else MINUTES
    seconds = round(60 * (length if minutes is None else _minutes(minutes)))
    with ExitStack() as stack:
        queues = {"events": CAPACITY - IN_FLIGHT}
        ours = stack.enter_context(our_node({"queues": queues | {"controller": "predictive"}}))
        ladder = stack.enter_context(our_node({"queues": queues | {"controller": "ladder"}}))
        rival = stack.enter_context(
            mosquitto(
                f"max_queued_messages {CAPACITY - IN_FLIGHT}",
                f"max_inflight_messages {IN_FLIGHT}",
                "set_tcp_nodelay true",
            )
        )
        text = to_json(POLICY, compact=True)
        receivers = (
            LiveReceiver("drop-tail", rival),
            LiveReceiver("pack", ours, policy=text),
            LiveReceiver("pack-ladder", ladder, policy=text),
        )
        run = _Run(receivers, seed, seconds, progress)
        asyncio.run(run.play())
    found = {each.name: _figures(each, seconds) for each in receivers}
    simulated = {
        contestant.name: fig8.measure(contestant, seed, seconds, seeds=1)
        for contestant in CONTESTANTS
        if contestant.name in found
    }
    rows = (
        *fig8.rows(found),
        *_rows(found, simulated, seconds),
        _accounted(receivers, run.published),
        _carried(receivers),
    )
    return ExperimentResult(
        experiment=NAME,
        title="PACK, Figure 8, live: latency and loss before a slow link",
        setting=f"{_length(seconds)} of real time{' (shortened by --quick)' if quick else ''}, "
        f"all contestants at once, an event every 30 ms, links of 50 kbit/s (relays on loopback), queues of "
        f"{CAPACITY - IN_FLIGHT} and {IN_FLIGHT} in flight, "
        f"policy RANDOM 10 / 25 / 50 %; drop-tail is {rival.name}",
        rows=rows,
        tables=(
            fig8.table(list(found.values()), "Over TCP"),
            fig8.table(list(simulated.values()), "In the simulator, the same setting"),
        ),
        plots=() if out is None else drawn(list(found.values()), out, name=NAME),
        seed=seed,
    )


def _minutes(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.5 <= found <= MOST_MINUTES:
        raise InputError(f"--minutes {text}: a number from 0.5 to {MOST_MINUTES:.0f}")
    return found


def _length(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{seconds / 60:g} min"


class _Run:
    """One sensor, all receivers, in real time."""

    def __init__(
        self, receivers: tuple[LiveReceiver, ...], seed: int, seconds: int, progress: Progress
    ) -> None:
        self.published = 0
        self._receivers = receivers
        self._sender = f"sensor-{seed}"
        self._seconds = seconds
        self._progress = progress
        self._start_s = 0.0
        self._events: list[Event] = []

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time() - self._start_s

    async def play(self) -> None:
        """Publish for the length of the run, then wait until what waits has arrived."""
        async with AsyncExitStack() as stack:
            clients = []
            links = []
            for each in self._receivers:
                link = await stack.enter_async_context(
                    SlowLink(each.broker.port, bytes_per_s=Figure8Setting().bytes_per_s)
                )
                client = await stack.enter_async_context(
                    RawClient(link.port, each.name, receive_maximum=IN_FLIGHT)
                )
                links.append(link)
                asked = NONE if each.policy is None else Properties(user=(("policy", each.policy),))
                await client.subscribe(TOPIC, asked)
                clients.append(client)
            ports = dict.fromkeys(each.broker.port for each in self._receivers)
            sensors = [
                await stack.enter_async_context(
                    Client(f"mqtt://127.0.0.1:{port}", client_id=self._sender, send_events=100_000)
                )
                for port in ports
            ]
            self._start_s = asyncio.get_running_loop().time()
            listening = [
                asyncio.create_task(self._listen(each, client))
                for each, client in zip(self._receivers, clients, strict=True)
            ]
            try:
                await self._publish(sensors)
                for each, link in zip(self._receivers, links, strict=True):
                    each.carried_per_s = link.carried / self._now_s()
                await self._settled()
                for each in self._receivers:
                    if each.broker.http:
                        await _ask(each)
            finally:
                for task in listening:
                    task.cancel()
                await asyncio.gather(*listening, return_exceptions=True)
        for each in self._receivers:
            each.seen.published = self._events
            got = {event.seq for _, event in each.seen.arrivals}
            each.seen.first_overflow_us = next(
                (one.ts_us for one in self._events if one.seq not in got), None
            )

    async def _publish(self, sensors: list[Client]) -> None:
        setting = Figure8Setting()
        body = bytes(setting.event_bytes - FRAME_BYTES - 8)
        for seq in range(round(self._seconds * SECOND_US / setting.interval_us)):
            await asyncio.sleep(max(0.0, seq * setting.interval_us / SECOND_US - self._now_s()))
            now_us = round(self._now_s() * SECOND_US)
            self._events.append(Event(TOPIC, b"", now_us, sender=self._sender, seq=seq))
            for sensor in sensors:
                sensor.publish_nowait(TOPIC, seq.to_bytes(8, "big") + body, qos=1)
            self.published += 1
            if not seq % 30:
                self._progress(int(self._now_s()), self._seconds, f"{len(self._receivers)} receivers")

    async def _listen(self, receiver: LiveReceiver, client: RawClient) -> None:
        while True:
            packet = await client.next()
            if not isinstance(packet, Publish):
                continue
            receiver.last_s = self._now_s()
            if packet.qos:
                client.writer.write(ack_frame(Kind.PUBACK, packet.packet_id))
            if is_marked(packet.properties.user):
                receiver.digested += from_message(packet.payload)[0].count
                continue
            event = self._events[int.from_bytes(packet.payload[:8], "big")]
            receiver.seen.arrivals.append((round(receiver.last_s * SECOND_US), event))

    async def _settled(self) -> None:
        """Wait until every receiver has got all, or nothing for a while."""
        ours = [each for each in self._receivers if each.policy is not None]
        until_s = self._now_s() + SETTLE_S
        while self._now_s() < until_s:
            quiet_s = self._now_s() - max(each.last_s for each in self._receivers)
            if quiet_s > 3 and all(each.told >= self.published for each in ours):
                return
            await asyncio.sleep(0.2)


async def _ask(receiver: LiveReceiver) -> None:
    """Ask the node for its packs and its account of a receiver."""
    url = f"{receiver.broker.http.rstrip('/')}/api/v1/clients/{receiver.name}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        (subscription,) = (await answer.json())["subscriptions"]
    account = msgspec.convert(subscription["account"], Account)
    receiver.packs_by_level = {int(level): count for level, count in subscription["packs_by_level"].items()}
    receiver.conserved = account.balanced and not account.queued


def _figures(receiver: LiveReceiver, seconds: int) -> QueueFigures:
    contestant = next(each for each in CONTESTANTS if each.name == receiver.name)
    return figures_of(contestant, [receiver.seen], [receiver], seconds=seconds)


def _rows(
    found: dict[str, QueueFigures], simulated: dict[str, QueueFigures], seconds: int
) -> tuple[Claim, ...]:
    pack, ladder = found["pack"], found["pack-ladder"]
    hour = "" if seconds >= 3_600 else "; an hour takes --minutes 60, and `pack-fig8` simulates one"
    return (
        Claim(
            f"most packs happen at level 2 with the paper's ladder, over {_length(seconds)}",
            "most",
            f"{ladder.share(2):.0%} of {ladder.packs}",
            ok=ladder.share(2) > 0.5,
            note=f"{_simulated(simulated['pack-ladder'])}; fails if half of the packs need another level, "
            "as they do once noise has carried the ladder up, which forgets slowly (decision 0002)"
            f"{hour}",
        ),
        Claim(
            "… with the predictive controller, a node's default",
            "–",
            f"{pack.share(2):.0%} of {pack.packs}",
            ok=None,
            note=f"{_simulated(simulated['pack'])}; it counts what digests take of the link, and level 2 is "
            "only just enough",
        ),
        *(
            Claim(
                f"{found[name].contestant.label}: beside the simulator",
                f"{simulated[name].mean_s:.2f} s, {simulated[name].loss:.1%} lost",
                f"{found[name].mean_s:.2f} s, {found[name].loss:.1%} lost",
                ok=abs(found[name].loss - simulated[name].loss) < 0.05,
                note="first column: the simulator's, where no more than one message is on the link; fails if "
                "the losses are five points apart",
            )
            for name in ("drop-tail", "pack")
        ),
    )


def _carried(receivers: tuple[LiveReceiver, ...]) -> Claim:
    rates = [each.carried_per_s for each in receivers]
    return Claim(
        "what the links carried",
        f"{Figure8Setting().bytes_per_s:,} B/s",
        f"{min(rates):,.0f} to {max(rates):,.0f} B/s",
        ok=None,
        note="the relays are late on a busy machine; then all lose more, and higher levels are needed",
    )


def _simulated(expected: QueueFigures) -> str:
    return f"simulator: {expected.share(2):.0%} of {expected.packs}"


def _accounted(receivers: tuple[LiveReceiver, ...], published: int) -> Claim:
    packed = [each for each in receivers if each.policy is not None]
    ours = [each for each in receivers if each.broker.http]
    told = ", ".join(f"{len(each.seen.arrivals):,} + {each.digested:,} in digests" for each in packed)
    return Claim(
        "every event is accounted for",
        "–",
        f"{told} = {published:,}",
        ok=all(each.told == published for each in packed) and all(each.conserved for each in ours),
        note="fails if what a receiver with a policy got and was told is not what was published, or a node's "
        "own account does not balance",
    )
