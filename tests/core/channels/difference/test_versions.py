"""News and noise are told apart, versions are numbered, and a delta gives the new content."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.channels.delta import Change, Delta, apply, crc_of
from penstock.core.channels.difference import (
    Content,
    Rules,
    Versions,
    VersionsState,
    from_json,
    html_of,
    read,
    rules_of,
    text_of,
    to_json,
)
from penstock.errors import ChannelError

URL = "https://x.example/"
NOW = 1_778_580_000_000_000
"""12 May 2026, 10:00 UTC."""
MINUTE = 60_000_000


def content(*lines: str, kind: str = "text", places: tuple[str, ...] = (), **more: object) -> Content:
    return Content(kind, lines, places or ("",) * len(lines), **more)  # type: ignore[arg-type]


def watched(*lines: str, **rules: object) -> Versions:
    versions = Versions(URL, Rules(**rules).check())  # type: ignore[arg-type]
    versions.receive(content(*lines), now_us=NOW)
    return versions


def test_the_first_version_comes_from_nothing() -> None:
    versions = Versions(URL, Rules())
    assert (versions.version, versions.lines) == (0, ())
    delta = versions.receive(content("a", "b"), now_us=NOW)
    assert delta == Delta(URL, NOW, 0, NOW, "text", "", (Change(0, (), ("a", "b")),), old_crc=crc_of(()))
    assert (versions.version, versions.lines) == (NOW, ("a", "b"))
    assert versions.receive(content("a", "b"), now_us=NOW + 1) is None


words = st.sampled_from(
    ["a", "b", "c", "12 views", "13 views", "5 minutes ago", "10:00:03", "12 May 2026", "x 7"]
)
documents = st.lists(words, max_size=12)


@given(
    st.lists(documents, min_size=2, max_size=6),
    st.builds(Rules, only_additions=st.booleans(), compare_last=st.integers(1, 4)),
    st.booleans(),
)
def test_a_delta_applied_to_the_old_version_gives_the_new_one(
    pages: list[list[str]], rules: Rules, learn: bool
) -> None:
    versions = Versions(URL, rules)
    last = 0
    for number, page in enumerate(pages):
        places = tuple(f"p{len(line)}" for line in page)
        before = versions.lines
        beside = None
        if learn and number:
            beside = content(*pages[number - 1], places=("p",) * len(pages[number - 1]))
        shown = content(*page, places=places)
        look = versions.look(shown, beside=beside, alone=True, now_us=NOW + number * 10 * MINUTE)
        delta = look.delta
        if delta is None:
            assert versions.lines == before
            continue
        assert tuple(apply(delta, before)) == versions.lines
        assert (delta.version, delta.old_version) == (versions.version, last)
        assert delta.version > last
        last = delta.version
        assert from_json(to_json(delta)) == delta
        # What is kept can be stored and taken up again.
        state = msgspec.msgpack.decode(msgspec.msgpack.encode(versions.state()), type=VersionsState)
        assert state == versions.state()
        versions = Versions(URL, rules, state=state)


@given(documents, documents)
def test_without_noise_rules_the_new_version_is_the_page(old: list[str], new: list[str]) -> None:
    versions = Versions(URL, Rules(noise=()))
    versions.receive(content(*old), now_us=NOW)
    versions.receive(content(*new), now_us=NOW)
    assert versions.lines == tuple(new)


@given(documents, documents)
def test_another_node_takes_deltas_and_ignores_redundant_ones(old: list[str], new: list[str]) -> None:
    here, there = Versions(URL, Rules()), Versions(URL, Rules())
    for page in (old, new, old):
        delta = here.receive(content(*page), now_us=NOW)
        if delta is not None:
            assert there.accept(delta)
            same = msgspec.structs.replace(delta, version=delta.version + 7)  # found by a third node
            assert not there.accept(delta)
            assert not there.accept(same)
        assert there.lines == here.lines


def test_a_delta_that_does_not_fit_is_refused() -> None:
    here, there = watched("a"), watched("b")
    delta = here.receive(content("a", "c"), now_us=NOW + 1)
    assert delta is not None
    with pytest.raises(ChannelError, match="does not apply"):
        there.accept(delta)
    stranger = Versions(URL, Rules(), state=msgspec.structs.replace(there.state(), version=5))
    with pytest.raises(ChannelError, match=f"belongs to version {NOW}, here is 5"):
        stranger.accept(delta)


@pytest.mark.parametrize(
    ("modified_us", "version"),
    [(NOW + 5, NOW + 5), (NOW, NOW + 10), (NOW + 11, NOW + 10), (None, NOW + 10), (7, NOW + 10)],
)
def test_versions_are_modification_times_where_these_can_be_relied_on(
    modified_us: int | None, version: int
) -> None:
    versions = watched("a")
    delta = versions.receive(content("b", modified_us=modified_us), now_us=NOW + 10)
    assert delta is not None
    assert delta.version == version
    again = versions.receive(content("c"), now_us=3)
    assert again is not None
    assert again.version == version + 1


HOUR = 60 * MINUTE
CLOCKS = [
    ("Last updated: 12 May 2026 09:58", "Last updated: 12 May 2026 10:58", HOUR),
    ("Stand: 11.05.2026", "Stand: 12.05.2026", 20 * HOUR),
    ("Monday, 11 May 2026", "Tuesday, 12 May 2026", 20 * HOUR),
    ("Generated 2026-05-12T09:58:01Z", "Generated 2026-05-12T10:58:01Z", HOUR),
    ("May 11, 2026", "May 12, 2026", 20 * HOUR),
    ("05/11/2026", "05/12/2026", 20 * HOUR),
    ("now 1778579000", "now 1778582600", HOUR),
    ("09:30:05", "10:30:05", HOUR),
    ("Ann, 5 minutes ago", "Ann, 1 hour ago", HOUR),
    ("Bob, just now", "Bob, an hour ago", HOUR),
    ("vor 3 Stunden", "vor 4 Stunden", HOUR),
    ("hace 23 horas", "hace 1 día", HOUR),
    ("3 時間前", "4 時間前", HOUR),
    ("Offer ends in 13:12:03", "Offer ends in 12:12:03", HOUR),
]
"""Lines that say the same an hour or a day later."""
MOVING = [
    ("1,234 views", "1,301 views", "1,302 views"),
    ("Visitors: 81200", "Visitors: 81201", "Visitors: 81207"),
    ("12 likes · 3 shares", "15 likes · 4 shares", "16 likes · 5 shares"),
    ("Session ID: 3fa9c1d2e4", "Session ID: 77aa01bc9d", "Session ID: 0011223344"),
    ("id 7d1f2c3a-1111", "id 00000000-1111", "id 8a8a8a8a-1111"),
]
"""Numbers that moved at two looks in a row."""
NEWS = [
    ("Concert: 3 June 2026", "Concert: 4 June 2026"),
    ("Doors open at 09:00", "Doors open at 10:30"),
    ("EUR 12.50", "EUR 12.60"),
    ("12 killed", "13 killed"),
    ("Version 4.7.1", "Version 4.7.2"),
    ("SHA-256 9f86d081884c7d65", "SHA-256 1b4f0e9851971998"),
    ("Winner in 2:03:59", "Winner in 2:14:01"),
    ("Founded 1920", "Founded 1921"),
    ("Tel. 555 0142", "Tel. 555 0143"),
    ("Score 2:1", "Score 2:2"),
    ("Smith 1,204 votes", "Smith 1,377 votes"),
    ("Rovers 45 points", "Rovers 48 points"),
    ("3 comments by Ann", "3 comments by Bob"),
    ("Ann, 5 minutes ago: yes", "Ann, 6 minutes ago: no"),
    ("Meeting on 18 February at 19:00", "Meeting on 18 February at 09:30"),
    ("Deadline 17 February", "Deadline 19 February"),
    ("Release 3.2.1, downloads", "Release 3.2.2, downloads"),
    ("12 views", "13 views"),
    ("Delivery in 2 days", "Delivery in 3 days"),
    ("Guarantee: 2 years", "Guarantee: 3 years"),
]


@pytest.mark.parametrize(("old", "new", "later_us"), CLOCKS)
def test_what_moved_by_the_time_that_passed_is_no_news(old: str, new: str, later_us: int) -> None:
    versions = watched("a", old, "b")
    assert versions.receive(content("a", new, "b"), now_us=NOW + later_us) is None
    assert versions.lines == ("a", old, "b")
    loud = watched("a", old, "b", noise=())
    assert loud.receive(content("a", new, "b"), now_us=NOW + later_us) is not None


@pytest.mark.parametrize(("one", "two", "three"), MOVING)
def test_a_number_that_moves_again_is_no_news_any_more(one: str, two: str, three: str) -> None:
    versions = watched("a", one, "b")
    assert versions.receive(content("a", two, "b"), now_us=NOW + HOUR) is not None
    assert versions.receive(content("a", three, "b"), now_us=NOW + 2 * HOUR) is None
    loud = watched("a", one, "b", noise=())
    for number, line in enumerate((two, three), 1):
        assert loud.receive(content("a", line, "b"), now_us=NOW + number * HOUR) is not None


@pytest.mark.parametrize("minute", range(60))
def test_a_race_time_is_news_at_any_minute_of_the_hour(minute: int) -> None:
    then_us = NOW + minute * MINUTE
    versions = Versions(URL, Rules())
    versions.receive(content("Winner in 2:03:59"), now_us=then_us)
    assert versions.receive(content("Winner in 2:14:01"), now_us=then_us + 15 * MINUTE) is not None


@pytest.mark.parametrize("hour", range(24))
def test_an_appointment_of_tomorrow_that_is_moved_is_news(hour: int) -> None:
    eve_us = 1_771_286_400_000_000 + hour * HOUR  # 17 February 2026
    old = ("Meeting on 18 February at 19:00", "Deadline 17 February")
    new = ("Meeting on 18 February at 09:30", "Deadline 19 February")
    versions = Versions(URL, Rules())
    versions.receive(content(*old), now_us=eve_us)
    delta = versions.receive(content(*new), now_us=eve_us + 15 * MINUTE)
    assert delta is not None
    assert delta.changes == (Change(0, old, new),)


@pytest.mark.parametrize(("old", "new"), NEWS)
def test_news_is_no_noise(old: str, new: str) -> None:
    versions = watched("a", old, "b")
    delta = versions.receive(content("a", new, "b"), now_us=NOW + MINUTE)
    assert delta is not None
    assert delta.changes == (Change(1, (old,), (new,)),)


def test_noise_beside_news_keeps_its_old_wording() -> None:
    versions = watched("10:00:00", "a", "5 minutes ago")
    delta = versions.receive(content("10:04:00", "b", "9 minutes ago"), now_us=NOW + 4 * MINUTE)
    assert delta is not None
    assert delta.changes == (Change(1, ("a",), ("b",)),)
    assert versions.lines == ("10:00:00", "b", "5 minutes ago")


def test_only_additions_tells_what_comes_and_not_what_goes() -> None:
    versions = watched("a", "b", "c", only_additions=True)
    assert versions.receive(content("a", "c"), now_us=NOW + 1) is None
    assert versions.receive(content("a", "b", "c"), now_us=NOW + 2) is None
    delta = versions.receive(content("a", "new"), now_us=NOW + 3)
    assert delta is not None
    assert [line for change in delta.changes for line in change.new] == ["new"]


def test_only_additions_does_not_grow_for_ever() -> None:
    versions = watched("0", only_additions=True)
    for number in range(1, 400):
        versions.receive(content(str(number), "z"), now_us=NOW + number)
    assert len(versions.lines) < 210


def test_a_page_that_flaps_is_told_once() -> None:
    day = 48 * HOUR
    versions = watched("a", "x", compare_last=3)
    assert versions.receive(content("b", "x"), now_us=NOW + day) is not None
    assert versions.receive(content("a", "x"), now_us=NOW + 2 * day) is None
    assert versions.receive(content("c", "x"), now_us=NOW + 3 * day) is not None
    assert versions.receive(content("b", "x"), now_us=NOW + 4 * day) is None
    single = watched("a")
    single.receive(content("b"), now_us=NOW + day)
    assert single.receive(content("a"), now_us=NOW + 2 * day) is not None


def test_a_page_that_becomes_a_feed_is_told_whole() -> None:
    versions = watched("a")
    delta = versions.receive(content("t", kind="json"), now_us=NOW + 1)
    assert delta is not None
    assert delta.changes == (Change(0, ("a",), ("t",)),)


# -- feeds ---------------------------------------------------------------------------------------------------


def feed(*items: str, title: str = "T", text: str = "text") -> Content:
    body = "".join(
        f"<item><guid isPermaLink='false'>{own}</guid><title>{title} {own}</title><link>https://x.example/{own}</link>"
        f"<description>{text}</description></item>"
        for own in items
    )
    raw = f"<rss version='2.0'><channel><title>F</title>{body}</channel></rss>".encode()
    return read(raw, content_type="application/rss+xml", url=URL, rules=Rules())


def followed(*items: str, **rules: object) -> Versions:
    versions = Versions(URL, Rules(**rules))  # type: ignore[arg-type]
    versions.receive(feed(*items), now_us=NOW)
    return versions


def told(versions: Versions, found: Content) -> list[tuple[str, str]]:
    before = versions.lines
    delta = versions.receive(found, now_us=NOW + 1)
    if delta is None:
        return []
    assert tuple(apply(delta, before)) == versions.lines
    return [(item.kind, item.id) for item in delta.items]


def test_items_are_new_changed_or_gone() -> None:
    assert told(followed("c", "b", "a"), feed("d", "c", "b", "a")) == [("new", "d")]
    assert told(followed("c", "b", "a"), feed("c", "a")) == [("gone", "b")]
    assert told(followed("c", "b", "a"), feed("b", "a")) == [("gone", "c")]
    assert told(followed("b"), feed("b", text="other")) == [("changed", "b")]
    assert told(followed("b", "a"), feed("c", "b", "a", title="U")) == [
        ("new", "c"),
        ("changed", "b"),
        ("changed", "a"),
    ]


def test_a_window_that_moves_on_loses_nothing() -> None:
    assert told(followed("c", "b", "a"), feed("d", "c", "b")) == [("new", "d")]
    assert told(followed("a", "b", "c"), feed("b", "c", "d")) == [("new", "d")]
    assert told(followed("c", "b", "a"), feed("f", "e", "d")) == [("new", "f"), ("new", "e"), ("new", "d")]
    assert told(followed("c", "b", "a"), feed("c", "b")) == []
    assert told(followed("c", "b", "a"), feed()) == []


def test_an_item_that_comes_back_is_no_news() -> None:
    versions = followed("c", "b", "a")
    assert told(versions, feed("d", "c", "b")) == [("new", "d")]
    assert told(versions, feed("d", "c", "b", "a")) == []
    assert told(versions, feed("e", "d", "a")) == [("new", "e")]
    changed = followed("b", "a")
    told(changed, feed("c", "b"))
    assert told(changed, feed("d", "c", "b", "a", text="other"))[-1] == ("changed", "a")


def test_order_alone_is_no_news_and_counters_of_several_items_soon_are_none() -> None:
    assert told(followed("c", "b", "a"), feed("a", "c", "b")) == []
    versions = Versions(URL, Rules())
    versions.receive(feed("a", text="3 comments"), now_us=NOW)
    assert told(versions, feed("a", text="4 comments")) == [("changed", "a")]
    busy = Versions(URL, Rules())
    for count in range(6):
        shown = feed("a", "b", "c", "d", text=f"{count} comments")
        delta = busy.receive(shown, now_us=NOW + count * HOUR)
        assert (delta is None) == (count > 2), "several items count, so it is a counter"


def test_only_additions_of_a_feed_are_new_items() -> None:
    versions = followed("c", "b", "a", only_additions=True)
    assert told(versions, feed("c", "a")) == []
    assert told(versions, feed("c", "b", "a", text="other")) == []
    assert told(versions, feed("d", "c", text="other")) == [("new", "d")]


def test_what_is_remembered_of_a_feed_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEEN_ITEMS", 25)
    versions = followed("x")
    for number in range(6):
        told(versions, feed(*(f"{number}-{own}" for own in range(10))))
    assert list(versions.state().seen)[-1] == "4-9"
    assert len(versions.state().seen) == 25


def test_a_feed_goes_on_after_a_delta_of_another_node() -> None:
    here, there = followed("b", "a"), followed("b", "a")
    delta = here.receive(feed("c", "b", "a"), now_us=NOW + 1)
    assert delta is not None
    assert there.accept(delta)
    assert told(there, feed("c", "b", "a")) == []
    assert told(there, feed("d", "c", "b")) == [("new", "d")]


def test_other_rules_begin_anew_without_news() -> None:
    before = watched("a", "b")
    after = Versions(URL, Rules(ignore=("^b$",)), state=before.state())
    assert after.receive(content("a"), now_us=NOW + 1) is None
    assert after.lines == ("a",)
    assert after.version == NOW + 1
    same = Versions(URL, Rules(only_additions=True), state=before.state())
    assert same.receive(content("a", "b", "c"), now_us=NOW + 1) is not None


# -- for people and programs ---------------------------------------------------------------------------------


def test_a_delta_reads_as_text() -> None:
    versions = Versions(URL, Rules())
    versions.receive(content("one", "two <b>", "three", title="A page"), now_us=NOW)
    delta = versions.receive(content("one", "2 <b>", "three", "four", title="A page"), now_us=NOW + 1)
    assert delta is not None
    assert text_of(delta) == (
        "A page\nhttps://x.example/\nline 2, replaced:\n- two <b>\n+ 2 <b>\nline 4, added:\n+ four"
    )
    assert html_of(delta) == "<p><del>two</del> <ins>2</ins> &lt;b&gt;</p>\n<p><ins>four</ins></p>"


def test_items_read_as_text_and_markup_is_escaped() -> None:
    versions = followed("a")
    delta = versions.receive(feed("b", "a", text="&amp;lt;i&amp;gt;"), now_us=NOW + 1)
    assert delta is not None
    assert text_of(delta).splitlines() == [
        "F",
        "https://x.example/",
        "new: T b",
        "  https://x.example/b",
        "  <i>",
        "changed: T a",
        "  https://x.example/a",
        "  <i>",
    ]
    assert "<i>" not in html_of(delta)
    hidden = msgspec.structs.replace(delta, title="\x1b[31m", items=(), changes=(Change(0, (), ("\u202e",)),))
    assert text_of(hidden) == "\\x1b[31m\nhttps://x.example/\nline 1, added:\n+ \\u202e"


def test_long_lines_are_shown_where_they_differ() -> None:
    front, back = "front " * 200, " back" * 100
    versions = watched(front + "old" + back)
    delta = versions.receive(content(front + "new" + back), now_us=NOW + 1)
    assert delta is not None
    shown = text_of(delta)
    assert len(shown) < 500
    assert "front old back" in shown
    assert "front new back" in shown
    assert "<del>old</del> <ins>new</ins>" in html_of(delta)


@given(st.lists(st.text(max_size=400), max_size=30), st.lists(st.text(max_size=400), max_size=30))
def test_readable_forms_are_bounded_and_plain(old: list[str], new: list[str]) -> None:
    delta = Delta(URL, 2, 1, NOW, "text", "t", (Change(0, tuple(old), tuple(new)),))
    assert len(text_of(delta, most=500)) <= 500
    assert len(html_of(delta, most=500)) <= 500
    assert all(sign.isprintable() or sign == "\n" for sign in text_of(delta))


def test_a_message_carries_counts_for_policies_and_is_bounded() -> None:
    small = Delta(URL, 2, 1, NOW, "html", "T", (Change(0, ("a",), ("b", "c")),))
    found = msgspec.json.decode(to_json(small))
    assert {name: found[name] for name in ("url", "version", "kind", "added", "removed", "title", "cut")} == {
        "url": URL,
        "version": 2,
        "kind": "html",
        "added": 2,
        "removed": 1,
        "title": "T",
        "cut": False,
    }
    changes = tuple(Change(2 * number, (), ("x" * 1_000,)) for number in range(1_000))
    large = to_json(Delta(URL, 2, 1, NOW, "html", "T", changes))
    assert len(large) <= 1 << 18
    cut = from_json(large)
    assert cut.cut
    assert cut.changes == changes[: len(cut.changes)]
    assert msgspec.json.decode(large)["added"] == 1_000
    with pytest.raises(ChannelError, match="was shortened"):
        apply(cut, ["x"] * 2_000)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"url": 1}', b"\xff", b"{" * 10_000])
def test_what_is_no_delta_is_refused(body: bytes) -> None:
    with pytest.raises(ChannelError, match="not a delta"):
        from_json(body)


def test_rules_come_from_json() -> None:
    assert rules_of({"css": ["p"], "only_additions": True}) == Rules(css=("p",), only_additions=True)
    for raw, says in (
        ({"colour": 1}, "colour"),
        ({"css": "p"}, "css"),
        (3, "rules"),
        ({"ignore": ["("]}, "ignore"),
    ):
        with pytest.raises(ChannelError, match=says):
            rules_of(raw)


def history_of(versions: Versions, *pages: tuple[str, ...]) -> list[Delta]:
    """The deltas by which a page became these, newest first."""
    found = [
        versions.receive(content(*page), now_us=NOW + (number + 1) * 60 * MINUTE)
        for number, page in enumerate(pages)
    ]
    return [delta for delta in found[::-1] if delta is not None]


LATER = NOW + 7 * 24 * 60 * MINUTE


def test_the_next_delta_is_against_the_restored_version() -> None:
    versions = watched("price is one", "steady")
    deltas = history_of(versions, ("price is two", "steady"), ("price is three", "steady", "more"))
    newest = versions.version
    restored = versions.restore(NOW, deltas, now_us=LATER)
    assert (restored.version, restored.old_version, restored.restored) == (LATER, newest, NOW)
    assert tuple(apply(restored, ("price is three", "steady", "more"))) == ("price is one", "steady")
    assert versions.lines == ("price is one", "steady")
    state = Versions(URL, Rules(), state=versions.state())
    delta = state.receive(content("price is three", "steady", "more"), now_us=LATER + MINUTE)
    assert delta is not None
    assert (delta.old_version, delta.restored) == (LATER, 0)
    assert delta.changes[0].old == ("price is one",)
    assert "was restored" in text_of(restored)
    assert "was restored" in html_of(restored)
    assert from_json(to_json(restored)) == restored
    assert b"restored" not in to_json(delta)


def test_a_restored_version_can_be_left_by_a_restore_again() -> None:
    versions = watched("one line")
    deltas = history_of(versions, ("another line",))
    second = versions.version
    deltas.insert(0, versions.restore(NOW, deltas, now_us=LATER))
    again = versions.restore(second, deltas, now_us=LATER + 1)
    assert (versions.lines, again.restored) == (("another line",), second)


def test_what_one_of_the_last_versions_had_is_news_after_a_restore() -> None:
    versions = watched("one line", compare_last=4)
    deltas = history_of(versions, ("another line",))
    versions.restore(NOW, deltas, now_us=LATER)
    assert versions.receive(content("another line"), now_us=LATER + MINUTE) is not None


@pytest.mark.parametrize(
    ("version", "spoil", "said"),
    [
        (NOW + 60 * MINUTE, {}, "compared with already"),
        (NOW - 1, {}, "the history leads back to version"),
        (NOW, {"cut": True}, "too large to be kept whole"),
        (NOW, {"version": NOW + 1}, "the present one"),
        (NOW, {"changes": (Change(0, ("x",), ("y",)),)}, "does not lead to these lines"),
        (NOW, {"old_crc": 1}, "does not lead to these lines"),
    ],
)
def test_a_version_that_cannot_be_restored_says_why(version: int, spoil: dict[str, Any], said: str) -> None:
    versions = watched("one line")
    deltas = [msgspec.structs.replace(each, **spoil) for each in history_of(versions, ("another line",))]
    before = versions.state()
    with pytest.raises(ChannelError, match=said):
        versions.restore(version, deltas, now_us=LATER)
    assert versions.state() == before


@given(st.lists(documents.filter(bool), min_size=2, max_size=6), st.integers(0, 5))
def test_every_version_of_the_history_can_be_restored(pages: list[list[str]], place: int) -> None:
    versions = Versions(URL, Rules())
    contents: list[tuple[int, tuple[str, ...]]] = []
    deltas: list[Delta] = []
    for number, page in enumerate(pages):
        delta = versions.receive(content(*page), now_us=NOW + number * 60 * MINUTE)
        if delta is not None:
            deltas.insert(0, delta)
            contents.append((versions.version, versions.lines))
    if len(contents) < 2:
        return
    version, lines = contents[place % (len(contents) - 1)]
    before = versions.lines
    restored = versions.restore(version, deltas, now_us=LATER)
    assert (versions.lines, tuple(apply(restored, before))) == (lines, lines)
    assert versions.version > contents[-1][0]
    shown = content(*pages[-1])
    told = versions.receive(shown, now_us=LATER + MINUTE)
    if told is not None:
        assert tuple(apply(told, lines)) == versions.lines
