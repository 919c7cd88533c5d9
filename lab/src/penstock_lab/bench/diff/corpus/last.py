"""Kinds of noise that were written down after the model was finished, and judged once: the last word.

The model was not changed after it was run on them. Whoever changes it because of what it makes of them moves
them to the seen kinds and writes others.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock_lab.bench.diff.corpus.noises import drawn_at, pool_of, wandering

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock_lab.bench.diff.corpus.noises import Noise
    from penstock_lab.bench.diff.corpus.sites import Page, Visit

_LAKES: Final = ("Alder", "Birch", "Cedar", "Rowan", "Willow")
_ROADS: Final = ("A1", "A4", "B27", "A81")
_SAINTS: Final = ("Agnes", "Bruno", "Clara", "Doris", "Emil", "Flora", "Georg", "Hanna")
_SHOWS: Final = ("Early bird", "Late riser", "Long lunch", "Tea time", "Night shift", "Record box")


def _list(items: Iterable[str], css: str) -> str:
    return f"<ul class='{css}'>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>"


def _rows(rows: Iterable[Iterable[object]], css: str) -> str:
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table class='{css}'>{body}</table>"


def _lakes(page: Page, visit: Visit) -> dict[str, str]:
    """Temperatures, each measured once an hour, with the time of the measurement."""
    found = []
    for n, lake in enumerate(_LAKES):
        at = visit.at - timedelta(minutes=(visit.minutes + 11 * n) % 60)
        value = wandering(page, visit, 300 + n, every_min=60, step=0.4, base=16 + n)
        found.append((f"Lake {lake}", f"{value:.1f} °C", f"{at:%H:%M}"))
    return {"end": _rows(found, "lakes")}


def _lifts(_: Page, visit: Visit) -> dict[str, str]:
    """Lifts that open and close at hours of their own."""
    found = (
        f"{name}: {'open' if 8 + n <= visit.at.hour < 16 + n else 'closed'}"
        for n, name in enumerate(("Valley lift", "Ridge lift", "Summit lift"))
    )
    return {"middle": _list(found, "lifts")}


def _printer(page: Page, visit: Visit) -> dict[str, str]:
    """Jobs that wait for a printer; now and then none does."""
    first = visit.minutes // 13
    jobs = [
        f"job {4_000 + page.seed + n}, {page.draw(310 + n).randint(1, 40)} pages"
        for n in range(first, first + drawn_at(page, visit, 13, 311).randint(0, 4))
    ]
    return {"end": _list(jobs or ["no jobs"], "jobs")}


def _station(_: Page, visit: Visit) -> dict[str, str]:
    return {
        "top": f"<p class='iss'>{(visit.minutes * 4 % 103) - 51}.{visit.minutes % 100:02}° / "
        f"{(visit.minutes * 37 % 360) - 180}.{visit.minutes * 7 % 100:02}°</p>"
    }


def _cinema(page: Page, visit: Visit) -> dict[str, str]:
    """Showings that are left today; after midnight all of them are there again."""
    found = [
        f"{hour}:{minute:02} {film}"
        for film, (hour, minute) in zip(
            pool_of(page, 5, 320), ((11, 15), (14, 0), (16, 45), (19, 30), (22, 10)), strict=True
        )
        if (hour, minute) > (visit.at.hour, visit.at.minute)
    ]
    return {"end": _list(found, "film")}


def _readers(page: Page, visit: Visit) -> dict[str, str]:
    found = (
        f"{title} ({max(1, round(wandering(page, visit, 330 + n, every_min=7, step=4, base=30)))} read this)"
        for n, title in enumerate(pool_of(page, 6, 331))
    )
    return {"middle": _list(found, "stories")}


def _library(page: Page, visit: Visit) -> dict[str, str]:
    found = []
    for n, title in enumerate(pool_of(page, 5, 340)):
        left = drawn_at(page, visit, 170 + 60 * n, 341 + n).randint(0, 3)
        found.append((title, f"{left} of 3 on the shelf" if left else "all on loan"))
    return {"middle": _rows(found, "loans")}


def _grid(page: Page, visit: Visit) -> dict[str, str]:
    parts = [
        max(1, round(wandering(page, visit, 350 + n, every_min=15, step=2, base=20 + 5 * n)))
        for n in range(4)
    ]
    text = ", ".join(f"{name} {part} %" for name, part in zip(("W", "S", "H", "G"), parts, strict=True))
    return {"end": f"<p class='grid'>⚡ {text}</p>"}


def _on_air(page: Page, visit: Visit) -> dict[str, str]:
    now = (visit.minutes + 587 + 60 * page.seed) // 180 % len(_SHOWS)
    return {"top": f"<p class='air'>{_SHOWS[now]}</p><p class='then'>→ {_SHOWS[(now + 1) % len(_SHOWS)]}</p>"}


def _regions(page: Page, visit: Visit) -> dict[str, str]:
    found = []
    for n, region in enumerate(("eu-1", "eu-2", "us-1", "ap-1")):
        dice = drawn_at(page, visit, 1, 360 + n)
        found.append((region, "timeout" if dice.random() < 0.03 else f"{dice.randint(8, 40) * (n + 1)} ms"))
    return {"end": _rows(found, "regions")}


def _bikes(page: Page, visit: Visit) -> dict[str, str]:
    found = []
    for n, lake in enumerate(_LAKES):
        bikes = max(0, min(12, round(wandering(page, visit, 370 + n, every_min=9, step=2, base=6))))
        found.append((f"{lake} Street", bikes, 12 - bikes))
    return {"middle": _rows(found, "bikes")}


def _jams(page: Page, visit: Visit) -> dict[str, str]:
    found = [
        f"{road}: {drawn_at(page, visit, 30, 390 + n).randint(2, 14)} km"
        for n, road in enumerate(_ROADS)
        if drawn_at(page, visit, 90 + 30 * n, 380 + n).random() < 0.4
    ]
    return {"end": _list(found, "jams") if found else "<p class='jams'>–</p>"}


LAST_NOISES: Final[dict[str, Noise]] = {
    "temperatures of lakes": _lakes,
    "lifts": _lifts,
    "jobs of a printer": _printer,
    "a station in orbit": _station,
    "showings that are left": _cinema,
    "readers beside headlines": _readers,
    "books on the shelf": _library,
    "shares of the grid": _grid,
    "programme on air": _on_air,
    "answers of regions": _regions,
    "bikes and docks": _bikes,
    "jams": _jams,
    "whose day it is": lambda p, v: {
        "top": f"<p class='saint'>{_SAINTS[((v.minutes + 587) // 1_440 + p.seed) % len(_SAINTS)]}</p>"
    },
    "depth of the snow": lambda p, v: {
        "end": f"<p class='snow'>❄ {wandering(p, v, 395, every_min=720, step=6, base=84):.0f} cm</p>"
    },
}
