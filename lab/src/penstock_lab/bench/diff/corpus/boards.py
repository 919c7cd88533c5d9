"""Kinds of noise on live boards: lists and tables in which one role is shown for several things.

They were written to make the model of roles and are seen, like `noises`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock_lab.bench.diff.corpus.noises import drawn_at, wandering

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock_lab.bench.diff.corpus.noises import Noise
    from penstock_lab.bench.diff.corpus.sites import Page, Visit

_WARDS: Final = ("Surgery", "Children", "Eyes", "Heart", "Skin")
_NICKS: Final = ("otter", "heron", "lynx", "badger", "finch", "stoat", "raven", "mole", "hare")


def _list(items: Iterable[str], css: str) -> dict[str, str]:
    return {"end": f"<ul class='{css}'>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>"}


def _table(rows: Iterable[Iterable[object]], css: str) -> dict[str, str]:
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return {"middle": f"<table class='{css}'>{body}</table>"}


def _waiting(page: Page, visit: Visit) -> dict[str, str]:
    """People who wait, by ward; a ward without any says so in words."""
    counts = [
        round(wandering(page, visit, 200 + n, every_min=20, step=3, base=2 * n)) for n in range(len(_WARDS))
    ]
    return _list(
        (
            f"{ward}: {count} waiting" if count > 0 else f"{ward}: nobody waits"
            for ward, count in zip(_WARDS, counts, strict=True)
        ),
        "wards",
    )


def _machines(page: Page, visit: Visit) -> dict[str, str]:
    rows = []
    for n in range(6):
        dice = drawn_at(page, visit, 25 + 10 * n, 210 + n)
        busy = dice.random() < 0.7
        rows.append((f"M{n + 1}", "running" if busy else "idle", f"{dice.randint(5, 99)} %" if busy else "–"))
    return _table(rows, "machines")


def _best(page: Page, visit: Visit) -> dict[str, str]:
    """The best five of nine, whose scores grow now and then."""
    scores = {nick: 50 + visit.hits(0.01 + 0.003 * n, page.seed + n) for n, nick in enumerate(_NICKS)}
    best = sorted(scores.items(), key=lambda each: (-each[1], each[0]))[:5]
    return _list((f"{nick} – {score} pts" for nick, score in best), "best")


def _calls(page: Page, visit: Visit) -> dict[str, str]:
    """The last five calls of a fire brigade, newest first, about one every two hours."""
    last = (visit.minutes + page.seed * 7) // 110
    calls = []
    for number in range(last, last - 5, -1):
        dice = page.draw(9_000 + number)
        at = visit.at - timedelta(minutes=visit.minutes + page.seed * 7 - number * 110 + dice.randint(0, 40))
        calls.append(f"{at:%H:%M} – {dice.randint(1, 6)} vehicles, {dice.randint(2, 30)} people")
    return _list(calls, "calls")


def _trams(_: Page, visit: Visit) -> dict[str, str]:
    waits = sorted(((11 * n + 3 - visit.minutes) % (9 + 4 * n), n + 1) for n in range(6))
    return _table(((f"Line {line}", f"{wait} min") for wait, line in waits[:4]), "trams")


def _slow_cells(page: Page, visit: Visit) -> dict[str, str]:
    """Counts in the cells of a table, each of which grows about every seven hours, at another time."""
    return _table(
        ((nick, 3 + visit.hits(1 / (300 + 40 * n), page.seed + n)) for n, nick in enumerate(_NICKS)),
        "cells",
    )


def _matches(page: Page, visit: Visit) -> dict[str, str]:
    """Live results of three matches; between matches there is a text."""
    lines = []
    for n in range(3):
        minute = (visit.minutes + 45 * n + page.seed) % 240
        goals = [drawn_at(page, visit, 33 + n, 220 + n + k).randint(0, 2) for k in range(2)]
        lines.append(
            f"{_NICKS[2 * n]} {goals[0]} : {goals[1]} {_NICKS[2 * n + 1]} {minute}'"
            if minute < 95
            else f"{_NICKS[2 * n]} – {_NICKS[2 * n + 1]} soon"
        )
    return _list(lines, "matches")


def _rooms(page: Page, visit: Visit) -> dict[str, str]:
    taken = [drawn_at(page, visit, 40 + 7 * n, 230 + n).random() < 0.5 for n in range(5)]
    return _list((f"Room {n}: {'taken' if each else 'free'}" for n, each in enumerate(taken, 1)), "rooms")


BOARD_NOISES: Final[dict[str, Noise]] = {
    "people who wait": _waiting,
    "machines": _machines,
    "the best five": _best,
    "calls of a fire brigade": _calls,
    "trams": _trams,
    "cells that move now and then": _slow_cells,
    "live results": _matches,
    "rooms": _rooms,
}
