"""robots.txt: its rules, its absence, its errors, and for whom it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.channels.polling import (
    Fetch,
    FetchOutcome,
    HostBudget,
    Manners,
    PollState,
    Wait,
    decide,
    plan,
)
from penstock.core.channels.polling import robots as rules

if TYPE_CHECKING:
    from penstock.core.channels.polling.robots import RobotsFile

S = 1_000_000
DAY = 86_400 * S
NOW = 1_700_000_000 * S
MANNERS = Manners()
PAGE = "https://example.org/page"


def read(status: int, body: bytes = b"", before: RobotsFile | None = None, **more: object) -> RobotsFile:
    outcome = FetchOutcome(status=status, **more)  # type: ignore[arg-type]
    return rules.read(outcome, body, url=PAGE, before=before, manners=MANNERS, now_us=NOW)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        (b"", True),
        (b"User-agent: *\nDisallow: /", False),
        (b"\xef\xbb\xbfUser-agent: *\nDisallow: /", False),
        (b"User-agent: *\nDisallow: /\nAllow: /page", True),
        (b"User-agent: *\nDisallow: /pa*e$", False),
        (b"User-agent: *\nDisallow: /\n\nUser-agent: penstock\nAllow: /", True),
        (b"User-agent: Penstock\nDisallow: /", False),
        (b"User-agent: OtherBot\nDisallow: /", True),
        (b"User-agent: Penstock/0.1\nDisallow: /", False),
        (b"User-agent: Penstock/0.1 # us\nAllow: /page\nDisallow: /\n\nUser-agent: *\nDisallow: /", True),
        (b"User-agent: Other\nUser-agent: PENSTOCK 2\nUser-agent: More\nDisallow: /", False),
        (b"User-agent: Penstock\n\n# a line between\nDisallow: /", False),
        (b"User-agent: Other\nDisallow: /\nUser-agent: Penstock\nDisallow: /private", True),
        (b"<!doctype html><title>Not found</title>", True),
        (b"\xff\xfe\x00 nonsense \x00", True),
        (b"#" * limits.ROBOTS_BYTES + b"\nUser-agent: *\nDisallow: /", True),
    ],
)
def test_rules(text: bytes, allowed: bool) -> None:
    verdict = read(200, text).verdict(PAGE)
    assert verdict.allowed == allowed
    assert verdict.until_us == NOW + DAY
    assert bool(verdict.reason) != allowed


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_a_robots_file_that_is_not_there_allows_everything(status: int) -> None:
    assert read(status).verdict(PAGE).allowed


@pytest.mark.parametrize("status", [429, 500, 503, 0, 301])
def test_one_that_cannot_be_had_forbids_everything_for_a_while(status: int) -> None:
    verdict = read(status, error="" if status else "No answer.").verdict(PAGE)
    assert not verdict.allowed
    assert verdict.until_us == NOW + (3_600 if status else 300) * S
    assert "cannot be read" in verdict.reason


def test_while_it_cannot_be_had_the_old_one_counts() -> None:
    old = read(200, b"User-agent: *\nDisallow: /private")
    kept = read(503, before=old, headers={"retry-after": "7200"})
    assert kept.verdict(PAGE).allowed
    assert not kept.verdict("https://example.org/private").allowed
    assert kept.until_us == NOW + 7_200 * S
    assert not read(500, before=read(500)).verdict(PAGE).allowed


@pytest.mark.parametrize(("status", "first_s"), [(0, 300), (503, 3_600)])
def test_the_pauses_grow_while_it_cannot_be_had(status: int, first_s: int) -> None:
    found, pauses = None, []
    for _ in range(10):
        outcome = FetchOutcome(status=status, error="" if status else "No answer.")
        failures = found.failures if found is not None else 0
        found = rules.read(
            outcome, b"", url=PAGE, before=found, manners=MANNERS, now_us=NOW, failures=failures
        )
        pauses.append((found.until_us - NOW) // S)
    assert pauses[:4] == [first_s, 2 * first_s, 4 * first_s, 8 * first_s]
    assert pauses[-1] == MANNERS.error_most_us // S
    assert found is not None
    assert found.verdict(PAGE).failures == 10  # so they go on growing after a restart
    assert read(200, before=found).failures == 0


def test_so_many_rules_count_and_only_of_the_groups_for_us() -> None:
    others = b"".join(b"User-agent: Bot%d\nDisallow: /%d\n" % (n, n) for n in range(limits.ROBOTS_RULES))
    rest = b"\n".join(b"Disallow: /" + b"*a" * 20 + b"*%d" % n for n in range(limits.ROBOTS_RULES - 1))
    body = others + b"User-agent: *\n" + rest + b"\nDisallow: /page\nDisallow: /late\n"
    assert len(body) < limits.ROBOTS_BYTES
    assert not read(200, body).verdict(PAGE).allowed
    assert read(200, body).verdict("https://example.org/late").allowed


def test_crawl_delay_is_kept_to_within_a_bound() -> None:
    assert read(200, b"User-agent: *\nCrawl-delay: 10").spacing_us == 10 * S
    assert read(200, b"User-agent: *\nCrawl-delay: 1e99").spacing_us == limits.CRAWL_DELAY_US
    assert read(200, b"User-agent: *\nCrawl-delay: nan").spacing_us == 0


@given(st.binary(max_size=300))
def test_any_bytes_are_a_robots_file(body: bytes) -> None:
    verdict = read(200, b"User-agent: *\n" + body).verdict(PAGE)
    assert verdict.allowed or verdict.reason


@pytest.mark.parametrize(
    ("setting", "feed", "url", "asked"),
    [
        ("pages", None, PAGE, True),
        ("pages", None, "https://example.org/feeds/videos.xml?channel=1", False),
        ("pages", True, PAGE, False),
        ("pages", False, "https://example.org/feed", True),
        ("all", True, PAGE, True),
        ("off", False, PAGE, False),
    ],
)
def test_for_whom_it_counts(setting: str, feed: bool | None, url: str, asked: bool) -> None:
    manners = Manners(robots=setting)  # type: ignore[arg-type]
    one = plan(url, interval_us=900 * S, manners=manners)
    host = HostBudget("example.org")
    intent = decide(PollState(feed=feed), one, host=host, manners=manners, now_us=NOW)
    assert isinstance(intent, Fetch)
    assert intent.robots == asked
    assert intent.url == ("https://example.org/robots.txt" if asked else url)


def test_a_forbidden_page_waits_even_when_asked_for_and_is_asked_about_again_after_a_day() -> None:
    one = plan(PAGE, interval_us=900 * S, manners=MANNERS)
    host = HostBudget("example.org")
    state = PollState(robots=read(200, b"User-agent: *\nDisallow: /").verdict(PAGE))
    for asked in (False, True):
        intent = decide(state, one, host=host, manners=MANNERS, now_us=NOW, asked=asked)
        assert isinstance(intent, Wait)
        assert "does not allow Penstock" in intent.reason
    later = decide(state, one, host=host, manners=MANNERS, now_us=NOW + DAY)
    assert isinstance(later, Fetch)
    assert later.robots


def test_a_page_that_moved_is_asked_about_at_its_new_host() -> None:
    one = plan(PAGE, interval_us=900 * S, manners=MANNERS)
    moved = "https://example.net:8443/page"
    state = PollState(moved=moved, robots=read(200).verdict(PAGE))
    intent = decide(state, one, host=HostBudget("example.net"), manners=MANNERS, now_us=NOW)
    assert isinstance(intent, Fetch)
    assert intent.url == "https://example.net:8443/robots.txt"
