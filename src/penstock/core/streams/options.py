"""All settings of streams as one value; the defaults are Table 1 of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from penstock.core.streams.ticks import ticks_in
from penstock.errors import StreamError
from penstock.model.instant import SECOND_US

PublisherControl: TypeAlias = Literal["pdcc", "steady", "off"]
SubscriberControl: TypeAlias = Literal["sdcc", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """One sentence under every field; StreamError says what cannot be."""

    publisher_control: PublisherControl = "pdcc"
    """Who sets the rate of publishing: the paper's PDCC, our `steady`, or nobody."""
    subscriber_control: SubscriberControl = "sdcc"
    """Who sets the NACK window: the paper's SDCC, or nobody, and it is the receive window."""

    silence_us: int = SECOND_US
    """t_silence: an idle pubend says so this often."""
    query_us: int = SECOND_US
    """How often a pubend asks who falls behind (DCQ)."""
    no_alert_us: int = 2 * SECOND_US
    """t_nouca: so long without an alert, and the rate may grow."""
    rate_step: float = 2.0
    """r_min: the rate grows by at least so many messages a second; no rate is set below it either."""
    increase: float = 0.05
    """f_incr: growth as a share of the distance from the last decrease."""
    decrease: float = 0.5
    """f_decr1: a decrease leaves this share of the rate."""
    decrease_to_last: float = 0.25
    """f_decr2: or this share of the distance from the last decrease, if that is more."""
    smoothing: float = 0.1
    """α: weight of the newest rate of the doubt horizon."""
    keeping_slack: float = 0.05
    """Δt_nonrec: who does not recover may be slower than the stream by so many tick-seconds per second."""
    recovering_gain: float = 1.0
    """Δt_rec: who recovers must be faster than the stream by so many tick-seconds per second."""
    lag_us: int = 4 * SECOND_US
    """Δt_s: nobody may be farther behind the pubend."""

    nack_us: int = 100_000
    """size_NACK: the NACK window changes by this much, and a NACK asks for no less if it can."""
    nack_window_us: int = 100_000
    """nwnd_0: the NACK window at the beginning of a recovery."""
    nack_rise: float = 0.1
    """α_NACK: a rise of the recovery rate by this share opens the window."""
    nack_fall: float = 0.3
    """β_NACK: a fall by this share closes it."""
    receive_window_us: int = 10 * SECOND_US
    """Ticks so far beyond the doubt horizon are ignored: bounds what a subscriber-hosting stream holds."""
    retry_us: int = 2 * SECOND_US
    """A NACK that is not answered is sent again after so long; under control later, by its round trips."""
    hold_us: int = 500_000
    """A node on the way does not pass on the same NACK twice within this time."""

    cache_us: int = 30 * SECOND_US
    """Ticks that a node on the way keeps to answer NACKs."""
    cache_bytes: int = 16 << 20
    """And no more of them than this."""
    filtered_us: int = 200_000
    """Silence that a link's filter makes is told at the latest after this time."""
    retain_us: int = 0
    """Acknowledged messages stay in the log for so long."""
    held_most: int = 100_000
    """Messages of one pubend whose acknowledgement is held back; one more is refused."""

    def __post_init__(self) -> None:
        if self.publisher_control not in get_args(PublisherControl):
            raise StreamError(f"publisher_control is {self.publisher_control!r}: pdcc, steady or off")
        if self.subscriber_control not in get_args(SubscriberControl):
            raise StreamError(f"subscriber_control is {self.subscriber_control!r}: sdcc or off")
        for name in ("silence_us", "query_us", "no_alert_us", "lag_us", "nack_us", "nack_window_us"):
            self._check(name, least=1_000)
        for name in ("receive_window_us", "retry_us", "hold_us", "filtered_us"):
            self._check(name, least=1_000)
        for name in ("cache_us", "cache_bytes", "retain_us"):
            self._check(name, least=0)
        self._check("held_most", least=1)
        self._check("rate_step", least=1e-3)
        for name in ("increase", "decrease", "decrease_to_last", "smoothing", "nack_rise", "nack_fall"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise StreamError(f"{name} is {value}: give more than 0 and up to 1")
        if not 0 <= self.keeping_slack < 1:
            raise StreamError(f"keeping_slack is {self.keeping_slack}: give 0 or more, and less than 1")
        if not -1 < self.recovering_gain <= 100:
            raise StreamError(f"recovering_gain is {self.recovering_gain}: give more than -1 and up to 100")
        if self.nack_window_us > self.receive_window_us:
            raise StreamError("nack_window_us is more than receive_window_us: it is a part of it")

    def _check(self, name: str, *, least: float) -> None:
        value = getattr(self, name)
        if not least <= value < 1 << 60:
            raise StreamError(f"{name} is {value}: give {least:g} or more")

    @property
    def receive_window(self) -> int:
        """In ticks."""
        return ticks_in(self.receive_window_us)

    @property
    def nack_ticks(self) -> int:
        """size_NACK in ticks."""
        return ticks_in(self.nack_us)
