"""PDCC, SDCC and steady do what their formulas say."""

from __future__ import annotations

from itertools import pairwise
from math import inf, isfinite

import pytest

from penstock.core.streams.control import TARGET_S, Pdcc, Sdcc, Steady, Unlimited, WholeWindow
from penstock.core.streams.messages import Alert
from penstock.core.streams.options import StreamOptions
from penstock.core.streams.pubend import AckShaper, rate_control
from penstock.core.streams.ticks import TICKS_PER_S, ticks_in
from penstock.errors import StreamError

SECOND_US = 1_000_000


class Asking:
    """Queries once a second, with what is published in between."""

    def __init__(self, control: Pdcc | Steady) -> None:
        self.control = control
        self.second = 0
        self.published = 0

    def query(self, published: int = 100, *, throttled: bool = True) -> int:
        self.second += 1
        self.published += published
        self.control.asked(
            self.second,
            position=self.second * TICKS_PER_S,
            published=self.published,
            throttled=throttled,
            now_us=self.second * SECOND_US,
        )
        return self.second

    def alert(self, keeping: float, recovering: float = inf, *, behind_s: float = 0.0) -> None:
        behind = int(behind_s * TICKS_PER_S)
        alert = Alert("p", self.second, keeping, recovering, behind, self.second * TICKS_PER_S - behind)
        self.control.alerted(alert, now_us=self.second * SECOND_US + 10_000)


def test_pdcc_halves_then_grows_slowly_then_decreases_to_a_quarter_of_what_it_gained() -> None:
    asking = Asking(Pdcc(StreamOptions()))
    asking.query()
    asking.query()
    assert asking.control.rate == inf
    asking.alert(0.9)
    assert asking.control.rate == pytest.approx(50)  # equation 3 with f_decr1
    asking.query(50)
    assert asking.control.rate == pytest.approx(50)  # 2 s have not passed
    for expected in (50, 52, 54, 56, 58):
        asking.query(50)
        assert asking.control.rate == pytest.approx(expected)  # equation 1, r_min
    asking.alert(0.8)
    assert asking.control.rate == pytest.approx(50 + 0.25 * 8)  # equation 2, f_decr2


def test_pdcc_grows_by_a_share_of_the_distance_once_that_is_more() -> None:
    control = Pdcc(StreamOptions(no_alert_us=1_000_000))
    asking = Asking(control)
    asking.query(200)
    asking.query(200)
    asking.alert(0.9)
    asking.query(100)
    rates = []
    for _ in range(60):
        asking.query(100)
        rates.append(control.rate)
    for earlier, later in pairwise(rates):
        assert later == pytest.approx(max(earlier + 2, earlier + 0.05 * (earlier - 100)))
    assert rates[-1] - rates[-2] > 5


def test_pdcc_decreases_by_equation_2_after_a_rise() -> None:
    control = Pdcc(StreamOptions(no_alert_us=1_000_000))
    asking = Asking(control)
    asking.query(200)
    asking.query(200)
    asking.alert(0.9)
    for _ in range(22):
        asking.query(500)  # the limit binds: publishers would take more
    rate = control.rate
    asking.alert(0.8)
    assert control.rate == pytest.approx(max(0.5 * rate, 100 + 0.25 * (rate - 100)))


def test_pdcc_waits_for_an_answer_to_a_query_after_the_decrease() -> None:
    asking = Asking(Pdcc(StreamOptions()))
    asking.query()
    asking.query()
    asking.alert(0.9)
    asking.alert(0.8)
    assert asking.control.rate == pytest.approx(50)
    old = asking.second
    asking.query(50)
    asking.control.alerted(Alert("p", old, 0.7, inf), now_us=asking.second * SECOND_US)
    assert asking.control.rate == pytest.approx(50)
    asking.alert(0.6)
    assert asking.control.rate == pytest.approx(25)


def test_pdcc_passes_over_alerts_that_get_better() -> None:
    asking = Asking(Pdcc(StreamOptions()))
    asking.query()
    asking.query()
    asking.alert(0.5)
    asking.query(50)
    asking.alert(0.6)
    assert asking.control.rate == pytest.approx(50)
    asking.query(50)
    asking.alert(0.6)
    assert asking.control.rate == pytest.approx(25)
    asking.query(25)
    asking.alert(0.7, 0.9)  # those that keep up do better, and somebody recovers now
    assert asking.control.rate == pytest.approx(25)
    asking.query(25)
    asking.alert(0.8, 0.8)
    assert asking.control.rate == pytest.approx(12.5)


def test_pdcc_sets_no_rate_below_its_least() -> None:
    asking = Asking(Pdcc(StreamOptions(rate_step=2.0)))
    for number in range(40):
        asking.query(1)
        asking.alert(0.9 - number / 100)
    assert asking.control.rate == pytest.approx(2.0)


def test_pdcc_does_not_grow_while_nobody_is_held_back() -> None:
    asking = Asking(Pdcc(StreamOptions()))
    asking.query()
    asking.query()
    asking.alert(0.9)
    for _ in range(10):
        asking.query(20, throttled=False)
    assert asking.control.rate == pytest.approx(50)


