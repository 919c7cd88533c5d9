"""Feeds as they are in use: broken, misdeclared, with markup where none belongs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.channels.difference import Content, Rules, Versions, read
from penstock.core.channels.difference.feed import _FRAGMENT, text_lines
from penstock.core.channels.difference.html import page_lines, tree_of
from penstock.errors import ChannelError

URL = "https://x.example/feeds/all.xml"
NOW_US = 1_778_580_000_000_000


def feed(body: str | bytes, content_type: str = "application/rss+xml") -> Content:
    raw = body.encode() if isinstance(body, str) else body
    return read(raw, content_type=content_type, url=URL, rules=Rules())


def rss(*items: str, head: str = "<title>T</title>", root: str = '<rss version="2.0">') -> str:
    return f"{root}<channel>{head}{''.join(f'<item>{each}</item>' for each in items)}</channel></rss>"


def numbered(count: int) -> list[str]:
    return [
        f"<guid isPermaLink='false'>g{n}</guid><title>Item {n}</title><link>https://x.example/{n}</link>"
        f"<description>&lt;p&gt;Text of {n}.&lt;/p&gt;</description>"
        for n in range(count)
    ]


def told(before: str, after: str) -> list[tuple[str, str]]:
    """The reported change of a feed from one text to another."""
    versions = Versions(URL, Rules())
    versions.receive(feed(before), now_us=NOW_US)
    delta = versions.receive(feed(after), now_us=NOW_US + 1)
    return [] if delta is None else [(item.kind, item.title) for item in delta.items]


def test_an_entity_that_nobody_declared_harms_nothing_behind_it() -> None:
    new = "<guid isPermaLink='false'>n</guid><title>Caf&eacute; &nosuch; &amp; bar</title>"
    after = rss(new, *numbered(20))
    assert told(rss(*numbered(20)), after) == [("new", "Café &nosuch; & bar")]
    assert feed(after).items[7].lines == ("Item 6", "Text of 6.")


def test_an_edit_is_found_wherever_it_is_in_a_long_item() -> None:
    paragraphs = [f"Paragraph {n} tells of the river and of the lamp." for n in range(8_000)]
    markup = "".join(f"&lt;p&gt;{each}&lt;/p&gt;" for each in paragraphs)
    assert sum(map(len, paragraphs)) > limits.ITEM_CHARS
    before = rss(f"<guid>a</guid><title>Long</title><description>{markup}</description>", *numbered(3))
    for edited in (
        before.replace("Paragraph 7999 tells", "Paragraph 7999 lies"),
        before.replace("Paragraph 3 tells", "Paragraph 3 lies"),
        before.replace("</description>", "&lt;p&gt;Appended.&lt;/p&gt;</description>", 1),
    ):
        assert told(before, edited) == [("changed", "Long")]
    assert told(before, before.replace("&lt;p&gt;", "&lt;p data-track='0815'&gt;")) == []
    assert told(before, before.replace("&lt;p&gt;", "\n  &lt;p&gt;  ")) == []


def test_items_without_id_and_with_one_link_stay_apart() -> None:
    items = [
        f"<title>Notice {n}</title><link>https://x.example/notices</link><description>n{n}</description>"
        for n in range(3)
    ]
    assert [item.title for item in feed(rss(*items)).items] == ["Notice 0", "Notice 1", "Notice 2"]
    assert told(rss(*items[1:]), rss(*items)) == [("new", "Notice 0")]
    assert told(rss(items[2]), rss(*items[1:])) == [("new", "Notice 1")]
    assert told(rss(*items), rss(items[0].replace("n0", "edited"), *items[1:])) == [("changed", "Notice 0")]


@pytest.mark.parametrize("dated", [True, False])
@pytest.mark.parametrize("place", [2, 5])
def test_an_older_item_that_takes_the_place_of_a_removed_one_is_not_new(dated: bool, place: int) -> None:
    items = numbered(12)
    if dated:
        items = [f"{each}<pubDate>{28 - n} May 2026 09:00:00 GMT</pubDate>" for n, each in enumerate(items)]
    shown = [*items[:place], *items[place + 1 :]][:10]
    assert told(rss(*items[:10]), rss(*shown)) == [("gone", f"Item {place}")]
    if dated:
        assert told(rss(*items[:10]), rss(*items[1:11])) == [("gone", "Item 0")]
    assert told(rss(*items[11:1:-1]), rss(*items[10:0:-1])) == [("new", "Item 1")]  # it grows at its end


@pytest.mark.parametrize("make", ["?guid=g{}", "urn:uuid:00{}", "https://x.example/{}"])
def test_ids_that_are_made_anew_are_not_new_items(make: str) -> None:
    before = numbered(10)
    after = [each.replace(f">g{n}<", f">{make.format(n)}<") for n, each in enumerate(before)]
    assert told(rss(*before), rss(*after)) == []
    new = "<guid>fresh</guid><title>News</title><link>https://x.example/fresh</link>"
    assert told(rss(*before), rss(new, *after[:-1])) == [("new", "News")]
    edited = [after[0].replace("Text of 0", "Other text of 0"), *after[1:]]
    assert told(rss(*before), rss(*edited)) == [("changed", "Item 0")]


def test_the_next_item_under_the_one_link_of_a_feed_is_new() -> None:
    one = (
        "<guid>1</guid><title>Down</title><link>https://x.example/status</link>"
        "<pubDate>{} May 2026 09:00:00 GMT</pubDate>"
    )
    again = one.replace("<guid>1<", "<guid>2<")
    assert told(rss(one.format(11)), rss(again.format(12))) == [("new", "Down")]


def test_tracking_parameters_in_links_do_not_make_items_new() -> None:
    items = [
        f"<title>Item {n}</title><link>https://x.example/?p={n}&amp;utm_source=MARK</link>" for n in range(5)
    ]
    assert told(rss(*items), rss(*items).replace("MARK", "other")) == []
    assert len(feed(rss(*items)).items) == 5


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("<title>a <b>bold</b> word</title>", "a bold word"),
        (
            '<title type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">in <i>XHTML</i></div></title>',
            "in XHTML",
        ),
        ("<title><![CDATA[in <i>CDATA</i> & more]]></title>", "in CDATA & more"),
        ("<title>1 &lt; 2 &amp;&amp; 3 > 2</title>", "1 < 2 && 3 > 2"),
        ("<title>twice &amp;amp; escaped &amp;eacute;</title>", "twice & escaped é"),
        ("<title>AT&T and R&D</title>", "AT&T and R&D"),
        ('<title type="text">Use &lt;b&gt; for bold</title>', "Use <b> for bold"),
        ("<title/><dc:title>of Dublin</dc:title>", "of Dublin"),
        ("<media:title>not this</media:title><title>this</title>", "this"),
        ("<source><title>not this</title></source><title>this</title>", "this"),
    ],
)
def test_titles_in_every_spelling(raw: str, plain: str) -> None:
    assert feed(rss(f"<guid>1</guid>{raw}")).items[0].title == plain


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        ("<description><p>inline</p><p>markup</p></description>", ("inline", "markup")),
        (
            "<content:encoded><![CDATA[<p>one</p><table><tr><td>2<td>3</table>]]></content:encoded>",
            ("one", "2 | 3"),
        ),
        (
            "<description>short</description><content:encoded>a longer text</content:encoded>",
            ("a longer text",),
        ),
        ("<description>&lt;script&gt;no&lt;/script&gt;yes</description>", ("yes",)),
        ("<description>one & two <b></description>", ("one & two",)),
        ("<description>never closed <b>at all", ("never closed at all",)),
        ("<media:group><media:description>of a video</media:description></media:group>", ("of a video",)),
        ("<description><![CDATA[<!ENTITY x SYSTEM 'file:///etc/passwd'> &x;]]></description>", ("&x;",)),
    ],
)
def test_texts_in_every_spelling(raw: str, lines: tuple[str, ...]) -> None:
    items = feed(rss(f"<guid>1</guid><title>t</title>{raw}", "<guid>2</guid><title>next</title>")).items
    assert (items[0].lines[1:], items[1].title) == (lines, "next")


@pytest.mark.parametrize(
    ("head", "link", "found"),
    [
        ("", "/a", "https://x.example/a"),
        ("", "a", "https://x.example/feeds/a"),
        ("<link>https://site.example/blog/</link>", "a", "https://site.example/blog/a"),
        ("<link>/</link>", "//cdn.example/a", "https://cdn.example/a"),
        ("", "javascript:alert(1)", ""),
        ("", "//[broken", ""),
    ],
)
def test_relative_links_are_resolved(head: str, link: str, found: str) -> None:
    assert (
        feed(rss(f"<guid isPermaLink='false'>1</guid><link>{link}</link>", head=head)).items[0].link == found
    )


def test_xml_base_is_the_base_of_links() -> None:
    atom = (
        '<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://base.example/x/"><title>t</title>'
        '<entry xml:base="y/"><id>1</id><link rel="enclosure" href="song"/><link href="a"/></entry></feed>'
    )
    assert feed(atom).items[0].link == "https://base.example/x/y/a"


@pytest.mark.parametrize(
    "front",
    [
        "\n\n  ",
        "Warning: Undefined variable $x in /srv/feed.php on line 3\n",
        "<br />\n<b>Notice</b>: session had already been started in <b>x.php</b> on line <b>3</b><br />\n",
        "<!-- cached --><?xml version='1.0'?><?xml-stylesheet href='<rss>'?>",
    ],
)
def test_text_in_front_of_a_feed_does_not_hide_it(front: str) -> None:
    found = feed(front + "<?xml version='1.0'?>" + rss(*numbered(2)), "text/html; charset=utf-8")
    assert (found.kind, [item.id for item in found.items]) == ("feed", ["g0", "g1"])


def test_a_page_that_quotes_a_feed_is_a_page() -> None:
    page = "<html><body><p>Write</p><rss version='2.0'><p>first</p></body></html>"
    assert feed(page, "text/html").kind == "html"


def test_utf_16_that_is_none() -> None:
    body = '<?xml version="1.0" encoding="utf-16"?>' + rss("<guid>1</guid><title>Grüße</title>")
    assert feed(body.encode()).items[0].title == "Grüße"
    assert feed(body.encode("utf-16")).items[0].title == "Grüße"


@pytest.mark.parametrize(
    "declared", ["", "<!DOCTYPE rss [<!ENTITY mine 'x<item><guid>evil</guid></item>'>]>", "<!DOCTYPE rss>"]
)
def test_declared_entities_are_not_expanded(declared: str) -> None:
    found = feed(f"<?xml version='1.0'?>{declared}" + rss("<guid>1</guid><title>&mine; text</title>"))
    assert [item.title for item in found.items if item.id == "1"] == ["&mine; text"]


def test_a_feed_cut_within_an_item_keeps_the_items_before() -> None:
    whole = rss(*numbered(5))
    found = feed(whole[: whole.index("Text of 4")])
    assert [item.id for item in found.items] == ["g0", "g1", "g2", "g3", "g4"]
    with pytest.raises(ChannelError, match="neither items nor a title"):
        feed("<rss version='2.0'><channel></channel></rss>")


def test_items_that_share_an_id_and_lead_elsewhere_stay_apart() -> None:
    items = [f"<guid>0</guid><title>{n}</title><link>https://x.example/{n}</link>" for n in range(3)]
    assert [item.title for item in feed(rss(*items)).items] == ["0", "1", "2"]


WORDS = st.one_of(
    st.sampled_from(
        ["&amp;", "&eacute;", "&#8217;", "word, more.words", "<br>", "<br/>", "<img src='x'>", "<hr>"]
    ),
    st.text(" ab\n\u00a0é&;", max_size=8),
)


def element(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    tags = [
        *(("<" + tag + ">", "</" + tag + ">") for tag in ("b", "i", "blockquote", "div", "span", "SECTION")),
        ("<a href='/x?a=1&amp;b=2'>", "</a>"),
        ("<ul><li>", "</li></ul>"),
        ("<ol><li>one<li>", "</ol>"),
    ]
    return st.builds(
        lambda tag, parts: f"{tag[0]}{' '.join(parts)}{tag[1]}",
        st.sampled_from(tags),
        st.lists(inner, max_size=4),
    )


@given(st.lists(st.recursive(WORDS, element, max_leaves=12), max_size=6))
def test_simple_markup_gives_the_lines_that_the_parser_gives(parts: list[str]) -> None:
    markup = "<p>" + " ".join(parts)
    assert text_lines(markup) == page_lines(tree_of(markup), _FRAGMENT).lines
