"""Sensors, a node, and two phones on slow links: one phone subscribes with a policy, the other without.

    200 monitors ──► penstock up ──► 50 kbit/s ──► phone with a policy
                          │     └──► 50 kbit/s ──► phone without one
                          └──► recorder (Parquet), dashboard

All of it is real: processes, sockets, MQTT. `penstock_lab.sim.traffic` makes the readings, in real time.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import msgspec

from penstock.cli.html_page import Table
from penstock.client import Client
from penstock.model.digest import Digest
from penstock.model.instant import SECOND_US
from penstock.node.broker.status import Account
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.experiments.ward import POLICY
from penstock_lab.rigs.browser import take_picture
from penstock_lab.rigs.local_node import local_node
from penstock_lab.rigs.way import SlowLink
from penstock_lab.runs.shows import Shows
from penstock_lab.sim.traffic import is_alarm, readings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.client import Subscription
    from penstock.model.event import Event
    from penstock_lab.experiments.result import Progress
    from penstock_lab.rigs.local_node import LocalNode

NAME: Final = "phones"
SHOWS: Final = Shows(live=True)
MONITORS: Final = 200
LINK_BYTES_S: Final = 50_000 / 8
QUEUE_EVENTS: Final = 300
FILTER: Final = "ward/#"
SECONDS: Final = 30
QUICK_S: Final = 20
ALARMS: Final = 0.995
DELAY_S: Final = 0.5
AGE_S: Final = 2.0
"""Goals of the phone with a policy."""
DRAIN_S: Final = 60
"""Longest wait for the phones to catch up when the monitors have stopped."""
STEP_S: Final = 0.02


class MonitorPayload(msgspec.Struct):
    """A payload: a patient's pulse and when it was read."""

    patient: int
    pulse: float
    spo2: float
    at_us: int = 0
    """Time of the reading since the start."""


@dataclass(slots=True)
class PhoneFigures:
    """Figures of one phone."""

    name: str
    readings: int = 0
    digests: int = 0
    digested: int = 0
    alarms: int = 0
    delays_s: list[float] = field(default_factory=list)
    """Delays of the alarms that arrived."""
    newest_us: dict[int, int] = field(default_factory=dict)
    ages_s: list[float] = field(default_factory=list)
    """Ages of the newest reading shown, over patients and seconds."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One second of the run: the alarms so far, and the age of the readings that the phones show."""

    second: int
    alarms: int
    """Alarms that the monitors have published so far."""
    shown: tuple[int, ...]
    """Alarms that each phone has shown so far."""
    ages_s: tuple[float, ...]
    """Median age of the newest reading of each patient, on each phone."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The result of the experiment, with the recording and the picture of the dashboard."""

    outcome: ExperimentResult
    moments: tuple[Moment, ...]
    alarms_shown: tuple[float, ...]
    """Share of the alarms that arrived: with a policy, without."""
    delays_s: tuple[float, ...]
    """Median delay of an alarm: with a policy, without."""
    readings: int
    """Readings that the monitors published."""
    told: tuple[int, ...]
    """Readings shown or counted in digests: with a policy, without."""
    recording: Path
    """Folder of Parquet files: the readings as the node accepted them."""
    picture: Path | None
    no_picture: str
    """Why there is no picture; empty if there is one."""


def reproduce(*, seed: int, quick: bool, out: Path | None, progress: Progress) -> ExperimentResult:
    """Run the experiment: watch the ward on both phones."""
    if out is not None:
        return watch(seed=seed, quick=quick, out=out, progress=progress).outcome
    with TemporaryDirectory(prefix="penstock-") as folder:
        return watch(seed=seed, quick=quick, out=Path(folder), progress=progress).outcome


def watch(*, seed: int, quick: bool, out: Path, progress: Progress) -> Watched:
    """Run the experiment; the recording and a picture of the dashboard go to `out`."""
    seconds = QUICK_S if quick else SECONDS
    recording = out.absolute() / f"recorded-{NAME}"
    for old in recording.glob("*.parquet"):
        old.unlink()
    config = {
        "queues": {"events": QUEUE_EVENTS},
        "recorder": {"topics": [FILTER], "folder": str(recording)},
    }
    with local_node(config) as node:
        evening = _Evening(node, seed, seconds, out / f"{NAME}-dashboard.png", progress)
        asyncio.run(evening.play())
    return Watched(
        outcome=_outcome(evening, seed, quick=quick),
        moments=tuple(evening.moments),
        alarms_shown=evening.alarms_shown,
        delays_s=evening.delays_s,
        readings=evening.published,
        told=evening.told,
        recording=recording,
        picture=evening.picture,
        no_picture=evening.no_picture,
    )


