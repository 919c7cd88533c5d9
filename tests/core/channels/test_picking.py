"""Selectors made of places find what is at the place, on pages as they are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.channels.difference import Rules, read, rules_of
from penstock.core.channels.picking import selectors_of, xpath_of


@pytest.mark.parametrize(
    ("place", "selectors"),
    [
        ("/main/div.offer/p", ["div.offer p", "div.offer", "main"]),
        ("/body/div#prices.big/table/tr", ["div#prices.big tr", "div#prices.big table", "#prices"]),
        ("/html/body/p", ["p"]),
        ("/body/o:p/p", ["p"]),
        ("item", []),
        ("", []),
        ("/" + "x" * 5_000, []),
    ],
)
def test_the_narrowest_comes_first(place: str, selectors: list[str]) -> None:
    assert selectors_of(place) == selectors


PAGE = b"""<!doctype html><title>Shop</title><body><nav><p>Home</p></nav><main>
<div class="offer"><h2>Lamp</h2><p>EUR <b>49</b></p></div>
<div class="offer" id="best"><h2>Chair</h2><ul><li>oak</li><li>ash</li></ul></div>
<table><tr><td>a</td><td>b</td></tr></table><p>Imprint</p></main>"""


def test_every_selector_of_every_line_finds_the_line() -> None:
    def lines(rules: Rules) -> list[tuple[str, str]]:
        found = read(PAGE, content_type="text/html", url="https://example.org/", rules=rules)
        return list(zip(found.lines, found.places, strict=True))

    all_lines = lines(Rules())
    assert len(all_lines) >= 6
    for line, place in all_lines:
        selectors = selectors_of(place)
        assert selectors, place
        for selector in selectors:
            found = lines(rules_of({"css": [selector]}))
            assert line in [text for text, _ in found], (selector, place)
            xpath = xpath_of(selector)
            assert lines(rules_of({"xpath": [xpath]})) == found, (selector, xpath)


@given(st.text(alphabet='/#.adiv-_0[]"(): ', max_size=60))
def test_whatever_a_place_is_its_selectors_are_valid(place: str) -> None:
    for selector in selectors_of(place):
        rules_of({"css": [selector]})
        rules_of({"xpath": [xpath_of(selector)]})


@pytest.mark.parametrize(
    ("selector", "xpath"),
    [
        ("#prices", "//*[@id='prices']"),
        ("main", "//main"),
        ("div#a.b p", "//div[@id='a'][contains(concat(' ', normalize-space(@class), ' '), ' b ')]//p"),
    ],
)
def test_a_selector_is_written_as_xpath(selector: str, xpath: str) -> None:
    assert xpath_of(selector) == xpath
