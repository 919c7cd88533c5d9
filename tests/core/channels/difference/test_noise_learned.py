"""Two fetches at once: what differs is noise, once it has been seen twice, and until they agree again."""

from __future__ import annotations

from penstock.core.channels.difference import Content, Rules, Versions, read

URL = "https://x.example/"
NOW = 1_778_580_000_000_000


def page(saying: str, code: str = "7", price: str = "10", *, block: bool = False) -> Content:
    extra = "<section class=hero><p>Join us</p></section>" if block else ""
    body = (
        f"<main>{extra}<h1>Shop</h1><p>Lamp for {price}</p><p>First</p><div class=say>{saying}</div>"
        f"<p>Your code for support is {code} today</p></main>"
    )
    return read(body.encode(), content_type="text/html", url=URL, rules=Rules())


def learned(*pairs: tuple[Content, Content]) -> Versions:
    versions = Versions(URL, Rules())
    versions.receive(pairs[0][0], now_us=NOW)
    for pair in pairs:
        versions.contrast(*pair)
    return versions


def test_a_place_that_never_agrees_is_silent() -> None:
    versions = learned((page("a"), page("b")), (page("c"), page("d")))
    assert versions.receive(page("e"), now_us=NOW + 1) is None
    delta = versions.receive(page("f", price="11"), now_us=NOW + 2)
    assert delta is not None
    assert [change.new for change in delta.changes] == [("Lamp for 11",)]


def test_once_is_not_enough() -> None:
    """The page may have changed between the two fetches."""
    assert learned((page("a"), page("b"))).receive(page("c"), now_us=NOW + 1) is not None


def test_what_agrees_again_is_news_again() -> None:
    versions = learned((page("a"), page("b")), (page("c"), page("d")), (page("e"), page("e")))
    assert versions.receive(page("f"), now_us=NOW + 1) is not None


def test_words_that_vary_in_a_line_are_masked() -> None:
    versions = learned((page("a", "1"), page("a", "2")), (page("a", "3"), page("a", "4")))
    assert versions.receive(page("a", "5"), now_us=NOW + 1) is None
    assert versions.receive(page("a", "5", "12"), now_us=NOW + 2) is not None


def test_a_block_for_half_of_the_visitors_is_silent() -> None:
    with_block, without = page("a", block=True), page("a")
    versions = learned((without, with_block), (with_block, without))
    assert versions.receive(with_block, now_us=NOW + 1) is None
    assert versions.receive(without, now_us=NOW + 1) is None


def test_a_price_is_not_learned_as_noise_by_a_slow_replica() -> None:
    """Two servers that are not in step for one contrast: the next price is still told."""
    versions = learned(
        (page("a", price="10"), page("a", price="11")), (page("a", price="11"), page("a", price="11"))
    )
    assert versions.receive(page("a", price="12"), now_us=NOW + 1) is not None


def test_noise_in_two_rows_does_not_hide_the_rest_of_them() -> None:
    def table(lamp: str, tent: str, *left: str) -> Content:
        rows = f"<tr><td>Lamp<td>EUR {lamp}<td>{left[0]} left<tr><td>Tent<td>EUR {tent}<td>{left[1]} left"
        body = f"<table><tr><td>Name<td>Price{rows}</table>"
        return read(body.encode(), content_type="text/html", url=URL, rules=Rules())

    versions = learned(
        (table("10", "20", "3", "5"), table("10", "20", "4", "6")),
        (table("10", "20", "2", "7"), table("10", "20", "1", "9")),
    )
    assert versions.receive(table("10", "20", "8", "1"), now_us=NOW + 1) is None
    assert versions.receive(table("11", "20", "8", "1"), now_us=NOW + 2) is not None


def test_what_is_learned_is_bounded() -> None:
    versions = Versions(URL, Rules())
    for number in range(6):
        lines = [
            Content(
                "html",
                tuple(f"{who} {k}" for k in range(1_000)),
                tuple(f"p{number}{k}" for k in range(1_000)),
            )
            for who in ("a", "b")
        ]
        versions.contrast(*lines)
    state = versions.state()
    assert len(state.learned.places) <= 256
    assert len(state.learned.shapes) <= 256
