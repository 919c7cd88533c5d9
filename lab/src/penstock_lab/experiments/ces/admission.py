"""More constant-rate flows than a link can carry: some are admitted, and the others are refused.

48 flows want 1.2 times what the link carries, and bursts come on top. Those that were admitted must have what
they have alone; without refusals the reserved lane itself would be overloaded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Final

from penstock.core.queues.replay import wire_bytes
from penstock.core.slots.options import ControlOptions
from penstock.model.instant import SECOND_US
from penstock_lab.experiments.result import Claim
from penstock_lab.sim import World
from penstock_lab.sim.constant_rate import BURSTS, VOICE, ConstantRateSetting, run

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock.model.event import Event
    from penstock.policy.nodes import Policy
    from penstock_lab.sim.constant_rate import ConstantRateRun

FLOWS: Final = 16
"""Flows of each of three periods."""
LOAD: Final = 3.0
NEVER: Final = (0.0, 1e12)
"""Offsets of a flow of which nothing arrived."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Counts of flows that were admitted, and how they were served, over all seeds."""

    flows: int
    wanted: float
    """Places in a slot that all flows want together."""
    served: int
    """Flows served from the warm-up to the end; the fewest of any seed."""
    refusals: int
    """Flows turned away or sent away; the fewest of any seed."""
    places: float
    """Places in a slot that served flows take, at most."""
    most: float
    """Places in a slot that flows may take together."""
    fullest: float
    """Share taken of the fullest slot, of what may be reserved in it."""
    jitter_ms: float
    jitter: float
    """Jitter of served flows, as a multiple of what the same packets have on an idle link."""
    loss: float
    """Share of the packets of served flows that never arrived."""
    refused_loss: float
    bursts_loss: float
    accounted: bool


def admission(
    setting: ConstantRateSetting, policy: Policy, *, warm_up_us: int, seed: int, seeds: int
) -> Admission:
    """Simulate a setting over several seeds."""
    runs = [run(World(seed + number, keep_trace=False), setting, policy) for number in range(seeds)]
    kept = [{name for name, since in one.served_since_us.items() if since <= warm_up_us} for one in runs]
    voices = [{event.sender for event in one.events if event.topic.startswith(VOICE)} for one in runs]
    others = [everyone - some for everyone, some in zip(voices, kept, strict=True)]
    bursts = [{event.sender for event in one.events if event.topic.startswith(BURSTS)} for one in runs]
    periods = [period for period in setting.periods_us for _ in range(setting.flows)]
    jitters = [
        pair
        for one, some in zip(runs, kept, strict=True)
        for pair in _jitters(one, some, setting, warm_up_us)
    ]
    return Admission(
        flows=len(periods),
        wanted=sum(setting.options.slot_us / period for period in periods),
        served=min(map(len, kept)),
        refusals=min(sum(one.refused.values()) for one in runs),
        places=max(one.places for one in runs),
        most=min(one.most_places for one in runs),
        fullest=max(one.fullest for one in runs),
        jitter_ms=fmean(came for came, _ in jitters) / 1_000 if jitters else inf,
        jitter=fmean(came / alone for came, alone in jitters) if jitters else inf,
        loss=_lost(runs, kept, warm_up_us),
        refused_loss=_lost(runs, others, warm_up_us),
        bursts_loss=_lost(runs, bursts, warm_up_us),
        accounted=all(one.accounted and one.in_order and not one.waiting for one in runs),
    )


def never_refusing(setting: ConstantRateSetting) -> ConstantRateSetting:
    """Return the setting with so much capacity that admission has nothing to refuse."""
    options = setting.options
    return replace(
        setting, options=ControlOptions(slot_us=options.slot_us, capacity=1_000, share=options.share)
    )


def _jitters(
    one: ConstantRateRun, senders: Collection[str], setting: ConstantRateSetting, warm_up_us: int
) -> list[tuple[float, float]]:
    """Return the jitter of each flow, and what the same packets have on a link without others, in µs."""
    came = _offsets(one.voice, senders, setting, warm_up_us)
    idle: list[tuple[int, Event]] = []
    free_us = 0
    for event in one.events:  # in order of time
        if event.sender in senders:
            free_us = max(event.ts_us, free_us) + wire_bytes(event) * SECOND_US // setting.bytes_per_s
            idle.append((free_us, event))
    alone = _offsets(idle, senders, setting, warm_up_us)
    return [(pstdev(came.get(sender, NEVER)), pstdev(offsets)) for sender, offsets in alone.items()]


def _offsets(
    arrivals: Iterable[tuple[int, Event]],
    senders: Collection[str],
    setting: ConstantRateSetting,
    warm_up_us: int,
) -> dict[str, list[float]]:
    """Return how far the packets of each sender are from its grid."""
    found: dict[str, list[float]] = {}
    for at_us, event in arrivals:
        if event.sender in senders and event.ts_us >= warm_up_us:
            period_us = setting.periods_us[int(event.sender[1:]) // setting.flows]
            found.setdefault(event.sender, []).append(at_us - event.seq * period_us)
    return found


def _lost(runs: list[ConstantRateRun], senders: list[set[str]], warm_up_us: int) -> float:
    missing = published = 0
    for one, some in zip(runs, senders, strict=True):
        received = {(event.sender, event.seq) for _, event in (*one.voice, *one.bursts)}
        sent = [event for event in one.events if event.sender in some and event.ts_us >= warm_up_us]
        published += len(sent)
        missing += sum((event.sender, event.seq) not in received for event in sent)
    return missing / max(1, published)


def admission_rows(found: Admission, never: Admission) -> tuple[Claim, ...]:
    """Rows about admission; `never` is the run in which nobody is refused."""
    return (
        Claim(
            f"{found.flows} flows want {found.wanted:.1f} places in a slot: admission binds",
            f"≤ {found.most:.1f} places, some refused",
            f"{found.places:.1f} places, the fullest slot {found.fullest:.0%}; {found.served} flows served, "
            f"{found.refusals} refusals",
            ok=0 < found.served < found.flows
            and found.refusals > 0
            and found.places <= found.most
            and found.fullest <= 1
            and found.accounted,
            note="fails if admission never refuses, refuses all, or reserves more of a slot than there is",
        ),
        Claim(
            "… the flows that were admitted keep their jitter",
            "≤ 1.2 × on an idle link",
            f"{found.jitter:.2f} × ({found.jitter_ms:.2f} ms)",
            ok=found.jitter <= 1.2,
            note="fails if more is admitted than the link carries, or if a lane is not served first",
        ),
        Claim(
            "… and lose nothing",
            "< 0.1 %",
            f"{found.loss:.3%}",
            ok=found.served > 0 and found.loss < 0.001,
            note="of all packets sent after the warm-up; fails if a flow that was admitted is starved, also "
            "to the end, or if none was admitted",
        ),
        Claim(
            "… the flows that were refused are best effort",
            "as bursts",
            f"{found.refused_loss:.0%} lost, of bursts {found.bursts_loss:.0%}",
            ok=abs(found.refused_loss - found.bursts_loss) < 0.15,
            note="fails if they are starved, or go ahead although they were refused",
        ),
        Claim(
            "… if nobody were refused",
            "–",
            f"{never.jitter_ms / found.jitter_ms:.0f} × the jitter, {never.loss:.0%} of the flows lost",
            ok=never.refusals == 0 and never.jitter_ms > 2 * found.jitter_ms and never.loss > found.loss,
            note="with a capacity that the link does not have; fails if refusing changes nothing",
        ),
    )
