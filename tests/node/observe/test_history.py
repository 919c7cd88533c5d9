"""The rings of the past: bounded, in order, and given to those that are behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.instant import SECOND_US
from penstock.node.observe.history import History
from tests.kit.status import broker, client, subscription

if TYPE_CHECKING:
    from penstock.node.broker.status import BrokerStatus


def sample(history: History, status: BrokerStatus) -> None:
    """Sample what a snapshot shows."""
    found = ((each.client_id, one) for each in status.clients for one in each.subscriptions)
    history.sample(found, now_us=status.now_us)


@given(samples=st.integers(1, 7), seconds=st.integers(0, 25), since=st.integers(0, 30))
def test_a_ring_holds_the_last_samples_in_order(samples: int, seconds: int, since: int) -> None:
    history = History(samples=samples)
    for second in range(1, seconds + 1):
        sample(history, broker(second, client("a", subscription("x", items=second, level=second % 3))))
    found = history.series("a", "x", since_us=since * SECOND_US)
    expected = [second for second in range(max(1, seconds - samples + 1), seconds + 1) if second > since]
    assert found.at_us == [second * SECOND_US for second in expected]
    assert found.items == expected
    assert found.level == [second % 3 for second in expected]


def test_rates_are_per_second_whatever_the_interval() -> None:
    history = History()
    for second, delivered in ((1, 0), (2, 10), (5, 40), (6, 40), (7, 3)):
        sample(history, broker(second, client("a", subscription("x", delivered=delivered))))
    found = history.series("a", "x")
    # The last account begins anew, as that of a client that started clean: no rate below nothing.
    assert found.delivered_per_s == [0, 10, 10, 0, 0]


def test_what_falls_behind_takes_the_ring_of_what_does_not() -> None:
    history = History(subscriptions=2)
    sample(history, broker(1, client("a", subscription("x", items=3)), client("b", subscription("x"))))
    newcomer = client("c", subscription("x", items=9))
    sample(
        history, broker(2, client("a", subscription("x", items=3)), client("b", subscription("x")), newcomer)
    )
    assert history.remembered() == [("a", "x"), ("c", "x")]


def test_those_behind_do_not_take_rings_from_each_other() -> None:
    history = History(subscriptions=2)
    crowd = [client(name, subscription("x", items=3)) for name in "abcd"]
    for second in range(1, 5):
        sample(history, broker(second, *crowd))
    assert history.remembered() == [("a", "x"), ("b", "x")]
    found = history.series("a", "x")
    assert len(found.at_us) == 4


@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), max_size=10), max_size=20))
def test_there_are_never_more_rings_than_the_bound(story: list[list[tuple[int, int]]]) -> None:
    history = History(samples=3, subscriptions=4)
    for second, present in enumerate(story, start=1):
        rows = dict(present)
        sample(
            history,
            broker(
                second, *(client(str(name), subscription("x", items=items)) for name, items in rows.items())
            ),
        )
        remembered = {int(name) for name, _ in history.remembered()}
        assert len(remembered) <= 4
        behind = {name for name, items in rows.items() if items}
        assert len(behind & remembered) == min(4, len(behind))


def test_a_subscription_that_is_gone_is_forgotten_when_its_ring_has_run_out() -> None:
    history = History(samples=5)
    sample(history, broker(1, client("a", subscription("x"))))
    sample(history, broker(6))
    assert history.remembered() == [("a", "x")]
    sample(history, broker(7))
    assert history.remembered() == []
