"""Bodies of every kind become lines, with their charset, their title and what feeds say about themselves."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.channels.difference import Content, Rules, read
from penstock.core.channels.difference.charset import decoded
from penstock.core.channels.difference.content import FeedHints, cleaned, pieces
from penstock.errors import ChannelError

URL = "https://x.example/"


def page(body: str | bytes, content_type: str = "text/html", **rules: Any) -> Content:
    raw = body.encode() if isinstance(body, str) else body
    return read(raw, content_type=content_type, url=URL, rules=Rules(**rules).check())


HTML = """<!doctype html><html><head><title> A  page </title><script>var x = 1</script>
<meta property="article:modified_time" content="2026-05-12T10:00:00Z"></head><body>
<nav><a href=/>Home</a></nav>
<main><h1>Head<span>line</span></h1>
<p>Some <b>bold</b>
   text<br>and more</p><ul><li>one<li>two</ul>
<table><tr><th>Name<th>Price<tr><td>Lamp<td>12.50</table>
<div class="ad-slot">Buy!</div><div id=GoogleAds>Buy!</div>
<p style="display: none">hidden</p><p hidden>hidden</p>
<pre>a  b
 c</pre><div class="shadow header-address">kept</div></main>
<aside>beside</aside><footer>Imprint</footer></body></html>"""


def test_a_page_is_its_main_content_line_by_line() -> None:
    found = page(HTML)
    assert found.kind == "html"
    assert found.title == "A page"
    assert found.modified_us == 1_778_580_000_000_000
    assert found.lines == (
        "Headline",
        "Some bold text",
        "and more",
        "one",
        "two",
        "Name | Price",
        "Lamp | 12.50",
        "a b",
        "c",
        "kept",
    )
    assert len(found.places) == len(found.lines)
    assert found.places[3] == found.places[4] != found.places[0]


def test_the_whole_page_and_its_advertisements_if_asked_for() -> None:
    lines = page(HTML, whole_page=True).lines
    assert ("Home" in lines, "beside" in lines, "Imprint" in lines, "Buy!" in lines) == (
        True,
        True,
        True,
        False,
    )
    assert "Buy!" in page(HTML, noise=()).lines
    assert not any(
        "hidden" in line or "var x" in line for line in page(HTML, whole_page=True, noise=()).lines
    )


def test_a_page_without_a_main_element_is_all_but_its_furniture() -> None:
    found = page(
        "<div id=sidebar>no</div><div role=navigation>no</div><div>yes</div><div class=footer>no</div>"
    )
    assert found.lines == ("yes",)
    assert page("<nav>only this</nav>").lines == ("only this",)


def test_a_row_is_one_line_whatever_is_in_its_cells() -> None:
    rows = "<tr>\n<td>\n<p>a</p>\n</td>\n<td><div>b <i>c</i></div></td>\n<td></td><td>d</td></tr>"
    assert page(f"<table>{rows}</table>").lines == ("a | b c | | d",)
    assert page("<table><tr><td><p>a</p><p>b</p><td>c</table>").lines == ("a", "b", "c")


def test_a_frame_is_not_left_out_for_its_name() -> None:
    framed = (
        "<div class='layout with-sidebar no-ads'><p>The story of the day is long.</p>"
        "<div class='sidebar'>no</div><div class=ads>no</div></div>"
    )
    assert page(framed).lines == ("The story of the day is long.",)


@pytest.mark.parametrize(
    ("rules", "lines"),
    [
        ({"css": ("table tr:nth-child(2) td:last-child",)}, ("12.50",)),
        ({"css": ("li", "h1")}, ("Headline", "one", "two")),
        ({"css": ("ul", "li")}, ("one", "two")),
        ({"xpath": ("//td[2]",)}, ("12.50",)),
        ({"xpath": ("count(//li)",)}, ("2",)),
        ({"xpath": ("//td[1]/text()",)}, ("Lamp",)),
        ({"xpath": ("//td/following-sibling::td[1]",)}, ("12.50",)),
        ({"xpath": ("//td[.='Lamp']/following-sibling::td",)}, ("12.50",)),
        ({"xpath": ("//td[preceding-sibling::td]",)}, ("12.50",)),
        ({"xpath": ("//main//p[1]",), "css": ("h1",)}, ("Headline", "Some bold text", "and more")),
        ({"css": ("footer",)}, ("Imprint",)),
        ({"css": ("ul",), "exclude_css": ("li:first-child",)}, ("two",)),
        ({"css": ("table",), "exclude_xpath": ("//tr[1]",)}, ("Lamp | 12.50",)),
        ({"css": ("li", "table"), "ignore": ("^two$", r"\d\d\.\d\d")}, ("one", "Name | Price")),
    ],
)
def test_selectors_choose_in_the_order_of_the_page(rules: dict[str, Any], lines: tuple[str, ...]) -> None:
    assert page(HTML, **rules).lines == lines


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"css": ("p", "p[")}, r"rules.css\[1\]: 'p\['"),
        ({"xpath": ("//p[",)}, r"rules.xpath\[0\]"),
        ({"xpath": ("//a//b//c//d",)}, "whole page"),
        ({"xpath": ("//p/following-sibling::p",)}, r"following-sibling::…\[1\]"),
        ({"xpath": ("//p[1]/a/preceding :: node()",)}, "all its neighbours"),
        ({"xpath": ("re:test(., 'a')",)}, "cannot be used on this page"),
        ({"css": (":not(a):not(b):not(c):not(d)",)}, "several selectors"),
        ({"jsonpath": ("$.[",)}, r"rules.jsonpath\[0\]"),
        ({"jsonpath": ("$[?match(@, 'a')]",)}, r"rules.jsonpath\[0\]"),
        ({"ignore": ("ok", "(?=x)")}, r"rules.ignore\[1\].*RE2"),
        ({"css": ("x" * 600,)}, "at most 512"),
        ({"css": ("",)}, "empty"),
        ({"css": ("p",) * 33}, "33 entries"),
        ({"noise": ("clocks", "weather")}, r"rules.noise\[1\].*weather"),
        ({"compare_last": 0}, "rules.compare_last"),
        ({"css": (".gone",)}, "finds nothing"),
    ],
)
def test_a_bad_rule_is_named(rules: dict[str, Any], says: str) -> None:
    with pytest.raises(ChannelError, match=says):
        page(HTML, **rules)


def test_json_is_a_line_per_value_whatever_the_order_of_names() -> None:
    one = page('{"b": [1, {"id": "x", "v": null}], "a": {"n": "text", "e": {}}}', "application/json")
    two = page('{"a": {"e": {}, "n": "text"}, "b": [1, {"v": null, "id": "x"}]}', "application/json")
    assert one.kind == "json"
    assert one.lines == ("a.e: {}", "a.n: text", "b[]: 1", "b[x].id: x", "b[x].v: null") == two.lines


def test_jsonpath_chooses_and_leaves_out() -> None:
    body = '{"items": [{"id": 1, "price": 2, "at": 9}, {"id": 2, "price": 3, "at": 9}], "took": 5}'
    assert page(body, "application/json", jsonpath=("$.items[*].price",)).lines == ("2", "3")
    left = page(body, "application/json", exclude_jsonpath=("$..at", "$.took")).lines
    assert left == ("items[1].id: 1", "items[1].price: 2", "items[2].id: 2", "items[2].price: 3")
    with pytest.raises(ChannelError, match=r"rules.jsonpath\[0\].*finds nothing"):
        page(body, "application/json", jsonpath=("$.gone",))


def test_text_is_its_lines() -> None:
    found = page("one\r\n\r\n  two\u200b  words\n", "text/plain")
    assert (found.kind, found.lines) == ("text", ("one", "two words"))
    assert page('{"broken": ', "text/plain").kind == "text"


RSS = """<?xml version="1.0" encoding="iso-8859-1"?>
<!DOCTYPE rss PUBLIC "-//Netscape//DTD RSS 0.91//EN" "http://127.0.0.1:1/rss.dtd">
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" xmlns:sy="http://purl.org/rss/1.0/modules/syndication/">
<channel><title>News &amp; more</title><link>https://x.example/</link><description>d</description><ttl>60</ttl>
<atom:link rel="hub" href="https://hub.example/"/><atom:link rel="self" href="https://x.example/feed"/>
<sy:updatePeriod>daily</sy:updatePeriod><sy:updateFrequency>4</sy:updateFrequency>
<skipHours><hour>3</hour><hour>24</hour><hour>99</hour></skipHours><skipDays><day>Sunday</day><day>x</day></skipDays>
<lastBuildDate>Tue, 12 May 2026 10:00:00 GMT</lastBuildDate>
<item><title>Caf\xe9 opens</title><guid isPermaLink="false">a</guid><link>https://x.example/a</link>
<description>&lt;p&gt;First&lt;/p&gt;&lt;script&gt;no&lt;/script&gt;&lt;p&gt;second&lt;/p&gt;</description>
<pubDate>Tue, 12 May 2026 09:00:00 GMT</pubDate></item>
<item><title>No id</title><link>https://x.example/b</link>
<pubDate>Mon, 11 May 2026 09:00:00 GMT</pubDate></item>
<item><title>Again</title><guid isPermaLink="false">a</guid></item>
</channel></rss>"""


def test_rss_is_items_and_what_it_says_about_itself() -> None:
    found = page(RSS.encode("latin-1"), "text/html")
    assert (found.kind, found.title, found.hub) == ("feed", "News & more", "https://hub.example/")
    assert found.self_url == "https://x.example/feed"
    assert [(item.id, item.title, item.link) for item in found.items] == [
        ("a", "Café opens", "https://x.example/a"),
        ("https://x.example/b", "No id", "https://x.example/b"),
    ]
    assert found.items[0].lines == ("Café opens", "First", "second")
    assert found.lines == ("Café opens", "First", "second", "No id")
    times = (1_778_576_400_000_000, 1_778_490_000_000_000)
    assert found.hints == FeedHints(3_600, (0, 3), (6,), 21_600, times)
    assert found.modified_us == 1_778_580_000_000_000


ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>A</title><id>urn:f</id><updated>2026-05-12T10:00:00Z</updated>
<link rel="self" href="https://x.example/atom"/>
<entry><id>urn:1</id><title type="html">&lt;b&gt;T&lt;/b&gt;</title>
<link href="https://x.example/1"/><updated>2026-05-12T09:00:00Z</updated>
<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>one</p></div></content></entry></feed>"""
RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
<channel rdf:about="https://x.example/"><title>R</title><link>https://x.example/</link></channel>
<item rdf:about="urn:1"><title>T</title><link>https://x.example/1</link><description>one</description></item></rdf:RDF>"""
OLD = """<rss version="0.91"><channel><title>O</title><link>https://x.example/</link>
<item><title>T</title><link>https://x.example/1</link><description>one</description></item></channel></rss>"""
JSON_FEED = """{"version": "https://jsonfeed.org/version/1.1", "title": "J", "feed_url": "https://x.example/j",
"hubs": [{"type": "WebSub", "url": "https://hub.example/"}], "items": [{"id": 1, "title": "T",
"url": "https://x.example/1", "content_html": "<p>one</p>",
"date_published": "2026-05-12T09:00:00Z"}, 7, {}]}"""


