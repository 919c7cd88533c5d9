"""A delta that is too large for a message loses its last changes, not its counts."""

from __future__ import annotations

import msgspec

from penstock import limits
from penstock.core.channels.delta import Change, Delta, DeltaItem
from penstock.core.channels.difference import from_json, shortened, to_json
from penstock.core.channels.difference.formats import _Message

LINES = tuple(f"line {number} of a page that changed as a whole" for number in range(10_000))
LARGE = Delta(
    "https://x.example/",
    2,
    1,
    3,
    "feed",
    changes=tuple(Change(place, (line,), (line, "more")) for place, line in enumerate(LINES)),
    items=tuple(DeltaItem("new", f"id {number}", line) for number, line in enumerate(LINES)),
)


def test_what_everybody_is_told_is_bounded_and_counts_all() -> None:
    short = shortened(LARGE)
    assert (short.cut, short.changes == LARGE.changes[: len(short.changes)]) == (True, True)
    assert to_json(short) == to_json(LARGE)
    assert len(to_json(short)) <= limits.DELTA_BYTES
    assert from_json(to_json(short)) == short
    assert shortened(short) == short
    message = msgspec.json.decode(to_json(short), type=_Message)
    assert (message.added, message.removed, message.new_items) == (20_000, 10_000, 10_000)


def test_a_small_delta_is_told_whole() -> None:
    small = Delta("https://x.example/", 2, 1, 3, "html", changes=LARGE.changes[:2])
    assert shortened(small) is small
    assert from_json(to_json(small)) == small
