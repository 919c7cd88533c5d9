"""Expressions of time are noise if they moved by the time that passed, in any of the languages."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.channels.difference.noise import calendar
from penstock.core.channels.difference.noise.calendar import moments
from penstock.core.channels.difference.noise.clocks import passed

ROOT = Path(__file__).parents[5]


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1e6)


NOON = us("2026-05-12 12:00")
QUARTER = us("2026-05-12 12:15")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Meeting on 18 February at 19:00", ["18 February", "19:00"]),
        ("Updated May 12, 2026 at 10:15 PM", ["May 12, 2026", "10:15 PM"]),
        ("12 de mayo de 2026", ["12 de mayo de 2026"]),
        ("2026年5月12日 10:15 更新", ["2026年5月12日", "10:15"]),
        ("am 12. Mai 2026", ["12. Mai 2026"]),
        ("Posted vor einer Stunde", ["vor einer Stunde"]),
        ("il y a 3 jours", ["il y a 3 jours"]),
        ("5分钟前", ["5分钟前"]),
        ("up 3 days, 04:05", ["3 days, 04:05"]),
        ("at=2026-05-12T10:15:03Z", ["2026-05-12", "10:15:03"]),
        ("id 7d1f2c3a and c2094cac", []),
        ("Version 3.2.1, EUR 49.00", []),
    ],
)
def test_expressions_are_found_in_a_line(line: str, found: list[str]) -> None:
    assert [line[each.start : each.end] for each in moments(line)] == found


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("10:15", "10:30", True),
        ("10:15", "10:45", False),
        ("11:50", "12:05 PM", True),
        ("59 minutes ago", "1 hour ago", True),
        ("2 days ago", "3 days ago", True),
        ("2 days ago", "5 days ago", False),
        ("3 days ago", "2 days ago", False),
        ("in 2 hours", "in 1 hour", True),
        ("in 2 days", "in 3 days", False),
        ("2 days", "3 days", False),
        ("19h", "20h", True),
        ("hace 5 minutos", "hace 20 minutos", True),
        ("hace 5 minutos", "hace 50 minutos", False),
        ("13:12:03", "12:57:03", True),
        ("1:23:45", "1:21:10", False),
        ("23 hours ago", "yesterday", True),
        ("today", "tomorrow", False),
        ("1778579000", "1778579900", True),
        ("1778579000", "1778579001", False),
    ],
)
def test_a_quarter_of_an_hour_later(old: str, new: str, same: bool) -> None:
    assert passed(old, NOON, new, QUARTER) == same


@pytest.mark.parametrize(
    ("old", "then", "new", "now", "same"),
    [
        ("12 May", "2026-05-12 23:50", "13 May", "2026-05-13 00:05", True),
        ("17 February", "2026-02-16 12:05", "19 February", "2026-02-16 12:20", False),
        ("Monday", "2026-05-11 10:00", "Tuesday", "2026-05-12 10:00", True),
        ("Monday", "2026-05-13 10:00", "Tuesday", "2026-05-13 10:15", False),
        ("today", "2026-05-12 10:00", "yesterday", "2026-05-13 10:00", True),
        ("2025", "2025-12-31 23:50", "2026", "2026-01-01 00:05", True),
        ("2025", "2026-05-12 10:00", "2026", "2026-05-12 10:15", False),
    ],
)
def test_days_change_at_midnight_in_some_zone(old: str, then: str, new: str, now: str, same: bool) -> None:
    assert passed(old, us(then), new, us(now)) == same


@given(st.integers(0, 20 * 86_400), st.integers(60, 86_400))
def test_a_clock_that_runs_is_noise_whenever_it_is_looked_at(start_s: int, later_s: int) -> None:
    then_us, now_us = NOON + start_s * 1_000_000, NOON + (start_s + later_s) * 1_000_000
    old, new = (f"{datetime.fromtimestamp(at / 1e6, UTC):%H:%M:%S}" for at in (then_us, now_us))
    assert old == new or passed(old, then_us, new, now_us)


@given(st.text(max_size=80))
def test_any_line_can_be_read(line: str) -> None:
    found = moments(line)
    assert all(one.end <= other.start for one, other in pairwise(found))


@pytest.mark.skipif(find_spec("babel") is None, reason="the words are checked where Babel is installed")
@pytest.mark.e2e
def test_the_words_are_those_of_cldr() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "calendar_words.py")], check=True, capture_output=True
    )
    kept = Path(calendar.__file__).with_name("calendar.json").read_text(encoding="utf-8")
    assert json.loads(made.stdout) == json.loads(kept)
