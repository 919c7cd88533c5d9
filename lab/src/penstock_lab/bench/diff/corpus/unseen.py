"""More kinds of noise and edits, written after the model was judged once and before it was changed.

All of them are held out: nothing in the model was chosen by looking at what it makes of them.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock_lab.bench.diff.corpus.noises import drawn_at, pool_of, wandering

if TYPE_CHECKING:
    from penstock_lab.bench.diff.corpus.edits import Edit
    from penstock_lab.bench.diff.corpus.noises import Noise
    from penstock_lab.bench.diff.corpus.sites import Page, Visit

_HELLO: Final = {
    "en": ("Good night", "Good morning", "Good afternoon", "Good evening"),
    "de": ("Gute Nacht", "Guten Morgen", "Guten Tag", "Guten Abend"),
    "fr": ("Bonne nuit", "Bonjour", "Bon après-midi", "Bonsoir"),
    "es": ("Buenas noches", "Buenos días", "Buenas tardes", "Buenas tardes"),
    "pl": ("Dobranoc", "Dzień dobry", "Dobry wieczór", "Dobry wieczór"),
    "ja": ("お休みなさい", "おはよう", "こんにちは", "こんばんは"),
}
_TOWNS: Final = ("Bergen", "Turin", "Gent", "Lviv", "Kyoto", "Porto", "Graz")


def _tides(page: Page, visit: Visit) -> dict[str, str]:
    first = visit.at - timedelta(minutes=(visit.minutes + page.seed) % 372)
    rows = "".join(
        f"<tr><td>{(first + timedelta(minutes=372 * n)):%d.%m. %H:%M}</td><td>{3.1 + n / 10:.1f} m</td></tr>"
        for n in range(1, 5)
    )
    return {"end": f"<table class='tides'>{rows}</table>"}


def _sensors(page: Page, visit: Visit) -> dict[str, str]:
    rows = "".join(
        f"<tr><td>S{n}</td><td>"
        f"{wandering(page, visit, 40 + n, every_min=1, step=0.3, base=20 + n):.1f} °C</td>"
        f"<td>{drawn_at(page, visit, 1, 50 + n).randint(960, 1_040)} hPa</td></tr>"
        for n in range(6)
    )
    return {"middle": f"<table class='sensors'>{rows}</table>"}


def _leaders(_: Page, visit: Visit) -> dict[str, str]:
    names = ("ann", "bob", "zed", "eva", "tim")
    scores = sorted(
        ((400 + 7 * n + visit.minutes // 5 * (n + 3) % 91, name) for n, name in enumerate(names)),
        reverse=True,
    )
    return {
        "end": "<ol class='top'>" + "".join(f"<li>{name} {score}</li>" for score, name in scores) + "</ol>"
    }


def _formats(page: Page, visit: Visit) -> dict[str, str]:
    """Half of the visitors see another way of writing a total."""
    whole, cents = 100 + page.seed % 50, 25
    text = f"EUR {whole}.{cents}" if visit.dice.random() < 0.5 else f"{whole},{cents} €"
    return {"middle": f"<p class='total'>Σ {text}</p>"}


def _ad_in_list(page: Page, visit: Visit) -> dict[str, str]:
    at = visit.dice.randrange(max(len(page.posts), 1))
    text = page.language.sentence(visit.dice, 5)
    return {f"post {at}": f"</span></li><li class='post'><p>{text}</p></li><li><span>"}


def _hello(page: Page, visit: Visit) -> dict[str, str]:
    return {"top": f"<p class='hi'>{_HELLO[page.language.code][visit.at.hour // 6]}!</p>"}


def _moon(_: Page, visit: Visit) -> dict[str, str]:
    return {"end": f"<p>☾ {(visit.minutes // 1_440 * 7 + 31) % 100} %</p>"}


UNSEEN_NOISES: Final[dict[str, Noise]] = {
    "place in a queue": lambda _, v: {"top": f"<p>#{v.dice.randint(900, 2_000):,} / 2,000</p>"},
    "sensors": _sensors,
    "tides": _tides,
    "a greeting by the hour": _hello,
    "the moon": _moon,
    "a ticker that cycles": lambda p, v: {
        "top": f"<p class='ticker'>{pool_of(p, 5, 60)[v.minutes // 2 % 5]}</p>"
    },
    "a caption on each request": lambda p, v: {
        "middle": f"<figure><figcaption>{v.dice.choice(pool_of(p, 20, 61))}</figcaption></figure>"
    },
    "a cloud of words": lambda p, v: {
        "end": f"<p class='cloud'>{' '.join(v.dice.sample(p.language.words, 8))}</p>"
    },
    "who is typing": lambda _, v: {
        "end": f"<p class='typing'>{v.dice.choice(('Ann', 'Bob'))} …</p>" if v.dice.random() < 0.4 else ""
    },
    "another currency beside rows": lambda p, v: {
        f"row {n}": f"<td>≈ {drawn_at(p, v, 60, 62).randint(100, 120) * (n + 3) / 10:.2f} $</td>"
        for n in range(len(p.rows))
    },
    "a countdown in words": lambda _, v: {
        "top": f"<p>in {(9_000 - v.minutes) // 1_440 % 7} days {(9_000 - v.minutes) // 60 % 24} hours</p>"
    },
    "leaders": _leaders,
    "a survey for one of ten": lambda p, v: {
        "end": f"<div class='ask'><p>{pool_of(p, 1, 63)[0]}?</p></div>" if v.dice.random() < 0.1 else ""
    },
    "a field with a random name": lambda _, v: {
        "end": f"<label>{''.join(v.dice.choice('qwxzkj') for _ in range(5))}</label>"
    },
    "shipping to": lambda _, v: {"top": f"<p class='geo'>→ {v.dice.choice(_TOWNS)}</p>"},
    "mirrors in another order": lambda _, v: {
        "end": "<ul class='mirrors'>" + "".join(f"<li>{t}</li>" for t in v.dice.sample(_TOWNS, 5)) + "</ul>"
    },
    "sunrise": lambda p, v: {
        "end": f"<p>☀ {5 + p.seed % 2}:{(40 - v.minutes // 1_440 * 2) % 60:02} "
        f"☽ 21:{(3 + v.minutes // 1_440) % 60:02}</p>"
    },
    "memory": lambda p, v: {
        "footer": "",
        "end": f"<p>RSS {drawn_at(p, v, 0.5, 64).randint(1_000, 4_000) / 10} MB</p>",
    },
    "an advertisement in a list": _ad_in_list,
    "another way to write a total": _formats,
}

UNSEEN_EDITS: Final[dict[str, Edit]] = {
    "a section": lambda p, d: replace(
        p, paragraphs=(*p.paragraphs, p.language.sentence(d, 3), p.language.sentence(d, 18))
    ),
    "a sentence less": lambda p, _: replace(
        p, paragraphs=(p.paragraphs[0][: len(p.paragraphs[0]) // 2], *p.paragraphs[1:])
    ),
    "cancelled": lambda p, _: replace(p, facts=(f"✗ {p.facts[0]}", *p.facts[1:])),
    "the year": lambda p, _: replace(p, facts=(p.facts[0].replace("2026", "2027"), *p.facts[1:])),
    "digits swapped": lambda p, _: replace(
        p, facts=(*p.facts[:2], p.facts[2][:-2] + p.facts[2][-1] + p.facts[2][-2], *p.facts[3:])
    ),
    "a fact on top": lambda p, d: replace(p, facts=(p.language.sentence(d, 7), *p.facts)),
    "a name in a comment": lambda p, _: replace(p, posts=(("Ingrid", *p.posts[0][1:]), *p.posts[1:])),
    "a comment's text": lambda p, d: replace(
        p, posts=((p.posts[0][0], p.language.sentence(d, 9), p.posts[0][2]), *p.posts[1:])
    ),
    "two prices": lambda p, _: replace(
        p, rows=tuple((row[0], f"{row[1]}9", *row[2:]) if n < 2 else row for n, row in enumerate(p.rows))
    ),
    "a footnote in a cell": lambda p, _: replace(
        p, rows=tuple((*row[:-1], f"{row[-1]}*") if n == 1 else row for n, row in enumerate(p.rows))
    ),
    "a row in the middle": lambda p, d: replace(
        p, rows=(*p.rows[:2], (p.language.sentence(d, 2), "7", "8"), *p.rows[2:])
    ),
}


def _ranking(page: Page, visit: Visit) -> dict[str, str]:
    """Songs that change places every half hour."""
    songs = pool_of(page, 8, 70)
    dice = drawn_at(page, visit, 30, 71)
    order = sorted(range(8), key=lambda n: n + dice.random() * 3)
    return {"end": "<ol class='charts'>" + "".join(f"<li>{songs[n]}</li>" for n in order) + "</ol>"}


def _arrivals(_: Page, visit: Visit) -> dict[str, str]:
    rows = "".join(
        f"<tr><td>{_TOWNS[(visit.minutes // 9 + n) % 7]}</td>"
        f"<td>{4 * n + 9 - visit.minutes % 9} min</td></tr>"
        for n in range(4)
    )
    return {"end": f"<table class='arrivals'>{rows}</table>"}


LATEST_NOISES: Final[dict[str, Noise]] = {
    "charts": _ranking,
    "arrivals": _arrivals,
    "pollen": lambda p, v: {"end": f"<p>🌾 {drawn_at(p, v, 180, 72).randint(0, 5)}/5</p>"},
    "quota of the day": lambda p, v: {"top": f"<p>{v.hits(0.4, p.seed) % 576} / 576</p>"},
    "a shop's hours": lambda _, v: {
        "top": f"<p class='hours'>{'●' if 8 <= v.at.hour < 18 else '○'} 8–18</p>"
    },
    "last visitor": lambda p, v: {
        "end": f"<p>{drawn_at(p, v, 4, 73).choice(('Ann', 'Bob', 'Zoe'))} · {v.minutes % 4} min</p>"
    },
    "build of the server": lambda _, v: {
        "footer": "",
        "end": f"<small>r{v.dice.randint(3, 5)}.{v.minutes // 700}</small>",
    },
    "a picture's number": lambda _, v: {"middle": f"<p class='pic'>{v.dice.randint(1, 40)} / 40</p>"},
    "prices of metals": lambda p, v: {
        "end": "<ul class='metal'>"
        + "".join(
            f"<li>{name} {wandering(p, v, 80 + n, every_min=20, step=3, base=900 - 90 * n):,.1f} ↕</li>"
            for n, name in enumerate(("Au", "Ag", "Pt", "Pd"))
        )
        + "</ul>"
    },
    "two teasers of five": lambda p, v: {
        "middle": "".join(
            f"<div class='t'><p>{text}</p></div>" for text in v.dice.sample(pool_of(p, 5, 74), 2)
        )
    },
}
"""Written after the kinds above were judged; nothing was mended by those."""
