"""A receiver on a link that carries a part of what 200 sensors send: a policy against Mosquitto's queues.

A reading every two seconds from each sensor is a quarter more than the link carries, one every second more
than twice as much. Three brokers get the same readings at the same moments: a node, Mosquitto as it is
installed, and Mosquitto with its queue as short as it can be. Their receivers sit behind links of the same
rate.
All is QoS 1: what Mosquitto sends with QoS 0 waits in its sockets without bound, which is no queue at all.
When the sensors have stopped, the benchmark lets through what still waits, and accounts for every reading.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.model.digest_wire import from_message, is_marked
from penstock.mqtt.codes import V5, Kind
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Publish, ack_frame
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow
from penstock_lab.rigs.brokers import Broker, mosquitto, our_node
from penstock_lab.rigs.raw_client import RawClient
from penstock_lab.rigs.way import SlowLink
from penstock_lab.runs.shows import Shows
from penstock_lab.sim.traffic import is_alarm, readings

if TYPE_CHECKING:
    from penstock_lab.bench.result import Progress

NAME: Final = "overload"
SHOWS: Final = Shows(live=True)
SENSORS: Final = 200
LINK_BIT_S: Final = 50_000
SHORT_QUEUE: Final = 20
"""`max_queued_messages` of the second Mosquitto: as many as are in flight. With fewer its link runs dry, and
each further message waits 16 ms longer."""
RATES: Final = (2, 1)
"""Seconds between two readings of a sensor, by run: of the generated readings, one a second, a sensor
publishes one in this many."""
SEED: Final = 1
WARM_UP_S: Final = 8.0
"""Figures count from here on: until then the queues fill."""
LOOK_S: Final = 0.5
"""Pause between two samples of how old the newest values are."""
SETTLED_S: Final = 4.0
"""A receiver that gets nothing for this long has got everything."""
FILTER: Final = "ward/#"
IN_FLIGHT: Final = 20
"""Messages on the link that are not acknowledged: Mosquitto's default. The rest waits at the broker."""
ALIASES: Final = 256
"""Topics in whose places a broker may send numbers: every receiver offers it, as it should on a slow link.
The node has as many by its setting; Mosquitto sends topics all the same."""
POLICY: Final = """
name: vitals
attribute: pulse
digest: [mean, min, max]
fresh: 1s
urgent: [{lt: 50}, {gt: 100}]
levels:
  - drop: {within: [50, 100]}
"""
"""Critical readings at once; of the others as many as the link takes within a second, sensors in turn."""


class SensorPayload(msgspec.Struct):
    """A payload: a sensor's reading and its time since the start."""

    patient: int
    pulse: float
    spo2: float
    at_us: int = 0


@dataclass(slots=True)
class Received:
    """The readings that one receiver got, with times since the start."""

    newest_us: list[int] = field(default_factory=lambda: [0] * SENSORS)
    """Per sensor: the time of the newest reading that arrived."""
    readings: int = 0
    digested: int = 0
    alarms: int = 0
    alarm_delays_s: list[float] = field(default_factory=list)
    stale_s: list[float] = field(default_factory=list)
    last_s: float = 0.0
    """Time of the last arrival."""
    memory_bytes: int = 0
    digest_bytes: int = 0
    bytes: int = 0
    """Bytes of all messages, digests included, with their headers."""

    @property
    def accounted(self) -> int:
        """Readings delivered, or counted in digests that were delivered."""
        return self.readings + self.digested


def measure(*, quick: bool, progress: Progress) -> BenchmarkResult:
    """Overload all brokers at the same time, at both rates, and return the comparison."""
    start = perf_counter()
    seconds = 20 if quick else 60
    rows: list[BenchmarkRow] = []
    for every in RATES:
        with ExitStack() as stack:
            ours = stack.enter_context(our_node({"bounds": {"topic_aliases": ALIASES}}))
            rival = stack.enter_context(mosquitto("set_tcp_nodelay true"))
            short = stack.enter_context(
                mosquitto(f"max_queued_messages {SHORT_QUEUE}", "set_tcp_nodelay true")
            )
            run = _Run((ours, rival, short), every, seconds, progress)
            asyncio.run(run.play())
        rows += _rows(run, every, (rival.name, f"{rival.name}, queue of {SHORT_QUEUE}"))
    return BenchmarkResult(
        NAME,
        tuple(rows),
        perf_counter() - start,
        note=f"{SENSORS} sensors, a reading every {RATES[0]} s and every {RATES[1]} s each for {seconds} s, "
        f"QoS 1, a link of {LINK_BIT_S} bit/s, {IN_FLIGHT} in flight, {ALIASES} topic aliases offered; "
        f"{rival.name} with set_tcp_nodelay "
        f"true, as installed (a queue of 1,000) and with a queue of {SHORT_QUEUE}; critical is a pulse "
        f"outside 50 to 100",
    )


