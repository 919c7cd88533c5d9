"""Lists of changedetection.io: backups, answers of its API, single watches, and what is none of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.channels.difference import rules_of
from penstock.core.channels.watch_list import read_watches
from penstock.errors import ChannelError

BACKUP = {
    "note": "Hello!",
    "settings": {"application": {"tags": {"t-1": {"title": "Shops"}, "t-2": {"no": "title"}}}},
    "watching": {
        "one": {
            "url": " https://example.org/prices ",
            "tags": ["t-1", "own"],
            "include_filters": [".price", "xpath://h1", "//p[1]", "json:$.a", "jq:.a"],
            "subtractive_selectors": ["nav", "xpath:/html/body/footer"],
            "ignore_text": ["Stand: (heute)", "/visitors: \\d+/i"],
            "time_between_check": {"weeks": None, "hours": 2, "minutes": 30},
            "time_between_check_use_default": False,
            "paused": True,
            "fetch_backend": "html_webdriver",
        },
        "two": {
            "url": "https://example.org/news",
            "time_between_check_use_default": True,
            "time_between_check": {"hours": 1},
        },
        "again": {"url": "https://example.org/news", "tag": "twice"},
        "none": {"title": "without a URL"},
    },
}


def read(found: Any) -> Any:
    return read_watches(json.dumps(found).encode())


def test_a_backup_is_read_with_everything_that_has_an_equal() -> None:
    prices, news = read(BACKUP)
    assert prices.url == "https://example.org/prices"
    assert prices.tags == ("Shops", "own")
    assert prices.rules == {
        "css": [".price"],
        "xpath": ["//h1", "//p[1]"],
        "jsonpath": ["$.a"],
        "exclude_css": ["nav"],
        "exclude_xpath": ["/html/body/footer"],
        "ignore": ["(?i)Stand:\\ \\(heute\\)", "(?i)visitors: \\d+"],
    }
    assert (prices.every_s, prices.paused) == (9_000.0, True)
    assert [sentence for sentence in prices.left_out if "jq" in sentence]
    assert [sentence for sentence in prices.left_out if "scripts" in sentence]
    assert (news.url, news.tags, news.rules, news.every_s) == ("https://example.org/news", (), {}, 0.0)
    rules_of(prices.rules)  # what was read can be used


@pytest.mark.parametrize(
    "found",
    [
        {"a-uuid": {"url": "https://example.org/", "title": "x", "last_changed": 0}},
        {"url": "https://example.org/", "tag": "a, b"},
        [{"url": "https://example.org/"}, "noise", 7],
    ],
)
def test_answers_of_the_api_and_single_watches_are_read(found: Any) -> None:
    assert [watch.url for watch in read(found)] == ["https://example.org/"]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b"7", b'{"watching": 1}', b"\xff", b"[" * 100_000])
def test_what_is_no_list_is_refused(data: bytes) -> None:
    with pytest.raises(ChannelError, match="list"):
        read_watches(data)


def test_a_list_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WATCH_LIST_PAGES", 2)
    with pytest.raises(ChannelError, match="more than 2 pages"):
        read([{"url": f"https://example.org/{number}"} for number in range(3)])
    monkeypatch.setattr(limits, "WATCH_LIST_BYTES", 10)
    with pytest.raises(ChannelError, match="at most 10"):
        read([{"url": "https://example.org/"}])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "url",
                    "tags",
                    "watching",
                    "include_filters",
                    "time_between_check",
                    "hours",
                    "settings",
                    "application",
                    "title",
                    "ignore_text",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_json_is_read_or_refused(found: Any) -> None:
    try:
        watches = read(found)
    except ChannelError:
        return
    for watch in watches:
        assert watch.url
        assert 0 <= watch.every_s <= limits.WATCH_LONGEST_S
