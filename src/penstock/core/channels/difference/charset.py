"""Bytes to text: byte order mark, then what the header says, then what the document says, then UTF-8.

A wrong or unknown name falls through to the next source. What still cannot be decoded becomes U+FFFD, so that
one bad byte does not hide a page.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: it begins with the same two bytes
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HEADER: Final = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_XML: Final = re.compile(rb"^\s{0,16}<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})[\"']")
_META: Final = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_HEAD_BYTES: Final = 4_096
"""Where a document names its charset: HTML asks for the first 1,024 bytes, pages in use take longer."""

# What pages call Latin-1 is Windows-1252 (WHATWG Encoding, 4.2).
_MEANT: Final = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}
_TEXT_CODECS: Final = re.compile(
    r"utf_?-?(?:8|8-sig|16|16-le|16-be|32|32-le|32-be)|cp\d+|iso8859-\d+|iso2022_\w+|koi8-\w+|mac-\w+"
    r"|gb18030|big5\w*|shift_jis\w*|euc_\w+|tis-620|hz|johab|ptcp154|viscii"
)


def decoded(body: bytes, *, content_type: str) -> str:
    """The text of a body; never fails."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return _clean(body[len(mark) :].decode(name, "replace"))
    head = body[:_HEAD_BYTES]
    named = [found.group(1) for found in (_XML.search(head), _META.search(head)) if found]
    header = _HEADER.search(content_type)
    for text in ([header.group(1)] if header else []) + [name.decode("ascii", "replace") for name in named]:
        codec = _codec(text)
        if codec:
            return _clean(body.decode(codec, "replace"))
    if head.startswith((b"<\x00", b"{\x00", b"[\x00")):
        return _clean(body.decode("utf-16-le", "replace"))
    try:
        return _clean(body.decode())
    except UnicodeDecodeError as error:
        # A body cut in the middle of a character is UTF-8 all the same.
        codec = "utf-8" if error.reason == "unexpected end of data" else "cp1252"
        return _clean(body.decode(codec, "replace"))


def _codec(name: str) -> str:
    """The codec of a charset's name; empty if it is unknown or none of text."""
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return ""
    found = _MEANT.get(found, found)
    return found if _TEXT_CODECS.fullmatch(found) else ""


def _clean(text: str) -> str:
    """Without NULs, which end a document for libxml2, and halves of pairs, which cannot be sent on."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    try:
        text.encode()
    except UnicodeEncodeError:  # some codecs let them through
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
