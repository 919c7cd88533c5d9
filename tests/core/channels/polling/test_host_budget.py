"""A registrable domain is never asked for more than its budget, and for less once it complains."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.channels.address import registrable
from penstock.core.channels.polling import FetchOutcome, HostBudget, Manners
from penstock.core.channels.polling.host_budget import LEAST_SHARE

S = 1_000_000
HOUR = 3_600 * S
NOW = 1_700_000_000 * S
BUSY = FetchOutcome(status=429)


def greedy(manners: Manners, answers: list[int], *, size: int = 0) -> list[int]:
    """When fetches begin, if they begin whenever the budget lets them."""
    budget, now_us, began = HostBudget("example.org"), NOW, []
    for status in answers:
        hold = budget.hold(manners=manners, now_us=now_us)
        if hold is not None:
            assert hold.until_us > now_us
            now_us = hold.until_us
            assert budget.hold(manners=manners, now_us=now_us) is None
        began.append(now_us)
        budget = budget.spent(manners=manners, now_us=now_us)
        budget = budget.weighed(size, manners=manners, now_us=now_us)
        budget = budget.told(FetchOutcome(status=status), manners=manners, now_us=now_us)
    return began


def most_in_an_hour(began: list[int]) -> int:
    return max(sum(start <= at < start + HOUR for at in began) for start in began)


@given(st.integers(1, 200), st.lists(st.sampled_from([200, 304, 429, 500]), min_size=300, max_size=300))
def test_never_more_than_the_budget_in_any_hour(polls: int, answers: list[int]) -> None:
    began = greedy(Manners(host_polls=polls), answers)
    assert most_in_an_hour(began) <= polls


def test_the_budget_is_used_when_it_is_wanted() -> None:
    began = greedy(Manners(host_polls=100), [200] * 400)
    assert most_in_an_hour(began) == 100
    assert began[-1] - began[0] < 4.4 * HOUR  # nine tenths of it, and a burst


def test_bytes_have_a_budget_of_their_own() -> None:
    began = greedy(Manners(host_polls=10**6, host_bytes=1_000_000), [200] * 100, size=50_000)
    assert most_in_an_hour(began) <= 21  # the page that crosses the line is the last
    assert began[-1] - began[0] < 6 * HOUR


def test_a_429_halves_the_budget_once_for_those_under_way_and_it_comes_back_slowly() -> None:
    manners = Manners()
    budget = HostBudget("example.org")
    for _ in range(5):
        budget = budget.told(BUSY, manners=manners, now_us=NOW)
    assert budget.share_at(NOW) == 0.5
    assert budget.share_at(NOW + 5 * HOUR) == 0.75
    assert budget.share_at(NOW + 10 * HOUR) == 1
    for number in range(100):
        budget = budget.told(BUSY, manners=manners, now_us=NOW + number * 61 * S)
    assert budget.share_at(NOW + 100 * 61 * S) < 2 * LEAST_SHARE


def test_retry_after_of_a_429_holds_the_whole_domain() -> None:
    manners = Manners()
    told = FetchOutcome(status=429, headers={"retry-after": "600"})
    budget = HostBudget("example.org").told(told, manners=manners, now_us=NOW)
    hold = budget.hold(manners=manners, now_us=NOW)
    assert hold is not None
    assert hold.until_us == NOW + 600 * S
    assert hold.hard
    assert "example.org" in hold.reason


def test_crawl_delay_spaces_fetches() -> None:
    began = greedy(Manners(), [200] * 3)
    assert began[2] == began[0]
    budget = HostBudget("example.org", spacing_us=10 * S).spent(manners=Manners(), now_us=NOW)
    hold = budget.hold(manners=Manners(), now_us=NOW)
    assert hold is not None
    assert hold.until_us == NOW + 10 * S


def test_an_idle_domain_can_be_forgotten() -> None:
    manners = Manners()
    budget = HostBudget("example.org").spent(manners=manners, now_us=NOW)
    assert not budget.idle(NOW)
    assert budget.idle(NOW + HOUR)
    assert not budget.told(BUSY, manners=manners, now_us=NOW).idle(NOW + HOUR)
    spaced = HostBudget("example.org", spacing_us=10 * S).spent(manners=manners, now_us=NOW)
    assert not spaced.idle(NOW + 24 * HOUR)  # its robots.txt may not have been read again
    assert spaced.idle(NOW + 26 * HOUR)


def test_a_budget_of_a_clock_that_was_wrong_holds_nobody_for_years() -> None:
    manners = Manners()
    told = FetchOutcome(status=429, headers={"retry-after": "600"})
    budget = (
        HostBudget("example.org").spent(manners=manners, now_us=NOW).told(told, manners=manners, now_us=NOW)
    )
    assert budget.settled(NOW + 1) == budget
    before = budget.settled(NOW - 10_000 * HOUR)
    hold = before.hold(manners=manners, now_us=NOW - 10_000 * HOUR)
    assert hold is not None
    assert hold.until_us == NOW - 10_000 * HOUR + 600 * S
    damaged = HostBudget("example.org", not_before_us=NOW + 10_000 * HOUR)
    assert damaged.settled(NOW) == HostBudget("example.org")


def test_who_is_one_service() -> None:
    assert registrable("https://a.b.example.co.uk/x") == "example.co.uk"
    assert registrable("https://one.github.io/") == "one.github.io"
    assert registrable("https://one.tumblr.com/") == registrable("https://two.tumblr.com/")
    assert registrable("http://192.0.2.1:8080/") == "192.0.2.1"
    assert registrable("http://[2001:db8::1]/") == "2001:db8::1"
    assert registrable("http://localhost/") == "localhost"