@pytest.mark.parametrize(
    ("body", "own", "link"),
    [(ATOM, "urn:1", "1"), (RDF, "urn:1", "1"), (OLD, "https://x.example/1", "1"), (JSON_FEED, "1", "1")],
    ids=["atom", "rdf", "0.91", "json feed"],
)
def test_every_kind_of_feed_gives_items(body: str, own: str, link: str) -> None:
    (item,) = page(body, "application/octet-stream").items
    assert (item.id, item.title, item.link) == (own, "T", f"https://x.example/{link}")
    assert item.lines == ("T", "one")


def test_a_broken_feed_is_read_by_the_patient_reader() -> None:
    broken = OLD.replace("<description>one", "<description>one & two <b>")
    assert page(broken, "text/xml").items[0].title == "T"


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("\ufeffä".encode(), "text/plain; charset=latin-1", "ä"),
        ("ä".encode("utf-16"), "", "ä"),
        ("ä".encode("utf-32"), "", "ä"),
        (b"\xe4", "text/plain; charset=ISO-8859-1", "ä"),
        (b"\x80", "text/plain; charset=latin1", "€"),
        (b"<meta charset='windows-1251'>\xc4", "text/html", "<meta charset='windows-1251'>Д"),
        (b"<?xml version='1.0' encoding='koi8-r'?>\xc4", "", "<?xml version='1.0' encoding='koi8-r'?>д"),
        ("<p>ä".encode("utf-16-le"), "", "<p>ä"),
        (b"\xe4 \xf6", "text/plain; charset=nobody-knows", "ä ö"),
        ("aä".encode()[:-1], "", "a\ufffd"),
        ("ä".encode(), "text/plain; charset=base64", "ä"),
        (b"+AGE-", "text/plain; charset=utf-7", "+AGE-"),
        (b"a\x00b", "", "ab"),
    ],
)
def test_charsets(body: bytes, content_type: str, text: str) -> None:
    assert decoded(body, content_type=content_type) == text