CRITICAL: Final = 100.0
"""Critical readings that must arrive, in per cent."""
AGE_P50, AGE_P99, DELAY_P99 = 1 / 0.5, 1 / 0.2, 1 / 0.2
"""How many times older or later than ours the figures of Mosquitto as installed must be."""

_OLD: Final = "readings wait longer than `fresh`, or some sensors never have their turn"
_LATE: Final = "urgent readings wait behind others, in the queue or in what the link already holds"


def _rows(run: _Run, every: int, rivals: tuple[str, str]) -> list[BenchmarkRow]:
    """The rows of one rate; goals are set against Mosquitto as installed."""
    rate = f"every {every} s"
    total, alarms = run.published, max(run.alarms, 1)
    ours = run.seen[0]
    critical = [100 * seen.alarms / alarms for seen in run.seen]
    told = 100 * ours.accounted / total
    spent = 100 * ours.digest_bytes / max(ours.bytes, 1)
    rows = [
        BenchmarkRow(
            f"{rate}: critical readings delivered",
            critical[0],
            "%",
            "the goal",
            CRITICAL,
            critical[0] / CRITICAL,
            1.0,
            fails_if="urgent readings are dropped before others",
        ),
        BenchmarkRow(
            f"{rate}: readings accounted for",
            told,
            "%",
            "published",
            100.0,
            told / 100,
            1.0,
            fails_if="a reading is dropped and no digest that arrives counts it",
        ),
        BenchmarkRow(
            f"{rate}: of the link, spent on digests",
            spent,
            "%",
            "their share",
            100 * limits.DIGEST_SHARE,
            _ratio(100 * limits.DIGEST_SHARE, spent),
            less=True,
        ),
    ]
    for number, rival in enumerate(rivals, start=1):
        other = run.seen[number]
        judged = number == 1
        rows.append(
            BenchmarkRow(
                f"{rate}: critical readings delivered",
                critical[0],
                "%",
                rival,
                critical[number],
                _ratio(critical[0], critical[number]),
            )
        )
        rows.append(
            BenchmarkRow(
                f"{rate}: readings delivered as themselves",
                100 * ours.readings / total,
                "%",
                rival,
                100 * other.readings / total,
                _ratio(ours.readings, other.readings),
            )
        )
        for what, values, others, goals, cause in (
            ("age of a sensor's newest reading", ours.stale_s, other.stale_s, (AGE_P50, AGE_P99), _OLD),
            (
                "delay of a critical reading",
                ours.alarm_delays_s,
                other.alarm_delays_s,
                (None, DELAY_P99),
                _LATE,
            ),
        ):
            for share, goal in zip((50, 99), goals, strict=True):
                own_s, other_s = _quantile(values, share), _quantile(others, share)
                name = f"{rate}: {what}, p{share}"
                ratio = _ratio(other_s, own_s)
                wanted = goal if judged else None
                rows.append(
                    BenchmarkRow(name, own_s, "s", rival, other_s, ratio, wanted, fails_if=cause, less=True)
                )
    own_s, least_s = _quantile(ours.stale_s, 99), _least_age_s(ours, every, 0.99)
    rows.append(
        BenchmarkRow(
            f"{rate}: age of a sensor's newest reading, p99",
            own_s,
            "s",
            "the least on this link",
            least_s,
            _ratio(least_s, own_s),
            less=True,
        )
    )
    mine, others_mb = (seen.memory_bytes / 1e6 for seen in run.seen[:2])
    rows.append(
        BenchmarkRow(
            f"{rate}: memory of the broker, at most",
            mine,
            "MB",
            rivals[0],
            others_mb,
            _ratio(others_mb, mine),
            less=True,
        )
    )
    return rows


def _least_age_s(seen: Received, every: int, share: float) -> float:
    """Age below which no order of sending brings this share of samples, if the link carries readings only.

    A reading that arrives covers the time until it is `x` old. If a share f of the readings is carried, a
    sensor has 1/f periods of `every` seconds between two that arrive, on average: some n, the others n + 1
    (decision 0038). Time that readings need to arrive would come on top.
    """
    size = (seen.bytes - seen.digest_bytes) / max(seen.readings, 1)
    carried = min(1.0, LINK_BIT_S / 8 / max(size, 1) / (SENSORS / every))
    periods = int(1 / carried)
    longer = 1 / carried - periods
    if not longer:
        return periods * share * every
    return max(periods * share, periods + 1 - (1 - share) / (longer * carried)) * every


