"""Tokens: what is a price or a version, and what only counts."""

from __future__ import annotations

import pytest

from penstock.core.channels.difference.noise.tokens import is_stated, token_at, tokens


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("EUR 49.00", "49.00"),
        ("49,99 €", "49,99"),
        ("Lamp | $ 5 | 8 left", "5"),
        ("now ¥1,200 only", "1,200"),
        ("120 zł", "120"),
        ("980 円", "980"),
        ("only EUR20 today", "EUR20"),
        ("Version 3.2.1 is out", "3.2.1"),
        ("release v10.4.12", "v10.4.12"),
    ],
)
def test_prices_and_versions_are_stated(line: str, number: str) -> None:
    assert is_stated(line, 2 * tokens(line).index(number) + 1)


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("1,204 views", "1,204"),
        ("1.204.300 downloads", "1.204.300"),
        ("AQI 47", "47"),
        ("EUR 5 | 8 left", "8"),
        ("load 0.53", "0.53"),
        ("ABC20 seats", "ABC20"),
        ("12.05.2026", "12.05.2026"),
    ],
)
def test_counts_and_measures_are_not(line: str, number: str) -> None:
    assert not is_stated(line, 2 * tokens(line).index(number) + 1)


def test_a_key_of_a_gap_or_of_a_whole_line_names_no_token() -> None:
    assert [token_at("one two", key) for key in (-2, -1, 0, 1, 3, 5)] == ["", "", "", "one", "two", ""]