class _Evening:
    def __init__(self, node: LocalNode, seed: int, seconds: int, picture: Path, progress: Progress) -> None:
        self.node = node
        self.phones = (PhoneFigures("with a policy"), PhoneFigures("without"))
        self.published = 0
        self.alarms = 0
        self.seconds = seconds
        self.status: dict[str, Any] = {}
        self.moments: list[Moment] = []
        self.picture: Path | None = None
        self.no_picture = ""
        self._source: Iterator[Event] = readings(Random(seed), MONITORS)  # noqa: S311  # repeatable on purpose
        self._picture = picture
        self._progress = progress
        self._start_s = 0.0

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time() - self._start_s

    async def play(self) -> None:
        """Publish all readings, then wait until the phones have caught up."""
        async with AsyncExitStack() as stack:
            subscriptions: list[Subscription] = []
            for phone, policy in zip(self.phones, (POLICY, None), strict=True):
                link = await stack.enter_async_context(SlowLink(self.node.port, bytes_per_s=LINK_BYTES_S))
                name = f"phone {phone.name}"
                client = await stack.enter_async_context(
                    Client(f"mqtt://127.0.0.1:{link.port}", client_id=name)
                )
                subscriptions.append(await client.subscribe(FILTER, policy=policy))
            monitors = await stack.enter_async_context(Client(self.node.url, client_id="monitors"))
            self._start_s = asyncio.get_running_loop().time()
            listening = [
                asyncio.create_task(self._listen(phone, subscription))
                for phone, subscription in zip(self.phones, subscriptions, strict=True)
            ]
            looking = asyncio.create_task(self._look())
            try:
                await self._publish(monitors)
                await self._drained()
            finally:
                for task in listening:
                    task.cancel()
                await asyncio.gather(*listening, return_exceptions=True)
                await looking

    async def _publish(self, monitors: Client) -> None:
        encode, pending = msgspec.json.encode, next(self._source)
        while (now_s := self._now_s()) < self.seconds:
            while pending.ts_us <= now_s * SECOND_US:
                reading = msgspec.json.decode(pending.payload, type=MonitorPayload)
                reading.at_us = pending.ts_us
                monitors.publish_nowait(pending.topic, encode(reading))
                self.published += 1
                self.alarms += is_alarm(reading.pulse)
                pending = next(self._source)
            self._progress(int(now_s), self.seconds, f"{MONITORS} monitors, two slow phones")
            await asyncio.sleep(STEP_S)

    async def _listen(self, phone: PhoneFigures, subscription: Subscription) -> None:
        read = msgspec.json.Decoder(MonitorPayload).decode
        async for item in subscription:
            if isinstance(item, Digest):
                phone.digests += 1
                phone.digested += item.count
                continue
            reading = read(item.payload)
            phone.readings += 1
            newest_us = phone.newest_us.get(reading.patient, 0)
            phone.newest_us[reading.patient] = max(newest_us, reading.at_us)
            if is_alarm(reading.pulse):
                phone.alarms += 1
                phone.delays_s.append(self._now_s() - reading.at_us / SECOND_US)

    async def _look(self) -> None:
        """Sample once a second how old the phones' readings are; take one picture of the dashboard."""
        shot = None
        for second in range(1, self.seconds + 1):
            await asyncio.sleep(max(0.0, second - self._now_s()))
            ages_s = [
                [self._now_s() - us / SECOND_US for us in phone.newest_us.values()] for phone in self.phones
            ]
            for phone, seen_s in zip(self.phones, ages_s, strict=True):
                phone.ages_s += seen_s
            self.moments.append(
                Moment(
                    second=second,
                    alarms=self.alarms,
                    shown=tuple(phone.alarms for phone in self.phones),
                    ages_s=tuple(median(each) if each else 0.0 for each in ages_s),
                )
            )
            if second == self.seconds * 2 // 3:
                shot = asyncio.create_task(asyncio.to_thread(take_picture, self.node.http, self._picture))
        if shot is not None:
            found = await shot
            self.picture, self.no_picture = found.path, found.reason

    async def _drained(self) -> None:
        """Wait until the node's queues are empty."""
        async with aiohttp.ClientSession() as session:
            for left in range(DRAIN_S, 0, -1):
                self._progress(self.seconds, self.seconds, f"the phones catch up ({left} s at most)")
                async with session.get(f"{self.node.http.rstrip('/')}/api/v1/status") as answer:
                    self.status = await answer.json()
                if not self.account.queued and all(
                    phone.readings + phone.digested >= self.published for phone in self.phones
                ):
                    return
                await asyncio.sleep(1)

    @property
    def alarms_shown(self) -> tuple[float, ...]:
        """Return the share of the alarms that arrived at each phone."""
        return tuple(phone.alarms / max(self.alarms, 1) for phone in self.phones)

    @property
    def delays_s(self) -> tuple[float, ...]:
        """Return the median delay of an alarm at each phone."""
        return tuple(median(phone.delays_s) if phone.delays_s else float("inf") for phone in self.phones)

    @property
    def told(self) -> tuple[int, ...]:
        """Return how many readings each phone showed or got counted in digests."""
        return tuple(phone.readings + phone.digested for phone in self.phones)

    @property
    def account(self) -> Account:
        """Return the node's account of both phones' subscriptions."""
        return msgspec.convert(self.status.get("account", {}), Account)


