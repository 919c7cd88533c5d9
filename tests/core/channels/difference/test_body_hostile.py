"""Whatever a stranger sends is content or a sentence; nothing is fetched, opened or expanded."""

from __future__ import annotations

import builtins
import socket
import sys
from random import Random
from typing import Any

import msgspec
import pytest

from penstock import limits
from penstock.core.channels.difference import Rules, Versions, html_of, read, text_of, to_json
from penstock.core.channels.difference.content import library
from penstock.core.channels.difference.rules import NOISE
from penstock.errors import ChannelError, MissingTool
from tests.core.channels.difference.hostile import BODIES, FILE, TYPES
from tests.kit.effort import seeds

RULES = Rules()
SELECTING = Rules(css=("p, li",), jsonpath=("$..*",), noise=NOISE, compare_last=5, ignore=("x+y",))


def looked_at(body: bytes, content_type: str, rules: Rules = RULES) -> str:
    """All that is done with a body; what is said if it cannot be read."""
    try:
        content = read(body, content_type=content_type, url="https://x.example/", rules=rules)
    except ChannelError as error:
        return str(error)
    versions = Versions("https://x.example/", rules)
    delta = versions.receive(content, now_us=1_778_580_000_000_000)
    assert delta is not None
    to_json(delta), text_of(delta), html_of(delta)
    other = msgspec.structs.replace(content, lines=content.lines[1:], places=content.places[1:])
    for number in range(1, 4):
        versions.look(content, beside=other, now_us=1_778_580_000_000_000 + number)
    assert versions.receive(content, now_us=1_778_580_000_000_009) is None
    return ""


@pytest.mark.parametrize("tag", ["item", "entry", "a:Item"])
def test_a_feed_of_more_items_than_anybody_reads_is_refused_unread(tag: str) -> None:
    def said(count: int) -> str:
        items = "".join(f"<{tag}><guid>{number}</guid></{tag}>" for number in range(count))
        feed = f'<rss version="2.0" xmlns:a="x"><channel><title>x</title>{items}</channel></rss>'
        return looked_at(feed.encode(), "application/rss+xml")

    assert said(10) == ""
    assert said(limits.FEED_ITEMS_READ + 1) == "https://x.example/: the feed has over 10000 items"


@pytest.fixture
def no_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Any:
        raise AssertionError("a body made us open something")

    for body in SEEDS:  # what libraries load on first use is no answer to a body
        looked_at(body, "")
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(builtins, "open", refuse)


HEAVY = {"many paragraphs", "an RSS of empty items", "open formatting", "many JSON values"}
"""Up to the bounds of what is read at all."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in HEAVY else name for name in BODIES]
)
def test_every_hostile_body_ends(name: str, no_way_out: None) -> None:
    said = [looked_at(BODIES[name], content_type) for content_type in TYPES[:3]]
    said.append(looked_at(BODIES[name], "", SELECTING))
    assert all(one.startswith("https://x.example/: ") and one.isprintable() for one in said if one)


def test_no_file_gets_into_a_feed() -> None:
    content = read(FILE, content_type="", url="https://x.example/", rules=RULES)
    assert all("/" not in line and len(line) < 10 for line in content.lines)


SEEDS = [
    BODIES["entities that multiply"],
    b"<html><body><main><h1>T</h1><p>a <b>b</b></p><table><tr><td>1</table></main></body></html>",
    b'{"a": [1, {"id": "x", "v": null}], "b": "\\u00e4"}',
    b'{"version": "https://jsonfeed.org/version/1", "items": [{"id": "1", "content_html": "<p>x</p>"}]}',
    b"<rss version='2.0'><channel><title>T</title><item><guid>1</guid><title>a</title></item></channel>",
    "<feed xmlns='http://www.w3.org/2005/Atom'><entry><id>1</id><title>ä</title></entry></feed>".encode(
        "utf-16"
    ),
]


@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_a_body_cut_anywhere_ends(seed: int) -> None:
    body = SEEDS[seed]
    for end in range(0, len(body), max(1, len(body) // 25)):
        looked_at(body[:end], "")


def mangled(seed: int) -> bytes:
    dice = Random(seed)
    body = bytearray(dice.choice(SEEDS))
    for _ in range(dice.randint(1, 12)):
        place = dice.randrange(len(body) + 1)
        piece = dice.choice(
            [b"<", b">", b"&", b"\x00", b"\xff", b"]]>", b"<![CDATA[", b"'", b'"', b"{", b"[", b"\\ud800"]
        )
        match dice.randrange(4):
            case 0:
                body[place:place] = piece * dice.randint(1, 50)
            case 1:
                del body[place : place + dice.randint(1, 30)]
            case 2:
                other = dice.choice(SEEDS)
                body[place:place] = other[: dice.randrange(len(other))]
            case _:
                body[place : place + 1] = bytes([dice.randrange(256)])
    return bytes(body)


@pytest.mark.parametrize("part", range(4))
def test_mangled_bodies_end(part: int) -> None:
    for seed in range(part * 40, part * 40 + 40):
        looked_at(mangled(seed), TYPES[seed % len(TYPES)])


@pytest.mark.slow
def test_thousands_of_mangled_bodies_end() -> None:
    for seed in seeds(0, 5_000):
        looked_at(mangled(seed), TYPES[seed % len(TYPES)], SELECTING if seed % 3 == 0 else RULES)


def test_a_missing_library_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lxml", None)
    library.cache_clear()
    with pytest.raises(MissingTool, match=r"lxml.*pip install 'penstock\[channels\]'"):
        library("lxml.etree2")
    library.cache_clear()
