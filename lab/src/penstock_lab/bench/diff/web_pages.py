"""Pages that are never the same twice: their content, what time does to them, and what each visitor gets.

A page is rendered for a moment and a visitor. Kinds of noise and of edits are taken from pages in use, not
from the rules that are measured; those in HELD_OUT are formats that no rule was written for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from html import escape
from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_WORDS: Final = """
harbour council river bridge teacher season market engine winter report village student minister
museum garden player record forest budget hospital weather railway library company science island
journey street kitchen morning concert planet station theatre valley window picture question number
system people after before during under against between quickly slowly often never always again
still almost quite rather opened closed builds found keeps shows brings calls reads holds moves
starts
""".split()  # noqa: SIM905
_GOODS: Final = ("kettle", "lamp", "bicycle", "tent", "piano", "jacket", "camera", "atlas", "ladder", "clock")
_PEOPLE: Final = ("ann", "bob", "zed", "eva", "tim")
START: Final = datetime(2026, 5, 12, 9, 47, 3, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a page, before noise."""

    headline: str
    paragraphs: tuple[str, ...]
    goods: tuple[tuple[str, str, str], ...]
    """(name, price, stock) of each product."""
    comments: tuple[tuple[str, str, int], ...]
    """(name, text, minutes before START) of each comment."""
    event: datetime
    opens: str = "09:00"
    followers: int = 312
    version: str = "4.7.1"
    checksum: str = "9f86d081884c7d659a2feaa0c55ad015"
    telephone: str = "555 0142"
    semantic: bool = True
    """Whether the markup uses main, nav and footer, or div alone."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One fetch of a page: the visitor and the time."""

    at: datetime
    dice: Random = field(compare=False)
    hits: int = 0


def a_page(seed: int) -> Page:
    """Return a page whose content is drawn from the seed."""
    dice = Random(seed)  # noqa: S311  # a fixed workload
    return Page(
        headline=sentence(dice, 6),
        paragraphs=tuple(" ".join(sentence(dice, 12) for _ in range(3)) for _ in range(dice.randint(4, 25))),
        goods=tuple(
            (name, f"{dice.randint(5, 900)}.{dice.randint(10, 99)}", f"{dice.randint(1, 40)} in stock")
            for name in dice.sample(_GOODS, 6)
        ),
        comments=tuple(
            (dice.choice(("Ann", "Bob", "Zoe")), sentence(dice, 9), dice.randint(3, 900)) for _ in range(4)
        ),
        event=START + timedelta(days=dice.randint(20, 300)),
        semantic=dice.random() < 0.6,
    )


def sentence(dice: Random, words: int) -> str:
    """Return a sentence of `words` random words."""
    return " ".join(dice.choice(_WORDS) for _ in range(words)).capitalize() + "."


def rendered(page: Page, visit: Visit, noise: Callable[[Page, Visit], dict[str, str]]) -> bytes:
    """Return the HTML of a page for a visit."""
    slots = {"head": "", "attributes": "", "top": "", "middle": "", "end": "", "footer": ""}
    slots |= noise(page, visit)
    main, nav, foot = ("main", "nav", "footer") if page.semantic else ("div", "div", "div")
    comments = "".join(
        f"<li><b>{name}</b> <span>{slots.get(f'comment {number}', '')}</span> {text}</li>"
        for number, (name, text, _) in enumerate(page.comments)
    )
    goods = "".join(f"<tr><td>{a}</td><td>EUR {b}</td><td>{c}</td></tr>" for a, b, c in page.goods)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(page.headline)}</title>{slots["head"]}</head>
