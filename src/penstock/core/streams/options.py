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
    """Settings of streams; StreamError names an invalid one."""

    publisher_control: PublisherControl = "pdcc"
    """Control of the publishing rate: the paper's PDCC, our `steady`, or off."""
    subscriber_control: SubscriberControl = "sdcc"
    """Control of the NACK window: the paper's SDCC, or off: then it is the receive window."""

    silence_us: int = SECOND_US
    """t_silence: how often an idle pubend sends silence."""
    query_us: int = SECOND_US
    """How often a pubend sends a query (DCQ)."""
    no_alert_us: int = 2 * SECOND_US
    """t_nouca: time without an alert after which the rate may grow."""
    rate_step: float = 2.0
    """r_min: least growth of the rate, in messages per second; also the lowest rate."""
    increase: float = 0.05
    """f_incr: growth as a share of the distance from the last decrease."""
    decrease: float = 0.5
    """f_decr1: share of the rate that a decrease leaves."""
    decrease_to_last: float = 0.25
    """f_decr2: or this share of the distance from the last decrease, if that is more."""
    smoothing: float = 0.1
    """α: weight of the newest rate of the doubt horizon."""
    keeping_slack: float = 0.05
    """Δt_nonrec: how much slower than the stream a non-recovering end may be, in tick-seconds per second."""
    recovering_gain: float = 1.0
    """Δt_rec: how much faster than the stream a recovering end must be, in tick-seconds per second."""
    lag_us: int = 4 * SECOND_US
    """Δt_s: largest lag behind the pubend without an alert."""

    nack_us: int = 100_000
    """size_NACK: step of the NACK window, and the least span of a NACK where possible."""
    nack_window_us: int = 100_000
    """nwnd_0: the NACK window at the beginning of a recovery."""
    nack_rise: float = 0.1
    """α_NACK: relative rise of the recovery rate that opens the window."""
    nack_fall: float = 0.3
    """β_NACK: relative fall that closes the window."""
    receive_window_us: int = 10 * SECOND_US
    """Ticks further beyond the doubt horizon are ignored: bounds the memory of a subscriber-hosting end."""
    retry_us: int = 2 * SECOND_US
    """Pause before an unanswered NACK is repeated; with control it follows the round trips."""
    hold_us: int = 500_000
    """A relay does not forward the same NACK twice within this time."""

    cache_us: int = 30 * SECOND_US
    """Ticks that a relay caches to answer NACKs."""
    cache_bytes: int = 16 << 20
    """Bytes that a relay caches."""
    filtered_us: int = 200_000
    """Longest delay of silence made by a link's filter."""
    retain_us: int = 0
    """How long acknowledged messages stay in the log."""
    held_most: int = 100_000
    """Messages of one pubend whose acknowledgement is held back; further ones are refused."""

    def __post_init__(self) -> None:
        if self.publisher_control not in get_args(PublisherControl):
            raise StreamError(f"publisher_control {self.publisher_control!r}; allowed: pdcc, steady, off")
        if self.subscriber_control not in get_args(SubscriberControl):
            raise StreamError(f"subscriber_control {self.subscriber_control!r}; allowed: sdcc, off")
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
                raise StreamError(f"{name} {value}; allowed: above 0, up to 1")
        if not 0 <= self.keeping_slack < 1:
            raise StreamError(f"keeping_slack {self.keeping_slack}; allowed: 0 or more, below 1")
        if not -1 < self.recovering_gain <= 100:
            raise StreamError(f"recovering_gain {self.recovering_gain}; allowed: above -1, up to 100")
        if self.nack_window_us > self.receive_window_us:
            raise StreamError("nack_window_us is above receive_window_us")

    def _check(self, name: str, *, least: float) -> None:
        value = getattr(self, name)
        if not least <= value < 1 << 60:
            raise StreamError(f"{name} {value}; at least {least:g}")

    @property
    def receive_window(self) -> int:
        """Receive window in ticks."""
        return ticks_in(self.receive_window_us)

    @property
    def nack_ticks(self) -> int:
        """size_NACK in ticks."""
        return ticks_in(self.nack_us)
