"""The tables of `penstock streams`."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from penstock.cli import streams
from penstock.core.streams.ticks import TICKS_PER_S

POSITION = 5_000 * TICKS_PER_S


def consumers(*places: int, user: str = "", messages: int = 3) -> list[str]:
    """The lines of the table, with as many consumers of a stream whose log begins at second 10."""
    log = {"messages": messages}
    row = {"name": "orders", "position": POSITION, "trimmed": 10 * TICKS_PER_S, "log": log}
    found: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (
            row,
            {
                "name": f"c{at}",
                "place": place * TICKS_PER_S,
                "connected": at == 0,
                "user": user if at else "",
            },
        )
        for at, place in enumerate(places)
    ]
    console = Console(width=120)
    with console.capture() as captured:
        console.print(streams._consumers(found))
    return captured.get().splitlines()[2:]


@pytest.mark.parametrize("place", [0, 10])
def test_who_has_nothing_yet_is_behind_by_everything(place: int) -> None:
    line, other = consumers(place, 4_990)
    assert line.split() == ["orders", "c0", "connected", str(place * TICKS_PER_S), "everything"]
    assert other.split()[2:] == ["away", str(4_990 * TICKS_PER_S), "10.0", "s"]


def test_who_has_everything_is_not_behind_when_the_log_has_let_it_go() -> None:
    (line,) = consumers(10, messages=0)
    assert line.split()[-2:] == ["0.0", "s"]


def test_whose_a_consumer_is_stands_beside_it() -> None:
    line, other = consumers(20, 20, user="ann")
    assert line.split()[:4] == ["orders", "c0", "–", "connected"]
    assert other.split()[:4] == ["orders", "c1", "ann", "away"]
