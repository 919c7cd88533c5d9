"""Who wants what, within bounds; and what of it is on disk."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.core.channels.address import canonical
from penstock.core.channels.delta import Change, Delta
from penstock.core.channels.difference import Rules, VersionsState
from penstock.core.channels.subscriptions import ChannelSubscription
from penstock.errors import ChannelRefused, ChannelsFull, StoreError
from penstock.node.channels import store as sql
from penstock.node.channels.channel import ChannelFacts
from penstock.node.channels.compare import squeezed
from penstock.node.channels.registry import ChannelRegistry, HostRules
from penstock.node.channels.status import PollCounts
from penstock.node.channels.store import ChannelStore
from penstock.node.config.channels import ChannelSettings

if TYPE_CHECKING:
    from pathlib import Path

A, B, C = (f"https://{name}.example.org/" for name in "abc")
DAY_US = limits.CHANNEL_IDLE_S * 1_000_000


def registry(**settings: int) -> ChannelRegistry:
    made = ChannelSettings(**settings)  # type: ignore[arg-type]
    return ChannelRegistry(made, HostRules(made))


def test_a_client_with_two_filters_is_one_subscriber_until_both_end() -> None:
    found = registry()
    channel = found.client_began("c", A, now_us=1)
    assert found.client_began("c", A, now_us=2) is channel
    assert (channel.subscribers, found.subscriptions) == (1, 1)
    assert found.client_ended("c", A, now_us=3) is None
    assert found.client_ended("c", A, now_us=4) is channel
    assert (channel.wanted, channel.known.idle_us, found.subscriptions) == (False, 4, 0)
    assert found.client_ended("c", A, now_us=5) is None
    assert found.client_ended("c", B, now_us=5) is None


def test_who_pauses_waits_no_more_but_is_not_forgotten() -> None:
    found = registry()
    channel = found.subscribe(ChannelSubscription("feed:ann", A, paused=True), now_us=1)
    assert (channel.subscribers, channel.wanted, channel.polled) == (0, True, False)
    found.subscribe(ChannelSubscription("feed:ann", A), now_us=1)
    assert (channel.polled, found.subscriptions) == (True, 1)


def test_idle_channels_go_after_a_day_or_when_room_is_needed() -> None:
    found = registry(max_channels=2)
    for url, at_us in ((A, 10), (B, 20)):
        found.client_began("c", url, now_us=1)
        found.client_ended("c", url, now_us=at_us)
    assert found.forgettable(now_us=30) == []
    assert found.forgettable(now_us=DAY_US + 15) == [A]
    found.check(C)
    found.client_began("c", C, now_us=30)
    assert found.forgettable(now_us=30) == [A]
    found.remove(A)
    assert len(found) == 2
    found.client_began("c", B, now_us=31)
    with pytest.raises(ChannelsFull):
        found.check(A)
    found.check(B)  # known already


@pytest.mark.parametrize(
    ("allow", "deny", "url", "allowed"),
    [
        ((), (), A, True),
        (("*.example.org",), (), A, True),
        (("*.example.org",), (), "https://example.org/", True),
        (("*.example.org",), (), "https://badexample.org/", False),
        (("example.org",), (), A, False),
        ((), ("a.example.org",), A, False),
        (("*.example.org",), ("A.Example.org",), A, False),
        ((), ("127.0.0.1",), "http://127.0.0.1:8080/", False),
        ((), ("a.example.org",), "https://a.example.org./", False),
        ((), ("a.example.org.",), A, False),
        ((), ("*.bücher.example",), "https://www.bücher.example/", False),
        (("xn--bcher-kva.example",), (), "https://BÜCHER.example/", True),
        ((), ("2001:DB8:0::1",), "http://[2001:db8::1]/", False),
    ],
)
def test_hosts_are_allowed_and_refused_by_name(
    allow: tuple[str, ...], deny: tuple[str, ...], url: str, allowed: bool
) -> None:
    hosts = HostRules(ChannelSettings(allow_hosts=allow, deny_hosts=deny))
    if allowed:
        hosts.check(canonical(url))
    else:
        with pytest.raises(ChannelRefused):
            hosts.check(canonical(url))


def delta(version: int) -> Delta:
    return Delta(A, version, version - 1, version, "html", "A", (Change(0, (), (f"line {version}",)),))


@pytest.mark.parametrize("kept", [True, False])
def test_everything_comes_back_from_the_store(tmp_path: Path, kept: bool) -> None:
    path = tmp_path / "channels.sqlite" if kept else None
    store = ChannelStore(path)
    known = ChannelFacts(since_us=5, title="A", counts=PollCounts(polls=2, same=2))
    rules, state = Rules(css=("main",)), VersionsState(version=7, lines=("one", "two"))
    person = ChannelSubscription("feed:ann", A, policy="newest", paused=True, since_us=9)
    store.write(
        [
            sql.put_channel(A, known),
            sql.put_version(A, rules, squeezed(state)),
            sql.put_subscription(person),
            *(sql.put_delta(delta(number)) for number in range(1, 6)),
        ]
    )
    store.write([row for number in range(1, 5) for row in sql.told(delta(number), history=2)])
    if kept:
        store.close()
        store = ChannelStore(path)
    assert list(store.channels()) == [(A, known)]
    assert list(store.subscriptions()) == [person]
    assert store.version(A, rules) == squeezed(state)
    assert store.version(A, Rules()) is None  # read by other rules
    assert store.untold() == [delta(5)]
    assert store.deltas(A, most=10) == [delta(5), delta(4)]
    store.write([sql.end_subscription("feed:ann", A), *sql.end_channel(A)])
    assert (list(store.channels()), store.deltas(A, most=10), store.untold()) == ([], [], [])
    store.close()


def test_a_change_that_was_not_told_is_never_trimmed() -> None:
    store = ChannelStore(None)
    store.write([sql.put_delta(delta(number)) for number in range(1, 10)])
    store.write(sql.told(delta(9), history=1))
    assert [each.version for each in store.untold()] == list(range(1, 9))
    store.close()


def test_a_damaged_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "channels.sqlite"
    ChannelStore(path).close()
    raw = sqlite3.connect(path)
    raw.execute("INSERT INTO channel VALUES (?, ?)", (A, b"\xc1"))
    raw.execute("INSERT INTO delta VALUES (?, 1, 0, ?)", (A, b"no zlib"))
    raw.commit()
    raw.close()
    store = ChannelStore(path)
    for ask in (lambda: list(store.channels()), store.untold):
        with pytest.raises(StoreError, match="damaged"):
            ask()
    store.close()


def test_counts_add_up() -> None:
    one = PollCounts(polls=6, first=1, same=1, changes=1, noise=1, errors=1, looking=1, bytes=9)
    assert one.balanced
    assert (one + one) == PollCounts(
        polls=12, first=2, same=2, changes=2, noise=2, errors=2, looking=2, bytes=18
    )
    assert not PollCounts(polls=1).balanced