def _outcome(evening: _Evening, seed: int, *, quick: bool) -> ExperimentResult:
    ours, other = evening.phones
    share, delay_s, told = evening.alarms_shown, evening.delays_s, evening.told
    age_s = [median(phone.ages_s) if phone.ages_s else float("inf") for phone in evening.phones]
    account = evening.account
    rows = (
        Claim(
            f"alarms that arrive: {ALARMS:.1%} or more",
            f"{share[1]:.1%}",
            f"{share[0]:.1%}",
            ok=share[0] >= max(ALARMS, share[1]),
            note="fails if one alarm in 200 is dropped",
        ),
        Claim(
            f"median delay of an alarm: {DELAY_S:g} s or less",
            f"{delay_s[1]:.1f} s",
            f"{delay_s[0]:.1f} s",
            ok=delay_s[0] <= DELAY_S,
            note="an alarm goes ahead of what waits; what buffers of the link hold, nothing can overtake: "
            "fails if the node hands them too much",
        ),
        Claim(
            f"median age of a patient's newest reading: {AGE_S:g} s or less",
            f"{age_s[1]:.1f} s",
            f"{age_s[0]:.1f} s",
            ok=age_s[0] <= AGE_S,
            note="fails if readings wait longer than `fresh`, or some patients never have their turn",
        ),
        Claim(
            "readings the phone got or was told about",
            f"{told[1]:,} of {evening.published:,}",
            f"{told[0]:,} of {evening.published:,}",
            ok=told == (evening.published,) * 2,
            note="without a policy a digest tells the number; with one, also mean, least and most; fails if "
            "a reading is neither shown nor told",
        ),
        Claim(
            "accepted = delivered + digested + queued",
            "",
            f"{account.accepted:,} = {account.delivered:,} + {account.digested:,} + {account.queued:,}",
            ok=account.balanced and account.accepted == 2 * evening.published,
            note="by the node's own account, both phones together; fails if the sums differ by one",
        ),
    )
    table = Table(
        "What each phone showed",
        ("phone", "readings", "alarms", "digests", "readings in digests"),
        tuple(
            (
                phone.name,
                f"{phone.readings:,}",
                f"{phone.alarms:,} of {evening.alarms:,}",
                f"{phone.digests:,}",
                f"{phone.digested:,}",
            )
            for phone in (ours, other)
        ),
    )
    return ExperimentResult(
        experiment=NAME,
        title="Two phones on slow links, and a node",
        setting=f"{MONITORS} monitors, one reading a second each for {evening.seconds} s"
        f"{' (shortened by --quick)' if quick else ''}; links of {LINK_BYTES_S * 8 / 1_000:.0f} kbit/s, "
        f"queues of {QUEUE_EVENTS}; real processes on this machine",
        rows=rows,
        tables=(table,),
        plots=() if evening.picture is None else (evening.picture,),
        seed=seed,
        rival="without a policy",
    )