def _ratio(more: float, less: float) -> float:
    return more / less if less else float("inf")


def _quantile(values: list[float], share: int) -> float:
    ordered = sorted(values) or [float("nan")]
    return ordered[(len(ordered) - 1) * share // 100]


class _Run:
    """One run of the benchmark: all brokers get one load at one time, and what they deliver is sampled."""

    def __init__(self, brokers: tuple[Broker, ...], every: int, seconds: int, progress: Progress) -> None:
        self.brokers = brokers
        self.seen = tuple(Received() for _ in brokers)
        self._every = every
        self.published = 0
        self.alarms = 0
        self._seconds = seconds
        self._progress = progress
        self._start_s = 0.0

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time() - self._start_s

    async def play(self) -> None:
        async with AsyncExitStack() as stack:
            clients: list[list[RawClient]] = []
            receivers = []
            for number, broker in enumerate(self.brokers):
                link = await stack.enter_async_context(SlowLink(broker.port, bytes_per_s=LINK_BIT_S / 8))
                receiver = await stack.enter_async_context(
                    RawClient(link.port, "receiver", receive_maximum=IN_FLIGHT, topic_aliases=ALIASES)
                )
                policy = Properties(user=(("policy", POLICY),)) if number == 0 else NONE
                await receiver.subscribe(FILTER, policy)
                receivers.append(receiver)
                clients.append(
                    [
                        await stack.enter_async_context(
                            RawClient(broker.port, f"sensor-{sensor}", receive_maximum=IN_FLIGHT)
                        )
                        for sensor in range(SENSORS)
                    ]
                )
            self._start_s = asyncio.get_running_loop().time()
            async with asyncio.TaskGroup() as tasks:
                reading = [
                    tasks.create_task(self._receive(receiver, seen))
                    for receiver, seen in zip(receivers, self.seen, strict=True)
                ]
                looking = tasks.create_task(self._look())
                await self._publish(clients)
                looking.cancel()
                while self._now_s() - max(seen.last_s for seen in self.seen) < SETTLED_S:
                    await asyncio.sleep(LOOK_S)
                for task in reading:
                    task.cancel()

    async def _publish(self, clients: list[list[RawClient]]) -> None:
        for event in readings(Random(SEED), SENSORS):  # noqa: S311  # the same ward every time
            if event.ts_us >= self._seconds * 1_000_000:
                return
            if event.seq % self._every:
                continue
            wait_s = event.ts_us / 1e6 - self._now_s()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            said = msgspec.json.decode(event.payload, type=SensorPayload)
            said.at_us = event.ts_us
            message = Publish(event.topic, msgspec.json.encode(said), qos=1, packet_id=1 + event.seq % 0xFFFF)
            frame = encode(message, V5)
            # Acknowledgements stay unread: a few bytes a second, which the socket holds.
            for sensors in clients:
                sensors[said.patient].writer.write(frame)
            self.published += 1
            self.alarms += is_alarm(said.pulse)

    async def _receive(self, receiver: RawClient, seen: Received) -> None:
        while True:
            packet = await receiver.next()
            if not isinstance(packet, Publish):
                continue
            if packet.qos:
                receiver.writer.write(ack_frame(Kind.PUBACK, packet.packet_id))
            seen.last_s = self._now_s()
            size = len(encode(packet, V5))
            seen.bytes += size
            if is_marked(packet.properties.user):
                seen.digest_bytes += size
                seen.digested += from_message(packet.payload)[0].count
                continue
            said = msgspec.json.decode(packet.payload, type=SensorPayload)
            seen.readings += 1
            seen.newest_us[said.patient] = max(seen.newest_us[said.patient], said.at_us)
            if is_alarm(said.pulse):
                seen.alarms += 1
                seen.alarm_delays_s.append(seen.last_s - said.at_us / 1e6)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            now_s = self._now_s()
            self._progress(int(now_s), self._seconds, f"{SENSORS} sensors, a reading every {self._every} s")
            for broker, seen in zip(self.brokers, self.seen, strict=True):
                seen.memory_bytes = max(seen.memory_bytes, broker.memory_bytes())
                if now_s > WARM_UP_S:
                    seen.stale_s += [now_s - newest_us / 1e6 for newest_us in seen.newest_us]