def test_sdcc_opens_by_one_nack_as_long_as_the_rate_rises() -> None:
    sdcc = Sdcc(StreamOptions())
    now_us, windows = 0, []
    for _ in range(30):
        now_us += 50_000
        sdcc.answered(50_000, now_us=now_us)
        windows.append(sdcc.window)
    # With a constant round trip each step is a smaller share, and a tenth is the last: an operating point.
    assert windows[0] == ticks_in(200_000)
    assert windows[-1] == ticks_in(1_200_000)


def test_sdcc_closes_when_the_rate_falls_and_never_below_one_nack() -> None:
    sdcc = Sdcc(StreamOptions())
    now_us = 0
    for _ in range(20):
        now_us += 50_000
        sdcc.answered(50_000, now_us=now_us)
    top = sdcc.window
    rtt_us = 50_000
    for _ in range(40):
        rtt_us = int(rtt_us * 1.5)
        now_us += rtt_us
        sdcc.answered(rtt_us, now_us=now_us)
    assert sdcc.window == ticks_in(100_000) < top
    sdcc.begin()
    assert sdcc.window == ticks_in(100_000)


def test_sdcc_changes_once_in_a_round_trip() -> None:
    sdcc = Sdcc(StreamOptions())
    for now_us in (100_000, 110_000, 120_000):
        sdcc.answered(50_000, now_us=now_us)
    assert sdcc.window == ticks_in(200_000)


def bottleneck(asking: Asking, *, capacity: float, wanted: int, seconds: int) -> list[float]:
    """A queue before a link that carries so many messages a second."""
    queue, rates = 0.0, []
    for _ in range(seconds):
        rate = min(asking.control.rate, wanted)
        rates.append(rate)
        queue = max(0.0, queue + rate - capacity)
        asking.query(round(rate), throttled=wanted > asking.control.rate)
        asking.alert(1.0, behind_s=queue / capacity)
    return rates


def test_steady_settles_at_the_bottleneck_and_follows_it() -> None:
    asking = Asking(Steady(StreamOptions()))
    assert bottleneck(asking, capacity=1_000, wanted=500, seconds=10)[-1] == 500
    assert not isfinite(asking.control.rate)
    for capacity in (150, 400, 150):
        rates = bottleneck(asking, capacity=capacity, wanted=500, seconds=80)
        settled = rates[40:]
        assert sum(settled) / len(settled) == pytest.approx(capacity, rel=0.05)
        assert max(settled) - min(settled) < 0.25 * capacity


def test_steady_leaves_the_way_to_those_that_recover() -> None:
    asking = Asking(Steady(StreamOptions()))
    asking.query(100)
    for _ in range(20):
        asking.query(100)
        asking.alert(inf, 1.2)
    assert asking.control.rate < 15
    low = asking.control.rate
    for _ in range(20):
        asking.query(round(asking.control.rate))
        asking.alert(1.0, behind_s=0.0)
    assert asking.control.rate > 3 * low
    assert TARGET_S < 1


def test_steady_passes_over_answers_about_ticks_it_does_not_know() -> None:
    asking = Asking(Steady(StreamOptions()))
    asking.query()
    for reached in (0, 5):
        for second in range(3):
            asking.control.alerted(Alert("p", 1, 0.5, inf, 10**9, reached), now_us=second * SECOND_US)
    assert asking.control.rate == inf


def test_off_is_off() -> None:
    control = rate_control(StreamOptions(publisher_control="off"))
    assert isinstance(control, Unlimited)
    control.alerted(Alert("p", 1, 0.1, 0.1), now_us=0)
    assert control.rate == inf
    whole = WholeWindow(77)
    whole.begin()
    whole.answered(10, now_us=0)
    assert whole.window == 77


def test_acknowledgements_are_evenly_spread() -> None:
    shaper = AckShaper()
    for tick in range(100):
        shaper.hold(tick)
    assert shaper.throttled()
    released = []
    for now_us in range(1_000_000, 2_000_001, 1_000):
        released += [now_us for _ in shaper.release(20.0, now_us=now_us)]
    assert len(released) == pytest.approx(21, abs=1)
    assert len(shaper) == 100 - len(released)
    due_us = shaper.due_us()
    assert due_us is not None
    assert shaper.release(20.0, now_us=due_us) != []
    assert shaper.release(inf, now_us=due_us) != []
    assert shaper.due_us() is None
    assert shaper.throttled()
    assert not shaper.throttled()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("publisher_control", "none"),
        ("subscriber_control", "pdcc"),
        ("silence_us", 0),
        ("smoothing", 0.0),
        ("decrease", 1.5),
        ("keeping_slack", 1.0),
        ("recovering_gain", -1.0),
        ("rate_step", 0.0),
        ("receive_window_us", 50_000),
        ("cache_bytes", -1),
        ("held_most", 0),
        ("increase", float("nan")),
    ],
)
def test_options_that_cannot_be_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(StreamError, match=name):
        StreamOptions(**{name: value})  # type: ignore[arg-type]
