"""What a controller of streams is asked and tells; one file each: `pdcc`, `steady`, `sdcc`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.core.streams.messages import NO_RATE

if TYPE_CHECKING:
    from penstock.core.streams.messages import Alert


class RateControl(Protocol):
    """Sets the rate of publishing at a pubend."""

    @property
    def rate(self) -> float:
        """Messages a second that may be acknowledged; infinite: not limited."""
        ...

    def asked(self, number: int, *, position: int, published: int, throttled: bool, now_us: int) -> None:
        """A query goes out; so many messages were published up to its position since the start."""
        ...

    def alerted(self, alert: Alert, *, now_us: int) -> None:
        """An alert has come."""
        ...


class NackControl(Protocol):
    """Sets the NACK window of a stream that recovers."""

    @property
    def window(self) -> int:
        """In ticks, from the doubt horizon on."""
        ...

    def begin(self) -> None:
        """A recovery begins."""
        ...

    def answered(self, rtt_us: int, *, now_us: int) -> None:
        """A NACK has been answered in full after so long."""
        ...


class Unlimited:
    """The controller that does not control: everything is acknowledged at once."""

    rate = NO_RATE

    def asked(self, number: int, *, position: int, published: int, throttled: bool, now_us: int) -> None:
        """Nothing follows from it."""

    def alerted(self, alert: Alert, *, now_us: int) -> None:
        """Nothing follows from it."""


class WholeWindow:
    """The NACK window is the receive window, whatever happens."""

    def __init__(self, window: int) -> None:
        self.window = window

    def begin(self) -> None:
        """Nothing changes."""

    def answered(self, rtt_us: int, *, now_us: int) -> None:
        """Nothing changes."""
