"""Settings of the flow control: slots and their filters, capacity, Table 2, punctuality, silence."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock import limits
from penstock.core.slots.lanes import Decisions
from penstock.core.slots.shape import Shape, Variant
from penstock.errors import SlotError
from penstock.model.instant import SECOND_US, duration


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlOptions:
    """Options of `FlowControl`; SlotError names an invalid one."""

    slot_us: int = 20_000
    """Length of the shortest time slots."""
    longer_us: tuple[int, ...] = ()
    """Lengths of longer slots, ascending, for periods beyond the window of shorter ones."""
    slots: int = 64
    """u · v: slots of a window, both of the history and of the reservations, for each length."""
    groups: int = 1
    """v: groups of hash functions of both filters; u = slots / groups."""
    hashes: int = 8
    """k: hash functions of a group."""
    positions: int = 1 << 16
    """m: bits of each array of both filters."""
    spare: bool = True
    """Whether filters with several groups have a spare array; without it the slots of an array expire
    together."""
    capacity: int = 100
    """Packets a link carries in one of the shortest slots, unless the link says otherwise."""
    share: float = 0.5
    """Share of the capacity that may be reserved."""
    request_share: float = 0.1
    """Share of the capacity for requests, at least one packet."""
    sigmas: float = 3.0
    """δ: how far from its expected time a packet is on time, in standard deviations of its jitter."""
    decisions: Decisions = field(default_factory=Decisions)
    """Table 2: the lane of a packet by the state of its flow."""
    detect: bool = True
    """Whether to search for undeclared periods and retries."""
    flows: int = 10_000
    """Flows in the table."""
    unlisted: bool = True
    """Whether flows that find the table full are served by the filters alone."""
    idle_us: int = 600 * SECOND_US
    """A flow that is not served is removed after this time without a packet."""
    silent_after: int = 3
    """Packets a served flow may miss in a row before it counts as silent."""
    silent_least_us: int = 0
    """Shortest time until a flow counts as silent."""

    def __post_init__(self) -> None:
        for name, least, most in (
            ("slot_us", 1, limits.SLOT_LONGEST_US),
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
        self._check_lengths()
        if self.groups < 1 or self.slots % self.groups:
            allowed = ", ".join(map(str, divisors(self.slots)))
            raise SlotError(f"groups {self.groups}; allowed: {allowed}, the divisors of {self.slots} slots")
        shape = self.shape()  # checks the rest
        if self.ahead < 2:
            raise SlotError(
                f"groups {shape.groups} without a spare: the slots of an array expire together, and "
                f"{self.slots} slots leave {self.ahead} to reserve; at least 2"
            )

    def _check_lengths(self) -> None:
        before = self.slot_us
        if len(self.longer_us) >= limits.SLOT_LENGTHS:
            raise SlotError(
                f"longer_us has {len(self.longer_us)} lengths; allowed: up to {limits.SLOT_LENGTHS - 1}"
            )
        for length in self.longer_us:
            if not 2 * before <= length <= limits.SLOT_LONGEST_US:
                raise SlotError(
                    f"longer_us {length:,}; allowed: {2 * before:,}, twice the length before it, to "
                    f"{limits.SLOT_LONGEST_US:,}"
                )
            before = length

    @property
    def lengths_us(self) -> tuple[int, ...]:
        """Lengths of slots, ascending."""
        return (self.slot_us, *self.longer_us)

    @property
    def ahead(self) -> int:
        """Slots after the present one that can be reserved."""
        together = self.groups if self.groups > 1 and not self.spare else 1
        return self.slots - max(2, together)

    def shape(self, *, ahead: int = 0) -> Shape:
        """Shape of a filter."""
        return Shape(
            variant=Variant.RBF if self.spare or self.groups == 1 else Variant.MMBF,
            arrays=self.slots // self.groups,
            groups=self.groups,
            hashes=self.hashes,
            positions=self.positions,
            ahead=ahead,
        )

    @property
    def reserved_capacity(self) -> int:
        """Packets that may be reserved in one slot of a link."""
        return int(self.capacity * self.share)

    @property
    def request_capacity(self) -> int:
        """Packets for requests in one slot."""
        return max(1, int(self.capacity * self.request_share))

    def window_us(self, length: int = -1) -> int:
        """How far ahead slots of one length can be reserved; the longest ones unless told."""
        return self.ahead * self.lengths_us[length]

    def length_for(self, period_us: float, jitter_us: float = 0) -> int:
        """Number of the shortest length whose window a period fits into; the last one if none does."""
        for number in range(len(self.longer_us)):
            if period_us + self.sigmas * jitter_us <= self.window_us(number):
                return number
        return len(self.longer_us)

    def problem_with(self, period_us: float, jitter_us: float = 0) -> str:
        """Why a period cannot be served, a short reason before the colon; empty if it can."""
        if not period_us > 0:
            return f"bad period: {period_us / 1_000:g} ms is not above 0"
        if period_us < self.slot_us:
            slot_ms = self.slot_us / 1_000
            return f"period too short: {period_us / 1_000:g} ms is less than a slot of {slot_ms:g} ms"
        if period_us + self.sigmas * jitter_us > self.window_us():
            return (
                f"period beyond the window: {duration(period_us)}, and slots can be reserved "
                f"{duration(self.window_us())} ahead"
            )
        if jitter_us < 0 or jitter_us > period_us / 4:
            return (
                f"too much jitter: {jitter_us / 1_000:g} ms is more than a quarter of the period of "
                f"{period_us / 1_000:g} ms"
            )
        return ""


def divisors(number: int) -> list[int]:
    """Divisors of a number, ascending."""
    return [each for each in range(1, number + 1) if number % each == 0]
