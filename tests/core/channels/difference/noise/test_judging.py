"""Noise learned from a page: pairs at once, numbers by the second move, words by the third; forgetting."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.channels.delta import Between, apply
from penstock.core.channels.difference import Content, Rules, Versions, VersionsState, text_of
from penstock.core.channels.difference.formats import from_json, html_of, to_json
from penstock.errors import ChannelError
from tests.kit.page_looks import HOUR, MINUTE, NOW, URL, Subscription, html, word


def page(saying: str = "s", code: str = "7", price: str = "10", *, block: bool = False) -> Content:
    extra = "<section class=hero><p>Join us</p></section>" if block else ""
    return html(
        f"<main>{extra}<h1>Shop</h1><p>Lamp for {price}</p><p>First</p><div class=say>{saying}</div>"
        f"<p>Your code for support is {code} today</p></main>"
    )


def settled(first: Content | tuple[Content, Content] | None = None, **how: Rules) -> Subscription:
    return Subscription(first or page(), page(), page(), **how)


def test_the_first_looks_only_teach_and_what_changed_meanwhile_is_told_afterwards() -> None:
    watched = Subscription(page(), page(price="11"), page(price="11"))
    assert watched.versions.lines[1] == "Lamp for 10"
    assert watched.look(page(price="11")) == ["-Lamp for 10", "+Lamp for 11"]
    assert watched.look(page(price="11")) == []


def test_what_a_pair_shows_differently_is_never_told() -> None:
    watched = settled((page("a b c", "1"), page("d e f", "2")))
    assert watched.look((page("g h i", "3"), page("j k l", "4"))) == []
    asked = watched.asked
    assert watched.look(page("m n o", "5", price="11")) == ["-Lamp for 10", "+Lamp for 11"]
    assert watched.asked == asked + 1, "a candidate is fetched again, once"


def test_a_candidate_that_the_second_fetch_does_not_show_is_not_told() -> None:
    watched = settled()
    assert watched.look((page(block=True), page())) == []
    assert watched.look((page(price="11"), page(price="12"))) == []
    assert watched.look((page(), page(price="12"))) == []


def test_a_line_that_one_of_two_fetches_still_has_was_not_removed() -> None:
    both, less = html("<p>one<p>two<p>three"), html("<p>one<p>three")
    watched = Subscription(both, both, both)
    assert watched.look((less, both)) == []
    assert watched.look(less) == ["-two"]


def test_a_slow_replica_delays_a_price_and_does_not_hide_it() -> None:
    watched = settled()
    assert watched.look((page(price="11"), page(price="10"))) == []
    assert watched.look((page(price="11"), page(price="11"))) == ["-Lamp for 10", "+Lamp for 11"]


def test_the_second_move_of_a_number_mutes_it_and_nothing_beside_it() -> None:
    def shop(price: str, left: int) -> Content:
        return html(f"<table><tr><td>Lamp<td>EUR {price}<td>{left} left<tr><td>Tent<td>EUR 80<td>few</table>")

    watched = Subscription(shop("10", 9), shop("10", 9), shop("10", 9))
    assert len(watched.look(shop("10", 8))) == 2
    assert watched.look(shop("10", 7)) == []
    assert watched.look(shop("10", 5)) == []
    assert watched.look(shop("11", 4)) == ["-Lamp | EUR 10 | 8 left", "+Lamp | EUR 11 | 4 left"]


def test_words_need_three_moves() -> None:
    watched = settled()
    assert watched.look(page("open")) == ["-s", "+open"]
    assert watched.look(page("closed")) == ["-open", "+closed"]
    assert watched.look(page("open")) == []
    assert "closed" in {each.text for each in watched.versions.muted(now_us=watched.now_us)}


def test_what_is_still_for_long_is_told_again() -> None:
    watched = settled()
    watched.look(page(price="11"))
    assert watched.look(page(price="12")) == []
    told = [watched.look(page(price="12"), later_us=2 * HOUR) for _ in range(13)]
    assert told == [[]] * 12 + [["-Lamp for 11", "+Lamp for 12"]]


def test_an_edit_between_the_two_fetches_of_a_pair_is_told_when_it_has_stayed() -> None:
    watched = Subscription((page(), page(price="11", block=True)))
    assert watched.versions.look(page(price="11", block=True), now_us=NOW + HOUR, alone=True).unproven
    told = [watched.look(page(price="11", block=True)) for _ in range(16)]
    assert sum(map(bool, told)) == 1
    assert {"+Join us", "-Lamp for 10", "+Lamp for 11"} <= {line for lines in told for line in lines}


def test_a_block_for_half_of_the_visitors_is_silent() -> None:
    watched = settled((page(block=True), page()))
    for shown in (page(block=True), page(), page(block=True), page()):
        assert watched.look(shown) == []
    assert watched.look((page(block=True, price="11"), page(price="11"))) == ["-Lamp for 10", "+Lamp for 11"]


def test_a_rotating_list_is_silent_and_the_rest_of_the_page_is_not() -> None:
    def shown(*picked: str, price: str = "10") -> Content:
        more = "".join(f"<li>{each}</li>" for each in picked)
        return html(f"<main><p>Lamp for {price}</p><ul class=more>{more}</ul></main>")

    watched = Subscription(
        (shown("tent", "boat", "drum"), shown("sofa", "lamp", "boat")),
        shown("cup", "cat", "drum"),
        shown("tent"),
    )
    assert watched.look(shown("moon", "star", "sun")) == []
    assert watched.look(shown("rain", "snow", price="11")) == ["-Lamp for 10", "+Lamp for 11"]


def test_an_order_that_differs_from_fetch_to_fetch_is_silent_and_new_lines_are_not() -> None:
    def shown(*names: str) -> Content:
        return html("<ul>" + "".join(f"<li>{name} and more</li>" for name in names) + "</ul>")

    watched = Subscription((shown("a", "b", "c", "d"), shown("c", "a", "b", "d")), shown("d", "a", "b", "c"))
    watched.look(shown("a", "b", "d", "c"))
    assert watched.look((shown("b", "a", "c", "d"), shown("a", "c", "b", "d"))) == []
    assert watched.look((shown("b", "a", "new", "c", "d"), shown("a", "c", "b", "new", "d"))) == [
        "+new and more"
    ]


def test_places_are_known_by_tags_where_class_names_are_made_anew() -> None:
    def shown(mark: str, saying: str, price: str = "10") -> Content:
        return html(
            f"<main class={mark}><p class={mark}>Lamp for {price}</p><p class={mark}>Tent for 80</p>"
            f"<blockquote class={mark}><p>{saying}</p></blockquote></main>"
        )

    watched = Subscription(
        (shown("ab", "x y z"), shown("cd", "u v w")), shown("ef", "r s t"), shown("gh", "o p q")
    )
    assert watched.versions.state().memory.by_tags
    assert watched.look(shown("ij", "l m n")) == []
    assert watched.look(shown("kl", "i j k", price="11")) == ["-Lamp for 10", "+Lamp for 11"]


def test_counters_of_several_lines_are_one_column() -> None:
    def shown(*likes: int) -> Content:
        names = ("Ann", "Bob", "Zoe", "Max", "Eva")
        rows = "".join(
            f"<li>{name} wrote {count} posts</li>" for name, count in zip(names, likes, strict=True)
        )
        return html(f"<ul>{rows}</ul>")

    watched = Subscription(shown(1, 2, 3, 4, 5), shown(2, 3, 3, 4, 5), shown(2, 3, 3, 4, 5))
    assert watched.look(shown(2, 3, 4, 4, 9)) == []


def test_a_person_may_overrule_and_the_state_keeps_it() -> None:
    watched = settled((page("a b c"), page("d e f")))
    (muted, *_) = watched.versions.muted(now_us=watched.now_us)
    assert muted.place == "/main/div.say"
    assert "Two fetches of one moment differed" in muted.evidence
    with pytest.raises(ChannelError, match="no place '/nowhere'"):
        watched.versions.unmute("/nowhere")
    watched.versions.unmute("/main/div.say")
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(watched.versions.state()), type=VersionsState)
    watched.versions = Versions(URL, Rules(), state=state)
    assert watched.versions.muted(now_us=watched.now_us) == []
    assert watched.look(page("g h i"))[-1] == "+g h i"


def test_a_state_of_a_newer_program_is_refused_and_one_without_a_memory_is_taught() -> None:
    state = settled().versions.state()
    newer = msgspec.structs.replace(state, memory=msgspec.structs.replace(state.memory, form=9))
    with pytest.raises(ChannelError, match="form 9, and this program reads form 1"):
        Versions(URL, Rules(), state=newer)
    packed = msgspec.to_builtins(state)
    del packed["memory"]
    older = Versions(URL, Rules(), state=msgspec.convert(packed, VersionsState))
    assert older.teaching
    assert older.look(page(price="11"), now_us=NOW, alone=True).withheld


@pytest.mark.slow
def test_what_is_remembered_is_bounded() -> None:
    watched = Versions(URL, Rules())
    for number in range(6):
        lines = [
            Content(
                "html",
                tuple(f"{who} {number * k} line of a page" for k in range(3_000)),
                tuple(f"/p{number}{k}" for k in range(3_000)),
            )
            for who in ("a", "b")
        ]
        watched.look(lines[0], beside=lines[1], now_us=NOW + number * HOUR)
    memory = watched.state().memory
    assert len(memory.slots) <= limits.NOISE_SLOTS
    assert len(memory.pool) <= limits.NOISE_POOL
    for heats in (memory.places, memory.orders, memory.columns):
        assert len(heats) <= limits.NOISE_PLACES


def test_a_price_that_moves_again_is_told_when_two_looks_agree_with_what_it_was_between() -> None:
    watched = Subscription(*[page(price="EUR 49.00")] * 3)
    assert watched.look(page(price="EUR 45.00")) == ["-Lamp for EUR 49.00", "+Lamp for EUR 45.00"]
    assert watched.look(page(price="EUR 47.00")) == []
    assert watched.look(page(price="EUR 44.00")) == []
    assert watched.look(page(price="EUR 39.00")) == []
    assert watched.look(page(price="EUR 39.00")) == ["-Lamp for EUR 45.00", "+Lamp for EUR 39.00"]
    assert watched.delta is not None
    assert watched.delta.between == (Between(1, "45.00", ("47.00", "44.00"), "39.00"),)
    assert "  45.00 → 47.00 → 44.00 → 39.00" in text_of(watched.delta)
    assert "45.00 → 47.00 → 44.00 → 39.00</p>" in html_of(watched.delta)
    assert from_json(to_json(watched.delta)) == watched.delta
    assert watched.look(page(price="EUR 39.00")) == []


def test_a_price_that_returns_to_what_was_told_is_not_told() -> None:
    watched = Subscription(*[page(price="EUR 49.00")] * 3)
    watched.look(page(price="EUR 45.00"))
    assert watched.look(page(price="EUR 47.00")) == []
    assert [watched.look(page(price="EUR 45.00")) for _ in range(3)] == [[]] * 3


def test_every_price_of_a_week_with_two_a_day_is_told() -> None:
    watched = Subscription(*[page(price="EUR 49.00")] * 3)
    told = 0
    for number in range(14):
        shown = page(price=f"EUR {40 + number * 7 % 13}.00")
        told += sum(map(bool, (watched.look(shown, later_us=4 * HOUR) for _ in range(3))))
    assert told == 14


def test_an_exchange_rate_is_told_once_and_then_known() -> None:
    watched = Subscription(*[page(price="EUR 49.00")] * 3)
    told = [watched.look(page(price=f"EUR {50 + number}.17")) for number in range(200)]
    assert sum(map(bool, told)) == 1
    (muted,) = watched.versions.muted(now_us=watched.now_us)
    assert (muted.part, muted.text) == ("50.17", "Lamp for EUR 50.17")


def test_prices_of_a_whole_column_that_move_together_twice_are_an_exchange_rate() -> None:
    def shop(rate: float) -> Content:
        rows = "".join(f"<tr><td>{good}<td>USD {n * rate:.2f}" for n, good in enumerate(GOODS, 3))
        return html(f"<main><table>{rows}</table></main>")

    watched = Subscription(*[shop(1)] * 3)
    assert watched.look(shop(1.01))
    assert [watched.look(shop(1.01 + n / 100)) for n in (1, 2, 2, 3)] == [[]] * 4


GOODS = ("lamp", "tent", "boat", "drum", "sofa")


def test_three_prices_of_a_shop_are_told_each_time() -> None:
    def shop(*less: int) -> Content:
        rows = "".join(
            f"<tr><td>{good}<td>USD {50 + n - cut}"
            for n, (good, cut) in enumerate(zip(goods, less, strict=True))
        )
        return html(f"<main><table>{rows}</table></main>")

    goods = [f"{good} {kind}" for good in GOODS for kind in ("small", "large")]
    none = [0] * 10
    watched = Subscription(*[shop(*none)] * 3)
    for number in range(1, 4):
        shown = shop(*(number if n < 3 else 0 for n in range(10)))
        told = [watched.look(shown, later_us=HOUR) for _ in range(2)]
        assert sum(len(lines) for lines in told) == 6


def test_lists_that_are_sorted_by_their_numbers_are_silent_from_the_second_move_on() -> None:
    def table(*points: int) -> Content:
        teams = sorted(zip(points, ("Reds", "Blues", "City", "Rovers"), strict=True), reverse=True)
        return html("<main><h1>Cup</h1><ol>" + "".join(f"<li>{team} {n}</li>" for n, team in teams) + "</ol>")

    watched = Subscription(*[table(20, 19, 18, 17)] * 3)
    assert watched.look(table(20, 21, 18, 17)) == ["+Blues 21", "-Blues 19"]
    assert watched.look(table(20, 21, 18, 22)) == []
    assert watched.look(table(23, 21, 25, 22)) == []
    assert watched.look(
        html("<main><h1>Cup</h1><ol><li>Reds 23<li>United 22<li>City 25<li>Blues 21<li>Rovers 22")
    )


def test_a_timetable_goes_on_by_itself() -> None:
    def board(now_us: int, price: str = "10") -> Content:
        first = now_us // (170 * MINUTE) * 170 + 290  # in a zone two hours ahead
        times = [first + 170 * n for n in range(4)]
        rows = [
            f"{at // 60 % 24:02}:{at % 60:02} to {('Rome', 'Oslo', 'Lima')[at // 170 % 3]}" for at in times
        ]
        return html(
            f"<main><p>Lamp for {price}</p><ul>{''.join(f'<li>{row}</li>' for row in rows)}</ul></main>"
        )

    watched = Subscription()
    told = [watched.look(board(watched.now_us + 15 * MINUTE)) for _ in range(300)]
    assert sum(map(bool, told)) <= 2
    assert watched.look(board(watched.now_us + 15 * MINUTE, "11")) == ["-Lamp for 10", "+Lamp for 11"]


def test_a_list_of_news_with_times_is_told_line_by_line() -> None:
    def listed(count: int) -> Content:
        items = [
            f"<li>{n * 37 // 60 % 24:02}:{n * 37 % 60:02} {word(n)} {word(n + 7)}</li>" for n in range(count)
        ]
        return html(f"<main><ul>{''.join(items[-5:][::-1])}</ul></main>")

    watched = Subscription(*[listed(6)] * 3)
    for count in range(7, 30):
        told = [watched.look(listed(count), later_us=HOUR), watched.look(listed(count), later_us=HOUR)]
        assert any(f"{word(count - 1)} {word(count + 6)}" in line for line in told[0]), count


def test_a_number_that_moved_often_needs_no_new_proof_after_a_rest() -> None:
    watched = Subscription(*[page(code="1")] * 3)
    for number in range(2, 9):
        watched.look(page(code=str(number)))
    rest = [watched.look(page(code="8"), later_us=HOUR) for _ in range(24 * 5)]
    assert rest == [[]] * len(rest)
    assert watched.look(page(code="9")) == []


def test_what_differs_at_every_fetch_is_told_once_a_person_asked_for_it() -> None:
    watched = settled((page(code="1"), page(code="2")))
    watched.versions.unmute("/main/p")
    assert watched.look((page(code="3"), page(code="4")))[-1].startswith("+Your code for support is")


def test_a_clock_that_was_set_back_does_no_harm() -> None:
    watched = Subscription(*[page(price="EUR 49.00")] * 3)
    watched.look(page(price="EUR 45.00"))
    watched.now_us -= 100_000 * HOUR
    watched.look(page(price="EUR 44.00"))
    assert watched.look(page(price="EUR 44.00"))[-1] == "+Lamp for EUR 44.00"


TEXTS = st.lists(
    st.sampled_from(["a", "b 1", "b 2", "c 10:00", "c 10:15", "d e f", "d e g", "x y"]), max_size=9
)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=2, max_size=7))
def test_deltas_apply_and_only_what_both_fetches_share_is_told(
    looks: list[tuple[list[str], list[str]]],
) -> None:
    versions = Versions(URL, Rules())
    for number, pair in enumerate(looks):
        one, other = (Content("text", tuple(texts), ("",) * len(texts)) for texts in pair)
        before = versions.lines
        look = versions.look(one, beside=other, now_us=NOW + number * 15 * MINUTE)
        if look.delta is None:
            assert versions.lines == before or number == 0
            continue
        assert tuple(apply(look.delta, before)) == versions.lines
        if number:
            shown = {line for change in look.delta.changes for line in change.new}
            gone = {line for change in look.delta.changes for line in change.old} - shown
            assert shown <= set(pair[0])
            for line in gone - set(before):
                raise AssertionError(f"{line} was never told")
        state = msgspec.msgpack.decode(msgspec.msgpack.encode(versions.state()), type=VersionsState)
        assert state == versions.state()
