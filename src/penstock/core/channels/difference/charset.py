"""The charset of a body: a byte order mark, else the header, else the document, else UTF-8.

Labels mean what browsers mean by them (WHATWG Encoding, 4.2): "iso-8859-1" is Windows-1252, "shift_jis" is
what Windows writes. A label that is unknown, or that the bytes contradict, falls through to the next source.
Bytes that still cannot be decoded become U+FFFD, so that one bad byte does not hide a page.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is its first two bytes
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HEADER: Final = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_XML: Final = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']\s*([\w.:-]{1,40})\s*[\"']")
_META: Final = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_HEAD_BYTES: Final = 4_096
"""Bytes searched for a document's charset: HTML requires it in the first 1,024, pages in use need more."""

_MEANT: Final = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
"""Codecs that browsers replace by a larger one."""

_LABELS: Final = {
    "x-sjis": "cp932",
    "windows-31j": "cp932",
    "ms_kanji": "cp932",
    "x-euc-jp": "euc_jp",
    "cseucpkdfmtjapanese": "euc_jp",
    "windows-874": "cp874",
    "dos-874": "cp874",
    "windows-949": "cp949",
    "ks_c_5601-1987": "cp949",
    "ks_c_5601-1989": "cp949",
    "ksc_5601": "cp949",
    "korean": "cp949",
    "x-gbk": "gb18030",
    "gb_2312": "gb18030",
    "gb_2312-80": "gb18030",
    "chinese": "gb18030",
    "x-x-big5": "big5hkscs",
    "cn-big5": "big5hkscs",
    "macintosh": "mac-roman",
    "mac": "mac-roman",
    "x-mac-roman": "mac-roman",
    "x-mac-cyrillic": "mac-cyrillic",
    "x-mac-ukrainian": "mac-cyrillic",
    "koi": "koi8-r",
    "koi8": "koi8-r",
    "koi8-ru": "koi8-u",
    "iso-8859-8-i": "iso8859-8",
    "iso-8859-8-e": "iso8859-8",
    "iso-8859-6-i": "iso8859-6",
    "iso-8859-6-e": "iso8859-6",
    "logical": "iso8859-8",
    "visual": "iso8859-8",
    "dos-866": "cp866",
    "unicode": "utf-16-le",
    "ucs-2": "utf-16-le",
    "iso-10646-ucs-2": "utf-16-le",
    "csunicode": "utf-16-le",
    "unicodefeff": "utf-16-le",
    "unicodefffe": "utf-16-be",
    "unicode11utf8": "utf-8",
    "unicode20utf8": "utf-8",
    "unicode-1-1-utf-8": "utf-8",
    "x-unicode20utf8": "utf-8",
    "utf8mb4": "utf-8",
}
"""Labels of the standard, and of pages in use, that Python does not know."""

_X_CODE_PAGE: Final = re.compile(r"x-cp(125\d|874|932|949|950)")
_TEXT_CODECS: Final = re.compile(
    r"utf_?-?(?:8|8-sig|16|16-le|16-be|32|32-le|32-be)|cp\d+|iso8859-\d+|iso2022_\w+|koi8-\w+|mac-\w+"
    r"|gb18030|big5\w*|shift_jis\w*|euc_\w+|tis-620|hz|johab|ptcp154|viscii"
)


def decoded(body: bytes, *, content_type: str) -> str:
    """Decode a body to text; never fails."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return _clean(body[len(mark) :].decode(name, "replace"))
    head = body[:_HEAD_BYTES]
    named = [
        found.group(1).decode("ascii", "replace")
        for found in (_XML.search(head), _META.search(head))
        if found
    ]
    header = _HEADER.search(content_type)
    labels = [*([header.group(1)] if header else []), *named]
    candidates = [codec for codec in map(codec_of, labels) if codec and not _contradicted(codec, head)]
    for place, codec in enumerate(candidates):
        try:
            return _clean(body.decode(codec))
        except UnicodeDecodeError as error:
            # UTF-8 has rules: bytes that break them are in the other charset, if one is named.
            others = [other for other in candidates[place + 1 :] if other != codec]
            if codec != "utf-8" or not others or _cut(error):
                return _clean(body.decode(codec, "replace"))
    if head.startswith((b"<\x00", b"{\x00", b"[\x00")):
        return _clean(body.decode("utf-16-le", "replace"))
    if head.startswith((b"\x00<", b"\x00{", b"\x00[")):
        return _clean(body.decode("utf-16-be", "replace"))
    try:
        return _clean(body.decode())
    except UnicodeDecodeError as error:
        return _clean(body.decode("utf-8" if _cut(error) else "cp1252", "replace"))


def codec_of(label: str) -> str:
    """Codec that a label means; empty if it is unknown or no charset."""
    label = label.strip().lower()
    found = _LABELS.get(label) or _X_CODE_PAGE.sub(r"cp\1", label)
    try:
        name = codecs.lookup(found).name
    except (LookupError, ValueError):
        return ""
    name = _MEANT.get(name, name)
    return name if _TEXT_CODECS.fullmatch(name) else ""


def _contradicted(codec: str, head: bytes) -> bool:
    """Whether text of two or four bytes a character is claimed for a body without a zero byte in its front.

    Documents whose declaration says UTF-16 in ASCII bytes are in UTF-8 (WHATWG HTML, 13.2.3.2).
    """
    return codec.startswith(("utf-16", "utf-32")) and b"\x00" not in head


def _cut(error: UnicodeDecodeError) -> bool:
    """Whether only the last character of a body in UTF-8 is incomplete."""
    return error.reason == "unexpected end of data"


def _clean(text: str) -> str:
    """Remove NULs, which end a document for libxml2, and lone surrogates, which cannot be encoded."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    try:
        text.encode()
    except UnicodeEncodeError:  # some codecs decode to lone surrogates
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