@pytest.mark.parametrize(
    ("body", "content_type", "kind"),
    [
        (
            "<!-- x --><?xml?><!DOCTYPE rss [<!ELEMENT x ANY>]><rss><channel><item><title>t</title></item>",
            "",
            "feed",
        ),
        (
            "<a:feed xmlns:a='http://www.w3.org/2005/Atom'><a:entry><a:id>x</a:id></a:entry></a:feed>",
            "",
            "feed",
        ),
        ("<p>x", "application/octet-stream", "html"),
        ("<p>x", "text/plain", "text"),
        ("[1]", "", "json"),
        ("12", "application/problem+json", "json"),
        ("hello", "text/html", "html"),
        ("hello", "", "text"),
    ],
)
def test_what_a_body_is_by_its_looks(body: str, content_type: str, kind: str) -> None:
    assert page(body, content_type).kind == kind


@pytest.mark.parametrize(
    ("body", "content_type", "says"),
    [
        (b"", "text/html", "empty"),
        (b"%PDF-1.7 ...", "application/octet-stream", "not text"),
        (b"GIF89a", "image/gif", "image/gif has no lines"),
        (b"{", "application/json", "not JSON"),
        (b"<script>document.write('x')</script>", "text/html", "scripts generate it"),
        (b"<rss></rss>", "", "cannot be read"),
        (b"x" * ((8 << 20) + 1), "text/plain", "8388609 bytes"),
        (b"x\n" * 20_001, "text/plain", "more than 20000 lines"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_address(body: bytes, content_type: str, says: str) -> None:
    with pytest.raises(ChannelError, match=f"^https://x.example/: .*{says}"):
        page(body, content_type)


def test_a_long_line_is_cut_after_sentences() -> None:
    lines = page("A sentence of words. " * 300, "text/plain").lines
    assert len(lines) == 4
    assert all(len(line) <= 2_000 and line.endswith(".") for line in lines)


@given(st.lists(st.text("ab. é", min_size=1, max_size=40), max_size=60))
def test_a_line_that_is_too_long_is_cut_and_nothing_is_lost(words: list[str]) -> None:
    line = cleaned(" ".join(words) + "x" * 30)
    with patch.object(limits, "LINE_CHARS", 24):
        found = list(pieces(line))
        assert all(0 < len(piece) <= limits.LINE_CHARS for piece in found)
        assert all(piece == piece.strip() for piece in found)
    assert "".join(found).replace(" ", "") == line.replace(" ", "")
