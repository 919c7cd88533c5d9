"""A ward watched over a link that carries a third of its readings: what reaches the nurse's phone.

The same readings go to five phones: two with a policy, under different controllers, one whose queue drops the
oldest, one whose queue drops the newest, and one on a link that carries everything. The policy keeps time:
alarms go at once, and of the rest what is newest.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.cli.html_page import Table
from penstock.core.queues import (
    BoundedQueue,
    DropNewestQueue,
    DropOldestQueue,
    Ladder,
    PackingQueue,
    QueueOptions,
)
from penstock.model.instant import SECOND_US
from penstock.policy.text.python_form import drop, keep, policy, when
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.runs.shows import Shows
from penstock_lab.sim import World
from penstock_lab.sim.link import LinkOptions
from penstock_lab.sim.pack_queue import play
from penstock_lab.sim.traffic import is_alarm, readings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.model.event import Event
    from penstock_lab.experiments.result import Progress
    from penstock_lab.sim.pack_queue import QueueRun

NAME: Final = "ward"
SHOWS: Final = Shows(live=False)
PATIENTS: Final = 60
CAPACITY: Final = 200
POLICY: Final = policy(
    drop.older(0.25),
    keep.latest(5),
    attribute="pulse",
    digest=["mean", "min", "max"],
    fresh="500ms",
    urgent=[when.lt(50), when.gt(100)],
    name="ward",
    description="The phones' policy: alarms at once; of the rest, what is newest.",
)
SLOW: Final = LinkOptions(bytes_per_s=1_400, overhead_bytes=8)
FAST: Final = LinkOptions(bytes_per_s=50_000, overhead_bytes=8)


@dataclass(frozen=True, slots=True)
class Phone:
    """One phone: its queue and its link."""

    name: str
    make: Callable[[], BoundedQueue]
    link: LinkOptions = SLOW
    digests: bool = False


PHONES: Final = (
    Phone("no bottleneck", lambda: DropOldestQueue(_room()), FAST),
    Phone("policy", lambda: PackingQueue(POLICY, _room()), digests=True),
    Phone("policy, ladder", lambda: PackingQueue(POLICY, _room(), Ladder()), digests=True),
    Phone("drop oldest", lambda: DropOldestQueue(_room())),
    Phone("drop newest", lambda: DropNewestQueue(_room())),
)


def _room() -> QueueOptions:
    return QueueOptions(capacity_events=CAPACITY)


@dataclass(frozen=True, slots=True)
class View:
    """Figures of one phone."""

    phone: str
    alarms: float
    """Share of the alarms that arrived."""
    delay_s: float
    """Median delay of the alarms that arrived."""
    late_s: float
    """99th percentile of that delay."""
    stale_s: float
    """Median age of the newest reading shown, over patients and seconds."""
    events: int
    digested: int
    """Readings that the phone knows from digests only."""
    untold: int
    """Readings dropped without a digest."""
    conserved: bool


def reproduce(*, seed: int, quick: bool, out: Path | None, progress: Progress) -> ExperimentResult:  # noqa: ARG001
    """Simulate the ward and watch it on every phone."""
    seconds = 120 if quick else 600
    views: dict[str, View] = {}
    for number, phone in enumerate(PHONES):
        progress(number, len(PHONES), phone.name)
        views[phone.name] = _watch(phone, seed, seconds)
    progress(len(PHONES), len(PHONES), "done")
    return ExperimentResult(
        experiment=NAME,
        title="A ward on a slow link: which readings reach the phone",
        setting=f"{PATIENTS} patients, one reading a second each, {seconds} s simulated"
        f"{' (shortened by --quick)' if quick else ''}, a link of "
        f"{SLOW.bytes_per_s} bytes/s, queues of {CAPACITY}",
        rows=_rows(views),
        tables=(_table(views),),
        plots=(),
        seed=seed,
        rival="without a policy",
    )


def _watch(phone: Phone, seed: int, seconds: int) -> View:
    world = World(seed, keep_trace=False)
    queue = phone.make()
    source = readings(world.dice("ward"), PATIENTS)
    seen = play(world, queue, source, phone.link, until_us=seconds * SECOND_US, digests_on_wire=phone.digests)
    statistics = queue.statistics()
    alarms = [event for event in seen.published if is_alarm(_pulse(event))]
    delays = [(at_us - event.ts_us) / SECOND_US for at_us, event in seen.arrivals if is_alarm(_pulse(event))]
    told = sum(digest.count for _, digest in seen.digests)
    return View(
        phone=phone.name,
        alarms=len(delays) / len(alarms) if alarms else 1.0,
        delay_s=median(delays) if delays else float("nan"),
        late_s=sorted(delays)[(len(delays) - 1) * 99 // 100] if delays else float("nan"),
        stale_s=median(_ages_s(seen, seconds)),
        events=len(seen.arrivals),
        digested=told,
        untold=statistics.digested - told - seen.digested_on_the_way,
        conserved=statistics.conserved,
    )


def _pulse(event: Event) -> float:
    root = event.root if isinstance(event.root, dict) else msgspec.json.decode(event.payload)
    return float(root["pulse"])


def _ages_s(seen: QueueRun, seconds: int) -> list[float]:
    """Return the age of the newest reading on the phone, for every second and patient."""
    newest: dict[str, int] = {}
    ages: list[float] = []
    arrivals = iter(seen.arrivals)
    pending = next(arrivals, None)
    for second in range(10, seconds):
        now_us = second * SECOND_US
        while pending is not None and pending[0] <= now_us:
            topic, ts_us = pending[1].topic, pending[1].ts_us
            newest[topic] = max(newest.get(topic, ts_us), ts_us)
            pending = next(arrivals, None)
        ages += [(now_us - ts_us) / SECOND_US for ts_us in newest.values()]
    return ages or [float("nan")]


ALARMS: Final = 0.99
"""Share of the alarms that must arrive."""
DELAY_S: Final = 1.0
"""The longest that 99 of 100 alarms may take."""
READINGS: Final = 0.9
"""Share of drop oldest's readings that must arrive: the rest is what digests may cost."""


