"""Figures of flows on real links, and whether they keep what is promised."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.cli.html_page import Table
from penstock.model.digest_wire import from_message, is_marked
from penstock.model.instant import SECOND_US
from penstock_lab.experiments.result import Claim
from penstock_lab.sim.constant_rate import VOICE

if TYPE_CHECKING:
    from penstock.mqtt.packets.publish import Publish
    from penstock_lab.sim.constant_rate import ConstantRateSetting

WARM_UP_S: Final = 2.0
"""Figures count from here on: the node has seen that the link is slow."""
STALL_S: Final = 0.1
"""A message that takes longer over the idle link met a machine that stood still."""
AROUND_S: Final = 0.3
"""Messages sent so long before or after such a message are left out for all receivers."""
MOST_LEFT_OUT: Final = 0.5
"""If more of a phase is left out, it says nothing."""
MOST_ADDED_MS: Final = 2.0
"""If an idle link adds more jitter than this, the machine does it, which does so at every step: under load
there are more of them. A machine with a core to spare adds a quarter of that."""
MOST_JITTER: Final = 1.5
"""Bound of the jitter under load, in multiples of the idle link's."""
INNER: Final = 3.29
"""Standard deviations between the 5th and the 95th percentile of a normal distribution."""
IDLE, KEPT, PLAIN = "idle", "slots", "none"
URGENT: Final = 9


class Payload(msgspec.Struct):
    """The payload of a message."""

    urgency: int
    n: int
    """Position in its flow or burst source."""


@dataclass(slots=True)
class Received:
    """The messages that one receiver got."""

    name: str
    sent: int = 0
    flows: dict[tuple[str, int], float] = field(default_factory=dict)
    """Flow and position → second of arrival."""
    bursts: int = 0
    urgent: int = 0
    digested: int = 0
    last: dict[str, int] = field(default_factory=dict)
    in_order: bool = True
    carried_per_s: float = 0.0
    """Bytes a second that its link carried while messages were published."""
    balanced: bool | None = None
    """The node's account of this receiver; None: it was not asked."""

    @property
    def told(self) -> int:
        """Messages that arrived, or were counted in digests that did."""
        return len(self.flows) + self.bursts + self.digested

    def took(self, packet: Publish, at_s: float) -> None:
        """Note a message that has arrived."""
        if is_marked(packet.properties.user):
            self.digested += from_message(packet.payload)[0].count
            return
        said = msgspec.json.decode(packet.payload, type=Payload)
        kind, _, name = packet.topic.partition("/")[2].rpartition("/")
        self.in_order &= said.n > self.last.get(name, -1)
        self.last[name] = said.n
        if f"{kind}/" == VOICE:
            self.flows[name, said.n] = at_s
        else:
            self.bursts += 1
            self.urgent += said.urgency == URGENT


@dataclass(slots=True)
class LivePhase:
    """One load: what was sent, and what the three receivers got."""

    setting: ConstantRateSetting
    flows: dict[tuple[str, int], float] = field(default_factory=dict)
    """Flow and position → second in which it was sent."""
    bursts: int = 0
    urgent: int = 0
    receivers: dict[str, Received] = field(
        default_factory=lambda: {name: Received(name) for name in (IDLE, KEPT, PLAIN)}
    )

    def counted(self) -> list[tuple[str, int]]:
        """Messages of flows that figures are made of: none of the warm-up, and none near a stall."""
        idle = self.receivers[IDLE].flows
        stalls = [
            (sent_s - AROUND_S, idle.get(each, sent_s) + AROUND_S)
            for each, sent_s in self.flows.items()
            if idle.get(each, sent_s + 2 * STALL_S) - sent_s > STALL_S
        ]
        return [
            each
            for each, sent_s in self.flows.items()
            if sent_s >= WARM_UP_S and not any(begin <= sent_s <= end for begin, end in stalls)
        ]

    @property
    def left_out(self) -> float:
        """Share of the flows' messages behind the warm-up that a stall of the machine spoilt."""
        all_ = sum(sent_s >= WARM_UP_S for sent_s in self.flows.values())
        return 1 - len(self.counted()) / max(1, all_)


@dataclass(frozen=True, slots=True)
class FlowFigures:
    """The flows at one receiver."""

    loss: float
    jitter_ms: float
    """How far messages are from their grids: the width that holds nine of ten, as a standard deviation."""
    added_ms: float
    """Spread of their delays, measured alike: what node and link add to the flows' own jitter."""
    delay_ms: float
    p99_ms: float