<body {slots["attributes"]}>
<{nav} id="topnav"><ul><li><a href="/">Home</a></li><li><a href="/a">About</a></li></ul></{nav}>
<{main} class="story">{slots["top"]}<h1>{escape(page.headline)}</h1>
{"".join(f"<p>{escape(text)}</p>" for text in page.paragraphs)}
{slots["middle"]}
<p>Concert: {page.event:%d %B %Y}, doors open at {page.opens}. {page.followers} followers of the band.</p>
<p>Version {page.version}, checksum {page.checksum}</p>
<table>{goods}</table><h2>Comments</h2><ul>{comments}</ul>{slots["end"]}</{main}>
<{foot} class="foot"><p>Telephone {page.telephone}</p>{slots["footer"]}</{foot}></body></html>""".encode()


def none(_: Page, __: Visit) -> dict[str, str]:
    """Add no noise."""
    return {}


def _ago(minutes: int) -> str:
    if minutes < 60:
        return f"{minutes} minutes ago"
    return f"{minutes // 60} hours ago" if minutes < 2_880 else f"{minutes // 1_440} days ago"


def _token(dice: Random, size: int = 24) -> str:
    return "".join(dice.choice("0123456789abcdef") for _ in range(size))


def _comments(form: Callable[[int], str]) -> Callable[[Page, Visit], dict[str, str]]:
    def ages(page: Page, visit: Visit) -> dict[str, str]:
        since = int((visit.at - START).total_seconds() // 60)
        return {f"comment {number}": form(one[2] + since) for number, one in enumerate(page.comments)}

    return ages


def _shuffled_attributes(visit: Visit) -> dict[str, str]:
    own = [f'data-n="{_token(visit.dice)}"', 'class="page"', f'data-build="{visit.dice.random()}"']
    visit.dice.shuffle(own)
    return {"attributes": " ".join(own)}


def _advertisement(dice: Random) -> str:
    return f"{dice.choice(_GOODS).capitalize()} for {dice.randint(5, 99)} only! {sentence(dice, 5)}"


NOISE: Final[dict[str, Callable[[Page, Visit], dict[str, str]]]] = {
    "updated, with date": lambda _, v: {"end": f"<p>Last updated: {v.at:%d %B %Y %H:%M}</p>"},
    "updated, American": lambda _, v: {"top": f"<p>Updated {v.at:%b %d, %Y at %I:%M %p}</p>"},
    "time of the server": lambda _, v: {
        "end": f"<div>Server time: <time>{v.at:%Y-%m-%dT%H:%M:%SZ}</time></div>"
    },
    "today's date": lambda _, v: {"top": f"<div class='bar'>{v.at:%A, %d %B %Y}</div>"},
    "a clock": lambda _, v: {"top": f"<div class='bar'>{v.at:%H:%M:%S}</div>"},
    "ages of comments": _comments(_ago),
    "views": lambda _, v: {"middle": f"<p>{1200 + v.hits:,} views</p>"},
    "visitors": lambda _, v: {"footer": f"<p>Visitors: {81_200 + v.hits}</p>"},
    "likes and shares": lambda _, v: {"end": f"<p>{310 + v.hits} likes · {40 + v.hits // 2} shares</p>"},
    "a session id": lambda _, v: {"end": f"<p>Session ID: {_token(v.dice)}</p>"},
    "a request id": lambda _, v: {"footer": f"<p>Request-ID: {_token(v.dice, 16)}</p>"},
    "nonces in scripts and forms": lambda _, v: {
        "head": f"<meta content={_token(v.dice)}><script nonce={_token(v.dice)}>x={v.hits}</script>",
        "end": f"<form><input hidden value={_token(v.dice)}><a href='/?{_token(v.dice)}'>More</a>",
    },
    "attributes in another order": lambda _, v: _shuffled_attributes(v),
    "advertisements in named blocks": lambda _, v: {
        "middle": f"<div class='ad-slot'><p>{_advertisement(v.dice)}</p></div>",
        "end": f"<aside class='sponsored-links'>{_advertisement(v.dice)}</aside>",
    },
    "white space": lambda _, v: {"middle": " \n" * v.dice.randint(0, 9) + "<!-- " + _token(v.dice) + " -->"},
}
"""Kinds of noise that the rules were written for, or close variants of them."""

HELD_OUT: Final[dict[str, Callable[[Page, Visit], dict[str, str]]]] = {
    "ages in Spanish": _comments(lambda minutes: f"hace {minutes} minutos"),
    "short counters": lambda _, v: {"middle": f"<p>{1.2 + v.hits / 1000:.2f}k watching it live</p>"},
    "time to make the page": lambda _, v: {
        "end": f"<p>Page made in 0.{v.dice.randint(100, 999)} s, {v.dice.randint(9, 40)} queries</p>"
    },
    "date in Japanese": lambda _, v: {
        "end": f"<p>{v.at.year}年{v.at.month}月{v.at.day}日 {v.at:%H:%M} 更新</p>"
    },
    "advertisements without a name": lambda _, v: {
        "middle": f"<div class='bx'><p>{_advertisement(v.dice)}</p><p>{_advertisement(v.dice)}</p></div>"
    },
    "a block for half of the visitors": lambda p, v: {
        "top": f"<section class='hero-b'><p>Join {p.headline}</p></section>" if v.dice.random() < 0.5 else ""
    },
    "another headline for half of the visitors": lambda p, v: {
        "top": f"<p class='lead'>{p.paragraphs[0] if v.dice.random() < 0.5 else p.paragraphs[-1]}</p>"
    },
    "you may also like": lambda _, v: {
        "end": "<div class='more'>"
        + "".join(f"<a>{good}</a><br>" for good in v.dice.sample(_GOODS, 4))
        + "</div>"
    },
    "a countdown": lambda _, v: {
        "middle": f"<p>Offer ends in {23 - v.at.hour:02}:{59 - v.at.minute:02}:{59 - v.at.second:02}</p>"
    },
    "a saying on each request": lambda _, v: {"end": f"<blockquote>{sentence(v.dice, 7)}</blockquote>"},
    "who is here": lambda _, v: {
        "end": f"<p class='who'>Here now: {', '.join(v.dice.sample(_PEOPLE, 3))}</p>"
    },
    "a day of the week": lambda _, v: {"top": f"<p>Happy {v.at:%A}!</p>"},
    "a token in the text": lambda _, v: {"end": f"<p>Your code for support: {_token(v.dice, 8)}</p>"},
}
"""Kinds of noise that no rule was written for; some can be learned from two fetches at the same moment."""

EDITS: Final[dict[str, Callable[[Page, Random], Page]]] = {
    "a word": lambda p, d: replace(p, paragraphs=_at(p.paragraphs, d, lambda text: _word(text, d))),
    "a paragraph more": lambda p, d: replace(
        p, paragraphs=(*p.paragraphs[:2], sentence(d, 15), *p.paragraphs[2:])
    ),
    "a paragraph less": lambda p, _: replace(p, paragraphs=p.paragraphs[1:]),
    "the headline": lambda p, d: replace(p, headline=_word(p.headline, d)),
    "a price": lambda p, _: replace(p, goods=(_priced(p.goods[0]), *p.goods[1:])),
    "sold out": lambda p, _: replace(p, goods=(*p.goods[:-1], (*p.goods[-1][:2], "sold out"))),
    "a row more": lambda p, d: replace(
        p, goods=(*p.goods, (f"new {d.choice(_GOODS)}", "10.00", "1 in stock"))
    ),
    "a comment": lambda p, d: replace(p, comments=(*p.comments, ("Eve", sentence(d, 8), 1))),
    "a number in the text": lambda p, d: replace(
        p, paragraphs=(f"{d.randint(3, 99)} people hurt.", *p.paragraphs[1:])
    ),
    "the date of the event": lambda p, d: replace(p, event=p.event + timedelta(days=d.randint(1, 9))),
    "the version": lambda p, _: replace(p, version="4.7.2"),
    "the checksum": lambda p, d: replace(p, checksum=_token(d, 32)),
    "the opening time": lambda p, _: replace(p, opens="10:30"),
}
"""Edits that a subscriber should be told of."""

TRAPS: Final[dict[str, tuple[Callable[[Page, Random], Page], dict[str, object]]]] = {
    "an event moved from tomorrow to today": (
        lambda p, _: replace(p, event=START if p.event.date() != START.date() else START + timedelta(days=1)),
        {"noise": ("ago", "counters", "sessions", "ads")},
    ),
    "followers that matter": (
        lambda p, d: replace(p, followers=p.followers + d.randint(1, 99)),
        {"noise": ()},
    ),
    "a telephone number in the footer": (
        lambda p, d: replace(p, telephone=f"555 {d.randint(1000, 9999)}"),
        {"whole_page": True},
    ),
}
"""Edits that the default rules take for noise or page furniture, and the rule with which each is found."""


def _at(texts: tuple[str, ...], dice: Random, change: Callable[[str], str]) -> tuple[str, ...]:
    place = dice.randrange(len(texts))
    return (*texts[:place], change(texts[place]), *texts[place + 1 :])


def _word(text: str, dice: Random) -> str:
    words = text.split(" ")
    words[dice.randrange(len(words))] = f"re{dice.choice(_WORDS)}ed"
    return " ".join(words)


def _priced(good: tuple[str, str, str]) -> tuple[str, str, str]:
    return good[0], f"{float(good[1]) + 1.5:.2f}", good[2]
