"""Pages in the wild are read: unknown attributes, broken nesting, huge scripts, frames, templates."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.core.channels.difference import Content, Rules, Versions, read
from penstock.errors import ChannelError
from tests.kit.odd_pages import HIDDEN, NEWS, odd_pages

URL = "https://x.example/"
PAGES = dict(odd_pages())


def page(body: bytes | str, content_type: str = "text/html", **rules: bool) -> Content:
    raw = body if isinstance(body, bytes) else body.encode()
    return read(raw, content_type=content_type, url=URL, rules=Rules(**rules))  # type: ignore[arg-type]


def test_there_are_pages_enough() -> None:
    assert len(PAGES) >= 200


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_read_and_its_news_found(name: str) -> None:
    whole = page(PAGES[name], whole_page=True)
    assert whole.kind == "html"
    assert any(NEWS in line for line in whole.lines)
    assert not any(HIDDEN in line for line in whole.lines)
    main = page(PAGES[name])
    assert any(NEWS in line for line in main.lines)
    versions = Versions(URL, Rules())
    versions.receive(main, now_us=1)
    changed = "The bridge stays closed."
    delta = versions.receive(page(PAGES[name].replace(NEWS.encode(), changed.encode())), now_us=2)
    assert delta is not None
    assert any(changed in line for change in delta.changes for line in change.new)


@pytest.mark.parametrize(
    "odd", ["xml:lang='en'", "@click='open()'", ":class='{on: is}'", "*ngIf='a' #b [c]='d'"]
)
def test_odd_attributes_in_a_tag_of_four_kilobytes_are_read(odd: str) -> None:
    many = " ".join(f"data-{n}='a;b,c'" for n in range(450))
    assert len(many) > 4_096
    assert sum(not sign.isalnum() for sign in many) > 1_000
    found = page(
        f"<html {odd}><body><main {odd} {many}><h1 {odd}>Title</h1><p {many} {odd}>{NEWS}</p>"
        f"<foo:bar {odd}>in a tag of its own</foo:bar></main></body></html>"
    )
    assert found.lines == ("Title", NEWS, "in a tag of its own")


def test_a_page_of_frames_names_its_frames() -> None:
    found = page("<frameset><frame src='a.html'><frame src='/b'></frameset>")
    assert found.lines == ("frame a.html", "frame /b")


def test_how_much_of_a_line_is_in_links() -> None:
    found = page("<p>one <a href=/>two</a></p><ul><li><a href=/x>three <b>four</b></a></ul><p>five</p>")
    assert found.lines == ("one two", "three four", "five")
    assert found.linked == (3, 10, 0)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("<p " + " ".join(f"a{n}" for n in range(10_000)) + ">x", "over 1000 attributes"),
        ("<p " + " ".join(f"a{n}='>'" for n in range(10_000)) + ">x", "over 1000 attributes"),
        ("<p>x" * (limits.PAGE_ELEMENTS + 1), "over 150000 elements"),
        ("<div>" * 3_000 + "x", "deeper than 2048 elements"),
    ],
)
def test_what_would_cost_too_much_is_refused(body: str, says: str) -> None:
    with pytest.raises(ChannelError, match=says):
        page(body)


def test_a_script_of_tags_is_not_counted_as_elements() -> None:
    script = "<script>" + "'<p>' + " * (limits.PAGE_ELEMENTS + 1) + "</script>"
    assert page(script + f"<p>{NEWS}</p>").lines == (NEWS,)


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        ("x-sjis", "cp932"),
        ("windows-31j", "cp932"),
        ("Shift_JIS", "cp932"),
        ("x-euc-jp", "euc_jp"),
        ("iso-2022-jp", "iso2022_jp"),
        ("windows-874", "cp874"),
        ("TIS-620", "cp874"),
        ("iso-8859-11", "cp874"),
        ("ks_c_5601-1987", "cp949"),
        ("euc-kr", "cp949"),
        ("gb2312", "gb18030"),
        ("x-gbk", "gb18030"),
        ("big5", "big5hkscs"),
        ("x-x-big5", "big5hkscs"),
        ("iso-8859-1", "cp1252"),
        ("us-ascii", "cp1252"),
        ("latin5", "cp1254"),
        ("x-cp1251", "cp1251"),
        ("koi8-ru", "koi8_u"),
        ("x-mac-cyrillic", "mac_cyrillic"),
        ("macintosh", "mac_roman"),
        ("iso-8859-8-i", "iso8859_8"),
        ("unicode-1-1-utf-8", "utf-8"),
        ("unicode", "utf-16-le"),
    ],
)
def test_labels_mean_what_browsers_mean(label: str, codec: str) -> None:
    signs = "日本語 ไทย 한국어 中文 Привет שלום café €uro ğ ї"
    text = "".join(sign for sign in signs if _fits(sign, codec))
    assert len(text) > 3
    body = f"<p>{text}</p>".encode(codec)
    assert page(body, f"text/html; charset={label}").lines == (" ".join(text.split()),)


def _fits(sign: str, codec: str) -> bool:
    try:
        return sign.encode(codec).decode(codec) == sign
    except UnicodeError:
        return False


@pytest.mark.parametrize("said", ["utf-16", "utf-16le", "utf-32", "unicode"])
def test_a_wide_charset_without_a_zero_byte_is_a_mistake(said: str) -> None:
    assert page("<p>Grüße</p>".encode(), f"text/html; charset={said}").lines == ("Grüße",)
    assert page(f"<meta charset={said}><p>Grüße</p>".encode()).lines == ("Grüße",)


def test_the_document_knows_better_than_a_header_that_its_bytes_contradict() -> None:
    body = "<meta charset=windows-1251><p>Привет</p>".encode("cp1251")
    assert page(body, "text/html; charset=utf-8").lines == ("Привет",)
    assert page("<meta charset=windows-1251><p>Grüße</p>".encode(), "text/html; charset=utf-8").lines == (
        "Grüße",
    )
