"""Kinds of noise that were written down before the model of decision 0040 and judged once, after it.

What it made of them showed that lists of several things were not learned together; they are seen since then.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock_lab.bench.diff.corpus.noises import drawn_at, pool_of, wandering
from penstock_lab.bench.diff.corpus.sites import START

if TYPE_CHECKING:
    from penstock_lab.bench.diff.corpus.noises import Noise
    from penstock_lab.bench.diff.corpus.sites import Page, Visit

_TEAMS: Final = ("Reds", "Blues", "Rovers", "City", "United", "Athletic", "Harriers")
_STAFF: Final = ("Dr. Orlov", "Dr. Weiss", "Dr. Amara", "Dr. Lindt", "Dr. Cho")
_STOPS: Final = ("Harbour", "Old Town", "Airport", "Museum", "Stadium")


def _river(page: Page, visit: Visit) -> dict[str, str]:
    now = wandering(page, visit, 101, every_min=30, step=3, base=312)
    earlier = replace(visit, at=max(START, visit.at - timedelta(minutes=30)))
    before = wandering(page, earlier, 101, every_min=30, step=3, base=312)
    arrow = "↗" if now > before else "↘"
    return {"middle": f"<p class='level'>{page.language.words[0]} {now:.0f} cm {arrow}</p>"}


def _standings(page: Page, visit: Visit) -> dict[str, str]:
    """Live scores: points grow at different times, and the rows are sorted by them."""
    points = {team: 20 + visit.hits(0.004 + 0.001 * n, page.seed + n) for n, team in enumerate(_TEAMS)}
    rows = "".join(
        f"<tr><td>{team}</td><td>{points[team]}</td></tr>"
        for team in sorted(_TEAMS, key=lambda team: (-points[team], team))
    )
    return {"end": f"<table class='standings'>{rows}</table>"}


def _trending(page: Page, visit: Visit) -> dict[str, str]:
    tags = {
        word: 900 + visit.hits(0.05 + 0.07 * n, page.seed + n)
        for n, word in enumerate(page.language.words[:6])
    }
    items = "".join(f"<li>#{tag} {count:,}</li>" for tag, count in sorted(tags.items(), key=lambda e: -e[1]))
    return {"end": f"<ul class='trend'>{items}</ul>"}


def _buses(_: Page, visit: Visit) -> dict[str, str]:
    waits = sorted(
        ((17 * n + 5 - visit.minutes * (1 + n % 2)) % (20 + 7 * n), stop) for n, stop in enumerate(_STOPS)
    )
    return {
        "end": "<ul class='bus'>"
        + "".join(f"<li>{stop}: {wait} min</li>" for wait, stop in waits[:3])
        + "</ul>"
    }


def _parking(page: Page, visit: Visit) -> dict[str, str]:
    free = [
        max(0, round(wandering(page, visit, 110 + n, every_min=5, step=9, base=20 * n))) for n in range(4)
    ]
    rows = "".join(f"<li>P{n + 1}: {f'{each} free' if each else 'full'}</li>" for n, each in enumerate(free))
    return {"side": "", "end": f"<ul class='park'>{rows}</ul>"}


def _bought(page: Page, visit: Visit) -> dict[str, str]:
    dice = drawn_at(page, visit, 7, 120)
    return {
        "middle": f"<p class='toast'>{dice.choice(('Ann', 'Lee', 'Ravi', 'Olga'))}, {dice.choice(_STOPS)}: "
        f"{dice.choice(page.language.goods)}</p>"
    }


def _daylight(_: Page, visit: Visit) -> dict[str, str]:
    day = (visit.minutes + 587) // 1_440
    return {"end": f"<p class='sun'>☀ 05:{41 - day:02} – 21:{3 + day:02}</p>"}


def _week(page: Page, visit: Visit) -> dict[str, str]:
    """A strip of seven days that begins today."""
    cells = "".join(
        f"<li>{page.language.weekdays[(visit.at + timedelta(days=n)).weekday()][:3]} "
        f"{(visit.at + timedelta(days=n)).day}</li>"
        for n in range(7)
    )
    return {"end": f"<ul class='strip'>{cells}</ul>"}


FRESH_NOISES: Final[dict[str, Noise]] = {
    "level of a river": _river,
    "number that is served": lambda p, v: {
        "top": f"<p class='serve'>{p.language.labels['next']} A{117 + v.hits(0.08, p.seed)}</p>"
    },
    "free parking": _parking,
    "buses that come next": _buses,
    "live standings": _standings,
    "trending tags with counts": _trending,
    "song on the radio": lambda p, v: {
        "side": "",
        "middle": f"<p class='now'>♫ {drawn_at(p, v, 4, 121).choice(pool_of(p, 200, 122))}</p>",
    },
    "who is on duty": lambda p, v: {
        "end": f"<p class='duty'>{_STAFF[(v.minutes // 480 + p.seed) % len(_STAFF)]}</p>"
    },
    "length of the day": _daylight,
    "exchange rates": lambda p, v: {
        "end": "<p class='fx'>1 EUR = "
        f"{wandering(p, v, 123, every_min=10, step=0.002, base=1.08):.4f} USD</p>"
    },
    "mirror in use": lambda p, v: {
        "end": f"<p class='mirror'>mirror {drawn_at(p, v, 240, 124).choice(('north', 'south', 'east'))}</p>"
    },
    "count of comments in a heading": lambda p, v: {
        "end": f"<h3>{p.language.labels['comments']} ({14 + v.hits(0.008, p.seed)})</h3>"
    },
    "somebody bought": _bought,
    "days of this week": _week,
}
