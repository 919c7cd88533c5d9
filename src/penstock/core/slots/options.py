"""Settings of the flow control: slots, capacity, punctuality, silence."""

from __future__ import annotations

from dataclasses import dataclass

from penstock import limits
from penstock.errors import SlotError
from penstock.model.instant import SECOND_US


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlOptions:
    """Options of `FlowControl`; SlotError names an invalid one."""

    slot_us: int = 20_000
    """Length of a time slot."""
    slots: int = 64
    """Slots of the window, both of the history and of the reservations."""
    capacity: int = 100
    """Packets the link carries in one slot."""
    share: float = 0.5
    """Share of the capacity that may be reserved."""
    request_share: float = 0.1
    """Share of the capacity for requests, at least one packet."""
    sigmas: float = 3.0
    """δ: how far from its expected time a packet is on time, in standard deviations of its jitter."""
    detect: bool = True
    """Whether to search for undeclared periods."""
    flows: int = 10_000
    """Flows in the table."""
    idle_us: int = 600 * SECOND_US
    """A flow that is not served is removed after this time without a packet."""
    silent_after: int = 3
    """Packets a served flow may miss in a row before it counts as silent."""
    silent_least_us: int = 0
    """Shortest time until a flow counts as silent."""
    positions: int = 1 << 16
    """Bits of each array of the two filters."""

    def __post_init__(self) -> None:
        for name, least, most in (
            ("slot_us", 1, 3_600 * SECOND_US),
            ("slots", 4, limits.SLOT_WINDOW),
            ("capacity", 1, 1 << 31),
            ("flows", 1, 1 << 24),
            ("idle_us", 1, 1 << 62),
            ("silent_after", 1, 1_000),
            ("silent_least_us", 0, 1 << 62),
            ("positions", 64, limits.SLOT_POSITIONS),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or not least <= value <= most:
                raise SlotError(f"{name} {value}; allowed: whole numbers from {least:,} to {most:,}")
        if not 0 < self.share <= 1:
            raise SlotError(f"share {self.share}; allowed: above 0, up to 1")
        if not 0 < self.request_share <= 1:
            raise SlotError(f"request_share {self.request_share}; allowed: above 0, up to 1")
        if not 0 < self.sigmas <= 10:
            raise SlotError(f"sigmas {self.sigmas}; allowed: above 0, up to 10")
        if self.reserved_capacity < 1:
            raise SlotError(f"share {self.share} of {self.capacity} packets a slot is less than one packet")

    @property
    def reserved_capacity(self) -> int:
        """Packets that may be reserved in one slot."""
        return int(self.capacity * self.share)

    @property
    def request_capacity(self) -> int:
        """Packets for requests in one slot."""
        return max(1, int(self.capacity * self.request_share))

    @property
    def reserved_load(self) -> float:
        """Packets reserved per slot on average: less than the capacity, as flows coincide now and then."""
        return max(1.0, 0.8 * self.reserved_capacity)

    @property
    def window_us(self) -> int:
        """How far ahead slots can be reserved."""
        return (self.slots - 2) * self.slot_us

    def problem_with(self, period_us: float, jitter_us: float = 0) -> str:
        """Why a period cannot be served, a short reason before the colon; empty if it can."""
        if not period_us > 0:
            return f"bad period: {period_us / 1_000:g} ms is not above 0"
        if period_us < self.slot_us:
            slot_ms = self.slot_us / 1_000
            return f"period too short: {period_us / 1_000:g} ms is less than a slot of {slot_ms:g} ms"
        if period_us + self.sigmas * jitter_us > self.window_us:
            return (
                f"period beyond the window: {period_us / 1_000:g} ms, and slots can be reserved "
                f"{self.window_us / 1_000:g} ms ahead"
            )
        if jitter_us < 0 or jitter_us > period_us / 4:
            return (
                f"too much jitter: {jitter_us / 1_000:g} ms is more than a quarter of the period of "
                f"{period_us / 1_000:g} ms"
            )
        return ""
