"""Kinds of noise: what time, visitors and servers do to a page that nobody edited.

Each takes a page and a visit and returns the slots it fills. They were written down before the model was
tried on any of them, from pages in use; which of them are held out is drawn by `split`.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock_lab.bench.diff.corpus.sites import Page, Visit

Noise: TypeAlias = "Callable[[Page, Visit], dict[str, str]]"

_PEOPLE: Final = ("ann", "bob", "zed", "eva", "tim", "lea", "kai", "ida", "leo", "mia")
_CITIES: Final = ("Rome", "Oslo", "Lima", "Cairo", "Quito", "Seoul", "Paris", "Delhi")


def _token(dice: Random, size: int = 20) -> str:
    return "".join(dice.choice("0123456789abcdef") for _ in range(size))


def _letters(dice: Random) -> str:
    return "".join(dice.choice("abcdefghij") for _ in range(6))


def drawn_at(page: Page, visit: Visit, every_min: float, salt: int) -> Random:
    """Dice that fall anew every so many minutes, the same for all visitors."""
    return Random(page.seed * 104_729 + salt * 1_299_709 + int(visit.minutes / every_min))  # noqa: S311


def _day(page: Page, visit: Visit) -> str:
    at, language = visit.at, page.language
    if language.code == "ja":
        return f"{at.year}年{at.month}月{at.day}日"
    if language.code == "en":
        return f"{language.months[at.month - 1]} {at.day}, {at.year}"
    dot = "." if language.code == "de" else ""
    de = " de" if language.code == "es" else ""
    return f"{at.day}{dot}{de} {language.months[at.month - 1]}{de} {at.year}"


def wandering(page: Page, visit: Visit, salt: int, *, every_min: float, step: float, base: float) -> float:
    """A value that wanders in time, the same for all visitors."""
    steps = int(visit.minutes / every_min)
    dice = Random(page.seed * 31 + salt)  # noqa: S311
    value = base
    for _ in range(steps % 4_000):
        value += dice.uniform(-step, step)
    return value


def _ages(form: Callable[[Page, int], str]) -> Noise:
    def ages(page: Page, visit: Visit) -> dict[str, str]:
        return {
            f"post {number}": form(page, post[2] + visit.minutes) for number, post in enumerate(page.posts)
        }

    return ages


def _long_age(page: Page, minutes: int) -> str:
    if minutes < 60:
        return page.language.ago(minutes, "minute")
    if minutes < 1_440:
        return page.language.ago(minutes // 60, "hour")
    return page.language.ago(minutes // 1_440, "day")


def _short_age(_: Page, minutes: int) -> str:
    return (
        f"{minutes}m" if minutes < 60 else f"{minutes // 60}h" if minutes < 1_440 else f"{minutes // 1_440}d"
    )


def _departures(page: Page, visit: Visit) -> dict[str, str]:
    first = visit.at.replace(second=0) + timedelta(minutes=10 - visit.at.minute % 10)
    rows = "".join(
        f"<li>{(first + timedelta(minutes=10 * n)):%H:%M} {_CITIES[(first.minute // 10 + n) % 8]}</li>"
        for n in range(4)
    )
    return {"end": f"<h3>{page.language.labels['next']}</h3><ul class='dep'>{rows}</ul>"}


def _poll(page: Page, visit: Visit) -> dict[str, str]:
    votes = [visit.hits(rate, page.seed + n) + 40 for n, rate in enumerate((0.2, 0.1, 0.05))]
    bars = "".join(f"<li>{100 * vote // sum(votes)} % ({vote})</li>" for vote in votes)
    return {"side": f"<div class='poll'><ul>{bars}</ul></div>"}


def _links(page: Page, texts: list[str], css: str) -> str:
    items = "".join(f"<li><a href='/{n}'>{text}</a></li>" for n, text in enumerate(texts))
    return f"<div class='{css}'><h3>{page.language.labels['most']}</h3><ul>{items}</ul></div>"


def pool_of(page: Page, size: int, salt: int) -> list[str]:
    dice = page.draw(salt)
    return [page.language.sentence(dice, 5)[:-1] for _ in range(size)]


def _advertisement(page: Page, dice: Random) -> str:
    return f"{dice.choice(page.language.goods)} EUR {dice.randint(5, 99)}! {page.language.sentence(dice, 4)}"


def _countdown(page: Page, visit: Visit) -> dict[str, str]:
    left = 86_400 - (visit.at.hour * 3_600 + visit.at.minute * 60 + visit.at.second)
    text = f"{left // 3_600:02}:{left // 60 % 60:02}:{left % 60:02}"
    return {"middle": f"<p>{page.language.labels['offer']} {text}</p>"}


def _uptime(_: Page, visit: Visit) -> dict[str, str]:
    minutes = visit.minutes + 5_000
    return {"end": f"<p>up {minutes // 1_440} days, {minutes // 60 % 24:02}:{minutes % 60:02}</p>"}


NOISES: Final[dict[str, Noise]] = {
    # time
    "a clock": lambda _, v: {"top": f"<div class='bar'>{v.at:%H:%M:%S}</div>"},
    "today's date": lambda p, v: {"top": f"<div class='bar'>{_day(p, v)}</div>"},
    "updated, date and time": lambda p, v: {
        "end": f"<p>{p.language.labels['updated']}: {_day(p, v)} {v.at:%H:%M}</p>"
    },
    "updated, ISO": lambda p, v: {
        "end": f"<p>{p.language.labels['updated']} <time>{v.at:%Y-%m-%dT%H:%M:%SZ}</time></p>"
    },
    "ages of posts": _ages(_long_age),
    "short ages of posts": _ages(_short_age),
    "a countdown": _countdown,
    "a day of the week": lambda p, v: {"top": f"<p>{p.language.weekdays[v.at.weekday()]}!</p>"},
    "an epoch": lambda _, v: {
        "footer": f"<p>build {int(v.at.timestamp())}</p>",
        "end": f"<p>t={int(v.at.timestamp())}</p>",
    },
    "uptime": _uptime,
    "a stamp of the cache": lambda _, v: {
        "end": f"<p>Generated {(v.at - timedelta(minutes=v.minutes % 7)):%H:%M}</p>"
    },
    "days without an incident": lambda _, v: {
        "top": f"<p>{41 + v.minutes // 1_440} days without a fault</p>"
    },
    "weather": lambda p, v: {
        "top": f"<p class='w'>{wandering(p, v, 1, every_min=10, step=0.6, base=14):.0f} °C, "
        f"{wandering(p, v, 2, every_min=10, step=2, base=60):.0f} %</p>"
    },
    "stock prices": lambda p, v: {
        "side": "<ul class='tick'>"
        + "".join(
            f"<li>{name} {wandering(p, v, n, every_min=1, step=0.4, base=100 + n):.2f}</li>"
            for n, name in enumerate(("ABC", "XYZ", "QRS"))
        )
        + "</ul>"
    },
    "departures": _departures,
    "air quality": lambda p, v: {"end": f"<p>AQI {drawn_at(p, v, 60, 3).randint(20, 60)}</p>"},
    "a tip that changes daily": lambda p, v: {
        "end": f"<blockquote>{p.language.sentence(drawn_at(p, v, 1_440, 4), 8)}</blockquote>"
    },
    # counters
    "views": lambda p, v: {"middle": f"<p>{1_200 + v.hits(0.7, p.seed):,} {p.language.labels['views']}</p>"},
    "likes of posts": lambda p, v: {
        f"post {n}": f"{5 + v.hits(0.03 + 0.02 * n, p.seed + n)} {p.language.labels['likes']}"
        for n in range(len(p.posts))
    },
    "visitors online": lambda p, v: {
        "side": f"<p>{drawn_at(p, v, 2, 5).randint(20, 90)} {p.language.labels['online']}</p>",
        "end": f"<p>{drawn_at(p, v, 2, 6).randint(20, 90)} {p.language.labels['online']}</p>",
    },
    "short counter": lambda p, v: {
        "middle": f"<p>{1.2 + v.hits(0.9, p.seed) / 1_000:.2f}k {p.language.labels['views']}</p>"
    },
    "visitors": lambda p, v: {
        "end": f"<p>{p.language.labels['visitors']}: {81_200 + v.hits(0.3, p.seed)}</p>"
    },
    "downloads of rows": lambda p, v: {
        f"row {n}": f"<td>{300 + v.hits(0.2 + 0.1 * n, p.seed + n):,} ↓</td>" for n in range(len(p.rows))
    },
    "funding": lambda p, v: {
        "middle": f"<p>{40 + v.hits(0.01, p.seed)} % · {1_204 + v.hits(0.2, p.seed)} ♥</p>"
    },
    "a vote": _poll,
    "load of the server": lambda p, v: {
        "end": f"<p>load {drawn_at(p, v, 1, 7).random():.2f} {drawn_at(p, v, 5, 8).random():.2f}</p>"
    },
    "response times": lambda p, v: {
        f"row {n}": f"<td>{drawn_at(p, v, 1, 9 + n).randint(20, 400)} ms</td>" for n in range(len(p.rows))
    },
    # each request
    "a session id": lambda _, v: {"end": f"<p>Session ID: {_token(v.dice)}</p>"},
    "a code for support": lambda _, v: {"end": f"<p>Code {_token(v.dice, 8)}</p>"},
    "nonces": lambda _, v: {
        "head": f"<meta content={_token(v.dice)}><script nonce={_token(v.dice)}>x=1</script>",
        "body": f"data-n='{_token(v.dice)}'",
        "end": f"<form><input type=hidden value={_token(v.dice)}></form><a href='/?{_token(v.dice)}'>+</a>",
    },
    "time to make the page": lambda _, v: {
        "end": f"<p>0.{v.dice.randint(100, 999)} s, {v.dice.randint(9, 40)} queries</p>"
    },
    "a saying": lambda p, v: {"end": f"<blockquote>{p.language.sentence(v.dice, 7)}</blockquote>"},
    "advertisements": lambda p, v: {
        "middle": f"<div class='bx'><p>{_advertisement(p, v.dice)}</p>"
        f"<p>{_advertisement(p, v.dice)}</p></div>"
    },
    "advertisements, named": lambda p, v: {
        "middle": f"<div class='ad-slot'><p>{_advertisement(p, v.dice)}</p></div>"
    },
    "a block for half of the visitors": lambda p, v: {
        "top": f"<section class='hero'><p>{p.title} 2 = 1!</p></section>" if v.dice.random() < 0.5 else ""
    },
    "another teaser for half of the visitors": lambda p, v: {
        "top": f"<p class='lead'>{pool_of(p, 2, 11)[v.dice.random() < 0.5]}</p>"
    },
    "suggestions": lambda p, v: {
        "end": "<div class='more'>"
        + "".join(f"<p>{g}</p>" for g in v.dice.sample(p.language.goods, 4))
        + "</div>"
    },
    "who is here": lambda _, v: {"end": f"<p class='who'>@ {', '.join(v.dice.sample(_PEOPLE, 3))}</p>"},
    "links in another order": lambda p, v: {"end": _links(p, v.dice.sample(pool_of(p, 6, 12), 6), "tags")},
    "class names anew": lambda _, v: {
        "class": f"css-{_letters(v.dice)}",
        "end": f"<p class='{_letters(v.dice)}'>{v.dice.randint(100, 999)}</p>",
    },
    "server": lambda p, v: {"end": f"<p>{p.language.labels['served']} web-{v.dice.randint(1, 6):02}</p>"},
    "a captcha": lambda _, v: {"end": f"<p>{v.dice.randint(1, 9)} + {v.dice.randint(1, 9)} = ?</p>"},
    "a banner now and then": lambda p, v: {
        "top": f"<div class='note'><p>{p.language.labels['cart']} · {p.language.labels['read']}</p></div>"
        if v.dice.random() < 0.25
        else ""
    },
    # pools and lists that turn with time
    "most read, hourly": lambda p, v: {
        "side": _links(p, drawn_at(p, v, 60, 13).sample(pool_of(p, 25, 14), 6), "most")
    },
    "viewed by others": lambda p, v: {
        "end": "<div class='seen'><ul>"
        + "".join(f"<li>{text}</li>" for text in drawn_at(p, v, 3, 15).sample(pool_of(p, 30, 16), 4))
        + "</ul></div>"
    },
    "voices of customers": lambda p, v: {
        "middle": f"<blockquote class='voice'>{drawn_at(p, v, 10, 17).choice(pool_of(p, 8, 18))}</blockquote>"
    },
}
