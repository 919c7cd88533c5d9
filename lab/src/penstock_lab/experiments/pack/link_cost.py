"""Measures the queues of a link inside one process: shared or private, for 1 … 16 receivers.

One end of a link gets events for receivers behind the other end and sends its frames to it; the receivers
themselves are left out. The link keeps up, or it is away until all events are accepted and then drained.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from time import process_time
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.cli.html_page import Table
from penstock.core.cluster.copies import Outgoing
from penstock.core.cluster.frames import Carried, Wants, encode_item
from penstock.core.cluster.interest import ReceiverClass, canonical
from penstock.core.cluster.peer import Addressed, PeerLink
from penstock.model.event import Event
from penstock.policy.text.forms import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPIC: Final = "ward/1"
EVENTS: Final = 20_000
PAYLOAD_BYTES: Final = 100
POLICIES: Final = 16
"""Different policies: one for each receiver."""
PLAIN: Final = "shared, no policy"
SHARED: Final = "shared, policies"
PRIVATE: Final = "private, a policy each"
SAME: Final = "private, one policy"
KINDS: Final = (PLAIN, SHARED, PRIVATE, SAME)


class LinkCost(NamedTuple):
    """The cost of one kind of queue."""

    of: str
    receivers: int
    us_per_event: float
    """Processor time of both ends for each event accepted."""
    bytes_per_event: float
    """Bytes that crossed, digests included, for each event that did."""
    handed: int
    carried: int
    """Events that arrived at the other end, each time they did."""
    different: int
    """… counted once, however often they arrived."""
    copies: int
    """Classes of receivers that arriving events were for, summed over all events."""
    balanced: bool


@dataclass(slots=True)
class Crossed:
    """Counts of what has crossed a link."""

    bytes: int = 0
    events: list[int] = field(default_factory=list)
    """Numbers of the events, each time they came."""
    copies: int = 0


def policy(number: int) -> str:
    """The policy of a receiver: sixteen different ones."""
    return f"levels: [{{drop: {{every: 2}}}}, {{keep: {{latest: {200 + number % POLICIES}}}}}]"


def measure(receivers: Sequence[int], *, rounds: int) -> list[LinkCost]:
    """Each kind of queue with each number of receivers, in turn; medians of the rounds."""
    found: dict[tuple[str, int], list[LinkCost]] = {}
    for _ in range(rounds):
        for kind in KINDS:
            for number in receivers:
                found.setdefault((kind, number), []).append(_run(kind, number))
    return [
        each[0]._replace(us_per_event=median(one.us_per_event for one in each)) for each in found.values()
    ]


def _run(kind: str, receivers: int) -> LinkCost:
    near = PeerLink((), lambda topic: [topic])
    far = PeerLink((), lambda _: [])
    if kind == PLAIN:
        far.interest.change(TOPIC, wanted=True)
    else:
        texts = dict.fromkeys(policy(0 if kind == SAME else number) for number in range(receivers))
        for number, text in enumerate(texts):
            far.interest.begin(ReceiverClass(2 * number + 1, TOPIC, *canonical(parse(text))))
    _cross(far, near, Crossed())
    events = [_event(number) for number in range(EVENTS)]
    crossed = Crossed()
    began = process_time()
    if kind in (PRIVATE, SAME):
        near.lost()
    for number, out in enumerate(events):
        near.offer(out, now_us=number)
        if number % 50 == 0:
            _cross(near, far, crossed)
    near.renewed(now_us=EVENTS)
    _cross(near, far, crossed)
    took_s = process_time() - began
    account = near.account()
    return LinkCost(
        kind,
        receivers,
        1e6 * took_s / EVENTS,
        crossed.bytes / max(1, account.handed),
        account.handed,
        len(crossed.events),
        len(set(crossed.events)),
        crossed.copies,
        account.balanced and not account.queued and not account.in_flight,
    )


def _event(number: int) -> Outgoing:
    event = Event(TOPIC, bytes(PAYLOAD_BYTES), number, seq=number)
    return Outgoing(event, encode_item(Carried(number + 1, TOPIC, event.payload, number)))


def _cross(one: PeerLink, other: PeerLink, crossed: Crossed) -> None:
    """Carry frames until one end has nothing to send."""
    while frames := one.frames(now_us=0):
        for frame in frames:
            crossed.bytes += len(frame)
            for item in other.received(frame, now_us=0).items:
                if isinstance(item, Wants):
                    other.wants(item)
                elif isinstance(item, Addressed):
                    crossed.events.append(item.item.number)
                    crossed.copies += 1 if item.classes is None else len(item.classes)
                elif isinstance(item, Carried):
                    crossed.events.append(item.number)
                    crossed.copies += 1
            one.received(other.acknowledgement(other.taken), now_us=0)


def table(costs: Sequence[LinkCost]) -> Table:
    """All figures."""
    return Table(
        f"Queues of a link inside one process, {EVENTS:,} events",
        ("queue", "receivers", "µs an event", "bytes an event", "events that crossed", "for classes"),
        tuple(
            (
                each.of,
                str(each.receivers),
                f"{each.us_per_event:.1f}",
                f"{each.bytes_per_event:.0f}",
                f"{each.handed:,}",
                f"{each.copies:,}",
            )
            for each in costs
        ),
    )