def _rows(views: dict[str, View]) -> tuple[Claim, ...]:
    ours, ladder = views["policy"], views["policy, ladder"]
    oldest, newest = views["drop oldest"], views["drop newest"]
    return (
        Claim(
            f"alarms that arrive: {ALARMS:.0%} or more",
            f"drop oldest {oldest.alarms:.0%}, drop newest {newest.alarms:.0%}",
            f"policy {ours.alarms:.1%}",
            ok=ours.alarms >= max(ALARMS, oldest.alarms),
            note="fails if urgent events are dropped before others, or fewer arrive than with drop oldest",
        ),
        Claim(
            f"delay of an alarm, 99 of 100: {DELAY_S:g} s or less",
            f"drop oldest {oldest.late_s:.1f} s, drop newest {newest.late_s:.1f} s",
            f"policy {ours.late_s:.2f} s",
            ok=ours.late_s <= min(DELAY_S, oldest.late_s),
            note="urgent: an alarm goes ahead of what waits; fails if it has to wait behind other readings",
        ),
        Claim(
            "median age of a patient's newest reading: no older",
            f"drop oldest {oldest.stale_s:.1f} s, drop newest {newest.stale_s:.1f} s",
            f"policy {ours.stale_s:.1f} s",
            ok=ours.stale_s <= oldest.stale_s,
            note="fresh: half a second of the link waits, not a full queue; fails if it "
            "is older than drop oldest's",
        ),
        Claim(
            f"readings that arrive: {READINGS:.0%} of drop oldest's or more",
            f"drop oldest {oldest.events:,}",
            f"policy {ours.events:,} ({ours.events / max(1, oldest.events):.0%})",
            ok=ours.events >= READINGS * oldest.events,
            note="digests share the link; fails if they take more than a tenth of it",
        ),
        Claim(
            "… with the ladder",
            "–",
            f"alarms {ladder.alarms:.1%}, newest reading {ladder.stale_s:.1f} s, readings {ladder.events:,}",
            ok=None,
        ),
        Claim(
            "readings nobody is told about",
            f"drop oldest {oldest.untold}, drop newest {newest.untold}",
            f"policy {ours.untold}",
            ok=ours.untold == 0,
            note="with the policy every dropped reading is counted in a digest, with its mean, min and max; "
            "fails if one is in none",
        ),
        Claim(
            "accepted = delivered + digested + queued",
            "–",
            "yes" if all(view.conserved for view in views.values()) else "NO",
            ok=all(view.conserved for view in views.values()),
            note="fails if a queue loses count of an event",
        ),
    )


def _table(views: dict[str, View]) -> Table:
    header = (
        "phone",
        "alarms %",
        "alarm delay s",
        "newest age s",
        "readings",
        "in digests",
        "untold",
    )
    rows = tuple(
        (
            view.phone,
            f"{100 * view.alarms:.1f}",
            f"{view.delay_s:.2f}",
            f"{view.stale_s:.2f}",
            str(view.events),
            str(view.digested),
            str(view.untold),
        )
        for view in views.values()
    )
    return Table("What each phone showed", header, rows)
