"""Lists of feeds: what is read comes back, and nothing else gets in."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import ChannelError
from penstock.node.notify.opml import read_opml, write_opml


def test_folders_repetitions_and_other_spellings() -> None:
    data = b"""<?xml version="1.0" encoding="ISO-8859-1"?>
    <opml version="1.0"><head><title>\xe9</title></head><body>
      <outline text="News"><outline text="A" xmlUrl="https://a.example/feed"/>
        <outline text="B" XMLURL=" https://b.example/?x=1&amp;y=2 "/></outline>
      <outline text="A again" xmlUrl="https://a.example/feed"/>
      <outline text="C" type="link" url="https://c.example/"/><outline text="nothing"/>
    </body></opml>"""
    assert read_opml(data) == ["https://a.example/feed", "https://b.example/?x=1&y=2", "https://c.example/"]


ADDRESSES = st.lists(
    st.text(st.characters(min_codepoint=33, max_codepoint=0x2FFF, exclude_categories=("C", "Z")), min_size=1),
    min_size=1,
    unique=True,
)


@given(ADDRESSES, st.text())
def test_what_is_written_is_read_again(urls: list[str], title: str) -> None:
    written = write_opml([(url, title) for url in urls], title=title)
    assert read_opml(written) == urls
    assert len(ET.fromstring(written).findall(".//outline")) == len(urls)  # noqa: S314  # our own


def test_pages_that_are_no_feeds_are_links_and_come_back_too() -> None:
    written = write_opml([("https://a.example/feed", "A")], title="x", pages=[("https://b.example/", "")])
    found = ET.fromstring(written).findall(".//outline")  # noqa: S314  # our own
    assert [one.get("type") for one in found] == ["rss", "link"]
    assert found[1].get("xmlUrl") is None  # feed readers would take it for a feed
    assert read_opml(written) == ["https://a.example/feed", "https://b.example/"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not XML"),
        (b"<opml><body>", "not XML"),
        (b"<html><body/></html>", "begins with <opml>, not with <html>"),
        (b"<opml><body><outline text='x'/></body></opml>", "no feed in the list"),
        (b'<!DOCTYPE o [<!ENTITY a "aaaa">]><opml><outline xmlUrl="&a;"/></opml>', "not accepted"),
        (b"<opml>" + b"<outline>" * 100, "nested more than"),
        (b'<?xml version="1.0" encoding="nonsense"?><opml/>', "not XML|cannot be read"),
        (b"<opml>" + b" " * limits.OPML_BYTES + b"</opml>", "bytes; at most"),
        (
            b"<opml>" + b"".join(b'<outline xmlUrl="http://a/%d"/>' % n for n in range(10_001)) + b"</opml>",
            "longer than",
        ),
    ],
)
def test_what_is_no_list_is_said(data: bytes, said: str) -> None:
    with pytest.raises(ChannelError, match=said):
        read_opml(data)


@given(st.binary(max_size=200))
def test_bytes_of_strangers_end_in_a_sentence(data: bytes) -> None:
    for one in (data, b"<opml>" + data, b'<opml><outline xmlUrl="' + data + b'"/></opml>'):
        try:
            found = read_opml(one)
        except ChannelError:
            continue
        assert found
