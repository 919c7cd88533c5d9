"""Requests: packets that are of use only in a slot of their own, and come again if there is none.

A request takes a place of the present slot, or the one that was kept for its retry, and goes ahead like a
packet that came in its slot; without one it is not taken at all, and `pattern_retries` says when it may come
again. Requests have a share of each slot to themselves: however many come, they displace no served flow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.slots.control_treatment import Lane
from penstock.core.slots.flows import State, key_of
from penstock.core.slots.pattern_retries import Answer, Retries
from penstock.core.slots.reservation import Reservations

if TYPE_CHECKING:
    from penstock.core.slots.control import FlowControl
    from penstock.core.slots.flows import Flow
    from penstock.core.slots.pattern_retries import Verdict
    from penstock.model.instant import Instant


class Requests:
    """Asked about each request; shares the table with the control of flows."""

    def __init__(self, control: FlowControl) -> None:
        options = control.options
        self._control = control
        slots = Reservations(
            slot_us=options.slot_us,
            slots=options.slots,
            capacity=options.request_capacity,
            positions=64,  # who has which slot is remembered exactly
            now_us=control.reservations.now * options.slot_us,
        )
        self._retries = Retries(slots, most=options.flows)

    @property
    def answers(self) -> dict[str, int]:
        """How many were accepted, told to come again, and rejected."""
        return {answer.value: count for answer, count in self._retries.answers.items()}

    def flow(self, client: str, topic: str, *, now_us: Instant) -> Flow | None:
        """The flow a request belongs to; None: it has slots anyway, or so many cannot be known at a time."""
        table, key = self._control.table, key_of(client, topic)
        flow = table.get(key) or table.add(key, client, topic, now_us=now_us)
        if flow is None or flow.state is State.SERVED or (flow.client, flow.topic) != (client, topic):
            return None
        return flow

    def arrive(self, flow: Flow, period_us: float, *, now_us: Instant) -> Verdict:
        """A request, or a retry of it; if it is accepted, it goes into the reserved lane."""
        verdict = self._retries.arrive(flow.key, period_us=period_us, now_us=now_us)
        if verdict.answer is Answer.ACCEPTED:
            flow.arrivals += 1
            flow.last_us = now_us
            flow.laned = True
            self._control.packets[Lane.RESERVED] += 1
        return verdict
