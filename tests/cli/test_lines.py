"""Lines of events and digests: times of one kind, colours for terminals only."""

from __future__ import annotations

import re
import time

import pytest

from penstock.cli.lines import item_line, local_time
from penstock.cli.output import colours
from penstock.errors import counted
from penstock.model.event import Event

DAY_US = 86_400_000_000


def now_us() -> int:
    return time.time_ns() // 1_000


def test_a_time_of_today_has_no_date_and_others_have_one() -> None:
    # Around midnight the first of two looks may still be of yesterday.
    assert any(re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}", local_time(now_us())) for _ in range(2))
    for days in (-1, 1, -365, 365):
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", local_time(now_us() + days * DAY_US))
    assert local_time(2**62) == f"{2**62} µs"


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    event = Event("ward/1", b"72", now_us())
    assert "\x1b" not in item_line(event, "#", as_json=False)
    assert "\x1b[36mward/1\x1b[0m" in item_line(event, "#", as_json=False, colour=True)
    assert "\x1b" not in item_line(event, "#", as_json=True, colour=True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert colours(err=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colours(err=False)


def test_an_escape_sequence_of_a_stranger_stays_escaped_among_colours() -> None:
    line = item_line(Event("a\x1b[2J", b"\x1b[31mred", now_us()), "#", as_json=False, colour=True)
    assert "\x1b[2J" not in line
    assert "\x1b[31m" not in line


@pytest.mark.parametrize(("number", "text"), [(0, "0 events"), (1, "1 event"), (3_000, "3,000 events")])
def test_one_thing_has_no_plural(number: int, text: str) -> None:
    assert counted(number, "event") == text