def figures(phase: LivePhase, name: str) -> FlowFigures:
    """Compute loss, jitter and delay of the flows at one receiver."""
    counted = phase.counted()
    got = phase.receivers[name].flows
    offsets: dict[str, list[float]] = {}
    delays: dict[str, list[float]] = {}
    for each in counted:
        if each in got:
            flow, number = each
            period_us = phase.setting.periods_us[int(flow[1:]) // phase.setting.flows]
            offsets.setdefault(flow, []).append(got[each] - number * period_us / SECOND_US)
            delays.setdefault(flow, []).append(got[each] - phase.flows[each])
    every = sorted(one for some in delays.values() for one in some) or [0.0]
    return FlowFigures(
        loss=sum(each not in got for each in counted) / max(1, len(counted)),
        jitter_ms=1_000 * fmean([_spread(one) for one in offsets.values()] or [0.0]),
        added_ms=1_000 * fmean([_spread(one) for one in delays.values()] or [0.0]),
        delay_ms=1_000 * median(every),
        p99_ms=1_000 * every[int(0.99 * (len(every) - 1))],
    )


def too_busy(phase: LivePhase) -> str:
    """Why a phase says nothing about flows under load, by the idle link alone; empty if it does."""
    if phase.left_out > MOST_LEFT_OUT:
        return f"the machine stood still for {phase.left_out:.0%} of the run"
    added_ms = figures(phase, IDLE).added_ms
    if added_ms > MOST_ADDED_MS:
        return f"the machine is too busy: even the idle link adds {added_ms:.1f} ms of jitter"
    return ""


def _spread(values: list[float]) -> float:
    """Width of the inner nine tenths, as the standard deviation of a normal distribution."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return (ordered[round(0.95 * last)] - ordered[round(0.05 * last)]) / INNER


# -- what it shows -------------------------------------------------------------------------------------------


def rows(phases: list[LivePhase]) -> tuple[Claim, ...]:
    """Judge the phases; the last one has the highest load."""
    worst = phases[-1]
    receivers = [one for phase in phases for one in phase.receivers.values()]
    kept, plain = figures(worst, KEPT), figures(worst, PLAIN)
    best, packed = worst.receivers[KEPT], worst.receivers[KEPT].bursts / max(1, worst.bursts)
    urgent = best.urgent / max(1, worst.urgent)
    return (
        *(_jitter(phase) for phase in phases),
        Claim(
            f"… and lose nothing at {worst.setting.load:g} × load",
            "0",
            f"{kept.loss:.2%} of {len(worst.counted()):,} messages",
            ok=kept.loss == 0 and not too_busy(worst),
            note="fails if one message of a flow is packed, or still missing when all others have arrived"
            + (too_busy(worst) and f"; FAILS: {too_busy(worst)}"),
        ),
        Claim(
            "without slots they do not",
            "–",
            f"{plain.jitter_ms / max(kept.jitter_ms, 1e-3):.0f} × the jitter, {plain.loss:.0%} lost",
            ok=plain.jitter_ms > 2 * kept.jitter_ms and plain.loss > 0.1,
            note="fails if the link is not overloaded at all: then the rows above say nothing",
        ),
        Claim(
            "best effort is packed by its policy meanwhile",
            "packed",
            f"{best.digested:,} in digests; {packed:.0%} arrive, {urgent:.0%} of the most urgent",
            ok=best.digested > 0 and urgent > 1.5 * packed,
            note="fails if bursts are dropped at random, or the most urgent with the others",
        ),
        Claim(
            "every message is accounted for",
            "–",
            f"{sum(one.told for one in receivers):,} of {sum(one.sent for one in receivers):,}",
            ok=all(one.told == one.sent and one.balanced is not False for one in receivers),
            note="arrived + counted in digests that arrived = published, at each receiver and each load; "
            "fails if one is missing there or in the nodes' own accounts",
        ),
        Claim(
            "the order of each sender's messages is kept",
            "–",
            "yes" if all(one.in_order for one in receivers) else "NO",
            ok=all(one.in_order for one in receivers),
            note="fails if a message goes ahead of an earlier one of its own flow",
        ),
    )


def _jitter(phase: LivePhase) -> Claim:
    kept, idle = figures(phase, KEPT), figures(phase, IDLE)
    ratio = kept.jitter_ms / max(idle.jitter_ms, 1e-3)
    without = figures(phase, PLAIN).jitter_ms / max(idle.jitter_ms, 1e-3)
    left_out = f"; {phase.left_out:.0%} left out: the machine stood still" if phase.left_out else ""
    busy = too_busy(phase)
    return Claim(
        f"served flows keep their jitter at {phase.setting.load:g} × load",
        f"≤ {MOST_JITTER:g} × idle",
        f"{ratio:.2f} × ({kept.jitter_ms:.1f} ms, idle {idle.jitter_ms:.1f} ms)",
        ok=ratio <= MOST_JITTER and not too_busy(phase),
        note=f"fails if a lane is not served before the queues, or if much waits behind them, in sockets; "
        f"without slots {without:.1f} ×{left_out}{busy and f'; FAILS: {busy}'}",
    )


def table(phases: list[LivePhase]) -> Table:
    """List what the flows got at each receiver, and best effort beside them."""
    header = (
        "load",
        "link",
        "loss %",
        "jitter ms",
        "added ms",
        "delay ms",
        "p99 ms",
        "carried kB/s",
        "best effort arrived %",
    )
    names = {IDLE: "idle", KEPT: "slots reserved", PLAIN: "no slots"}
    found = []
    for phase in phases:
        for name, receiver in phase.receivers.items():
            one = figures(phase, name)
            found.append(
                (
                    f"{phase.setting.load:g}",
                    names[name],
                    f"{100 * one.loss:.2f}",
                    f"{one.jitter_ms:.2f}",
                    f"{one.added_ms:.2f}",
                    f"{one.delay_ms:.1f}",
                    f"{one.p99_ms:.1f}",
                    f"{receiver.carried_per_s / 1_000:.0f}",
                    "" if name == IDLE else f"{100 * receiver.bursts / max(1, phase.bursts):.1f}",
                )
            )
    return Table("What the flows got", header, tuple(found))
