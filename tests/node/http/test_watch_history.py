"""The rings of the past: bounded, in order, and given to those that are behind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.instant import SECOND_US
from penstock.node.http.watch import History
from penstock.node.observe.status import Account, ClientStatus, NodeStatus, SubscriptionStatus


def subscription(filter_: str, *, items: int = 0, level: int = 0, delivered: int = 0) -> SubscriptionStatus:
    return SubscriptionStatus(
        filter=filter_,
        qos=0,
        policy="",
        content_filter=False,
        account=Account(accepted=delivered + items, delivered=delivered, queued=items),
        level=level,
        items=items,
        bytes=items,
        packs=0,
        packs_by_level={},
        filters=(),
        digests=0,
        oldest_us=items,
        latency_p50_us=1,
        latency_p99_us=2,
    )


def client(client_id: str, *subscriptions: SubscriptionStatus) -> ClientStatus:
    return ClientStatus(
        client_id=client_id,
        user="",
        state="attached",
        address="",
        protocol=5,
        since_us=0,
        expires_us=0,
        in_flight=0,
        behind=False,
        received=0,
        sent=0,
        subscriptions=subscriptions,
    )


def node(second: int, *clients: ClientStatus) -> NodeStatus:
    return NodeStatus(
        version="",
        started_us=0,
        now_us=second * SECOND_US,
        connections=0,
        sessions=0,
        subscriptions=0,
        retained=0,
        retained_bytes=0,
        messages_received=0,
        messages_sent=0,
        bytes_received=0,
        bytes_sent=0,
        refused={},
        unrouted=0,
        departed=Account(),
        clients=clients,
    )


@given(samples=st.integers(1, 7), seconds=st.integers(0, 25), since=st.integers(0, 30))
def test_a_ring_holds_the_last_samples_in_order(samples: int, seconds: int, since: int) -> None:
    history = History(samples=samples)
    for second in range(1, seconds + 1):
        history.sample(node(second, client("a", subscription("x", items=second, level=second % 3))))
    found = history.series("a", "x", since_us=since * SECOND_US)
    expected = [second for second in range(max(1, seconds - samples + 1), seconds + 1) if second > since]
    assert found.at_us == [second * SECOND_US for second in expected]
    assert found.items == expected
    assert found.level == [second % 3 for second in expected]


def test_rates_are_per_second_whatever_the_interval() -> None:
    history = History()
    for second, delivered in ((1, 0), (2, 10), (5, 40), (6, 40), (7, 3)):
        history.sample(node(second, client("a", subscription("x", delivered=delivered))))
    found = history.series("a", "x")
    # The last account begins anew, as that of a client that started clean: no rate below nothing.
    assert found.delivered_per_s == [0, 10, 10, 0, 0]


def test_what_falls_behind_takes_the_ring_of_what_does_not() -> None:
    history = History(subscriptions=2)
    history.sample(node(1, client("a", subscription("x", items=3)), client("b", subscription("x"))))
    newcomer = client("c", subscription("x", items=9))
    history.sample(node(2, client("a", subscription("x", items=3)), client("b", subscription("x")), newcomer))
    assert history.remembered() == [("a", "x"), ("c", "x")]


def test_those_behind_do_not_take_rings_from_each_other() -> None:
    history = History(subscriptions=2)
    crowd = [client(name, subscription("x", items=3)) for name in "abcd"]
    for second in range(1, 5):
        history.sample(node(second, *crowd))
    assert history.remembered() == [("a", "x"), ("b", "x")]
    found = history.series("a", "x")
    assert len(found.at_us) == 4


@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), max_size=10), max_size=20))
def test_there_are_never_more_rings_than_the_bound(story: list[list[tuple[int, int]]]) -> None:
    history = History(samples=3, subscriptions=4)
    for second, present in enumerate(story, start=1):
        rows = dict(present)
        history.sample(
            node(second, *(client(str(name), subscription("x", items=items)) for name, items in rows.items()))
        )
        remembered = {int(name) for name, _ in history.remembered()}
        assert len(remembered) <= 4
        behind = {name for name, items in rows.items() if items}
        assert len(behind & remembered) == min(4, len(behind))


def test_a_subscription_that_is_gone_is_forgotten_when_its_ring_has_run_out() -> None:
    history = History(samples=5)
    history.sample(node(1, client("a", subscription("x"))))
    history.sample(node(6))
    assert history.remembered() == [("a", "x")]
    history.sample(node(7))
    assert history.remembered() == []
