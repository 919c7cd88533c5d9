"""Whatever servers answer: never too early, never a storm, never for ever; and always a sentence."""

from __future__ import annotations

import itertools

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.channels.polling import (
    Fetch,
    FetchOutcome,
    HostBudget,
    Manners,
    PollState,
    RedirectHop,
    Wait,
    decide,
    learn,
    plan,
    robots,
    take_hints,
    why,
)
from penstock.core.channels.polling.http_rules import asked_us
from tests.kit.http_headers import Said

S = 1_000_000
HOUR = 3_600 * S
NOW = 1_770_114_030 * S
URL = "https://example.org/page"
MANNERS = Manners(least_us=30 * S, host_polls=100)

texts = st.one_of(st.integers(-10, 10**12).map(str), st.text(max_size=20))
dates = st.sampled_from(["Tue, 03 Feb 2026 11:00:00 GMT", "Fri, 01 Jan 2123 00:00:00 GMT", "0", "soon"])
headers = st.fixed_dictionaries(
    {},
    optional={
        "retry-after": st.one_of(texts, dates),
        "cache-control": st.one_of(st.just("no-store"), texts.map("max-age={}".format)),
        "expires": dates,
        "date": dates,
        "etag": texts,
        "last-modified": dates,
        "content-type": st.sampled_from(["text/html", "application/rss+xml", "?"]),
    },
)
hops = st.lists(
    st.builds(
        RedirectHop, st.sampled_from([301, 302, 307, 308]), st.sampled_from([URL, URL + "/2", "nonsense"])
    ),
    max_size=3,
).map(tuple)
outcomes = st.builds(
    FetchOutcome,
    status=st.sampled_from([0, 200, 204, 226, 301, 304, 403, 404, 410, 429, 500, 503]),
    headers=headers,
    url=st.just(URL),
    hops=hops,
    error=st.sampled_from(["", "", "", "It failed."]),
    conditional=st.booleans(),
)
hints = st.builds(
    Said,
    ttl_s=st.one_of(st.none(), st.integers(-10, 10**9)),
    skip_hours=st.lists(st.integers(-1, 25), max_size=24).map(tuple),
    skip_days=st.lists(st.integers(-1, 7), max_size=7).map(tuple),
)
steps = st.lists(st.tuples(outcomes, st.one_of(st.none(), hints), st.booleans()), min_size=1, max_size=60)


@given(steps, st.integers(1, 10**12), st.sampled_from(["pages", "all", "off"]))
def test_no_server_is_asked_too_early_or_too_often_and_none_is_forgotten(
    answers: list[tuple[FetchOutcome, Said | None, bool]], interval_us: int, obeyed: str
) -> None:
    manners = msgspec.structs.replace(MANNERS, robots=obeyed)
    one = plan(URL, interval_us=interval_us, manners=manners)
    state, host, now_us = PollState(), HostBudget("example.org"), NOW
    began: list[int] = []
    left_alone_until_us = 0
    for outcome, said, asked in answers:
        for _ in range(40):
            intent = decide(state, one, host=host, manners=manners, now_us=now_us, asked=asked)
            assert intent.reason.endswith(".")
            if isinstance(intent, Wait):
                assert now_us < intent.until_us <= now_us + limits.POLL_LATEST_US
                now_us = intent.until_us
            elif intent.robots:
                file = robots.read(outcome, b"", url=URL, before=None, manners=manners, now_us=now_us)
                state = msgspec.structs.replace(state, robots=file.verdict(state.moved or URL))
                assert file.until_us > now_us
                outcome = FetchOutcome(status=404)  # noqa: PLW2901  # it is there next time
            else:
                break
        assert isinstance(intent, Fetch), "it waits for ever"
        assert now_us >= left_alone_until_us
        began.append(now_us)
        host = host.spent(manners=manners, now_us=now_us)
        state = learn(state, outcome, url=URL, manners=manners, now_us=now_us)
        host = host.told(outcome, manners=manners, now_us=now_us)
        left_alone_until_us = asked_us(outcome, manners=manners, now_us=now_us)
        if said is not None:
            state = take_hints(state, said)
        assert msgspec.json.decode(msgspec.json.encode(state), type=PollState) == state
    assert all(after - before >= manners.least_us for before, after in itertools.pairwise(began))
    assert all(sum(at <= other < at + HOUR for other in began) <= manners.host_polls for at in began)


def test_why_says_everything_that_counts_what_decides_first() -> None:
    one = plan(URL, interval_us=S, manners=MANNERS)
    outcome = FetchOutcome(
        status=503,
        headers={"retry-after": "7200", "etag": '"1"'},
        url=URL + "/2",
        hops=(RedirectHop(301, URL + "/2"),),
    )
    good = FetchOutcome(status=200, headers={"etag": '"1"'}, url=URL + "/2", hops=outcome.hops)
    state = learn(PollState(), good, url=URL, manners=MANNERS, now_us=NOW)
    state = learn(state, outcome, url=URL, manners=MANNERS, now_us=NOW)
    host = HostBudget("example.org").told(FetchOutcome(status=429), manners=MANNERS, now_us=NOW)
    for _ in range(20):
        host = host.spent(manners=MANNERS, now_us=NOW)
    lines = why(state, one, host=host, manners=MANNERS, now_us=NOW).splitlines()
    assert lines[0].startswith("It is polled next at 2026-02-03 12:20:30 UTC, in 2 h")
    assert "Retry-After" in lines[1]
    text = " ".join(lines)
    for said in ("failed once", "503", "every 30 s", "bounds make that", "moved for good", "ETag", "50%"):
        assert said in text, said


def test_why_of_a_channel_that_is_new() -> None:
    one = plan(URL, interval_us=900 * S, manners=MANNERS)
    text = why(PollState(), one, host=HostBudget("example.org"), manners=MANNERS, now_us=NOW)
    assert text.splitlines() == ["It is polled as soon as a fetch is free.", "It has not been fetched yet."]


def test_a_good_answer_is_followed_by_a_turn_at_the_interval() -> None:
    one = plan(URL, interval_us=900 * S, manners=MANNERS)
    host = HostBudget("example.org")
    state = learn(PollState(), FetchOutcome(status=200, url=URL), url=URL, manners=MANNERS, now_us=NOW)
    intent = decide(state, one, host=host, manners=MANNERS, now_us=NOW)
    assert isinstance(intent, Wait)
    assert NOW + 450 * S <= intent.until_us < NOW + 1_350 * S
    assert intent.reason == "It is polled every 15 min, and its turn comes then."
