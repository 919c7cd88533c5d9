"""Bodies that strangers could send to keep a node busy, and pieces to make more of them."""

from __future__ import annotations

from typing import Final


def _bomb() -> bytes:
    entities = b'<!ENTITY a "lol">' + b"".join(
        b'<!ENTITY %c "%s">' % (98 + level, (b"&%c;" % (97 + level)) * 10) for level in range(9)
    )
    return (
        b'<?xml version="1.0"?><!DOCTYPE rss ['
        + entities
        + b']><rss version="2.0"><channel><title>&j;</title><item><title>&j;</title><guid>1</guid></item>'
        b"</channel></rss>"
    )


FILE: Final = (
    b'<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/hostname">]><rss version="2.0">'
    b"<channel><title>&x;</title><item><guid>1</guid><title>&x;</title></item></channel></rss>"
)
"""Would show a file of the node."""

N: Final = 40_000

BODIES: Final[dict[str, bytes]] = {
    "empty": b"",
    "nothing but space": b" \n\t" * 100,
    "NULs": b"\x00" * N,
    "NULs in a page": b"<p>a\x00b</p>" * 1_000,
    "entities that multiply": _bomb(),
    "an entity that is a file": FILE,
    "a document type that does not end": b"<!DOCTYPE rss [" + b"<!ENTITY a 'b'>" * 1_000 + b"<rss>",
    "nested divs": b"<div>" * N + b"x",
    "nested tables": b"<table><tr><td>" * (N // 5) + b"x",
    "open formatting": b"<b><p>" * (N // 5) + b"x",
    "attributes": b"<p " + b" ".join(b"a%d=1" % number for number in range(N)) + b">x",
    "attributes behind a quote": b"<p x='>' y\" " + b" ".join(b"a%d" % number for number in range(N)) + b">x",
    "one attribute": b"<p title='" + b"x" * (5 * N) + b"'>y</p>",
    "less-than signs": b"<" * N,
    "ampersands": b"<p>" + b"&" * N,
    "comments that do not end": b"<!--" * N,
    "processing instructions": b"<?a?>" * N,
    "closing tags": b"</p>" * N,
    "many paragraphs": b"<p>x" * 30_000,
    "one line": b"a" * (20 * N),
    "one line of words": b"word 12:30 " * N,
    "digits": b"<p>" + b"1" * (5 * N),
    "colons and digits": b"<p>" + b"12:" * N,
    "dates": b"<p>" + b"12 May 2026 " * N,
    "a select": b"<select>" * N,
    "nested lists": b"<ul><li>" * N,
    "nested JSON arrays": b"[" * N,
    "closed nested JSON arrays": b"[" * 900 + b"]" * 900,
    "nested JSON objects": b'{"a":' * N + b"1" + b"}" * N,
    "long JSON names": b'{"' + b"n" * (5 * N) + b'": {"' + b"m" * (5 * N) + b'": 1}}',
    "a long number": b"[" + b"9" * (2 * N) + b"]",
    "many JSON values": b"[" + b"1," * N + b"1]",
    "half pairs in JSON": rb'["\ud800", "\udc00x", "\ud83d\ude00"]',
    "an RSS without end": b"<rss version='2.0'><channel>" + b"<item><title>x</title>" * (N // 10),
    "an RSS of empty items": b"<rss version='2.0'><channel>" + b"<item/>" * (N // 5) + b"</channel></rss>",
    "an RSS of deep items": b"<rss><channel><item>" + b"<a>" * N,
    "an Atom of links": b"<feed xmlns='http://www.w3.org/2005/Atom'>"
    + b"<link rel='hub' href='x'/>" * (N // 50),
    "an item of deep markup": b"<rss version='2.0'><channel><item><guid>1</guid><title>t</title><description>"
    + b"&lt;div&gt;" * (N // 10)
    + b"</description></item></channel></rss>",
    "a JSON Feed of nothing": b'{"version": "https://jsonfeed.org/version/1", "items": [1, {}, {"id": {}}]}',
    "a JSON Feed without items": b'{"version": "https://jsonfeed.org/version/1.1", "title": 3}',
    "a PDF": b"%PDF-1.7\n" + bytes(range(256)) * 100,
    "all bytes": bytes(range(256)) * 400,
    "UTF-16 in half": "<p>ä</p>".encode("utf-16")[:-1],
    "UTF-16 half pairs": b"\xff\xfe" + b"\x00\xd8" * 1_000,
    "a wrong charset": b"<meta charset=x-nobody-knows><p>\xff\xfe\xfd</p>",
    "a codec that is none of text": b"<meta charset=zlib_codec><p>x</p>",
    "an address": b"http://127.0.0.1:1/feed",
    "a file's name": b"/etc/passwd",
}

TYPES: Final = (
    "text/html",
    "application/rss+xml",
    "application/json",
    "text/plain",
    "",
    "image/png",
    "x;;=\x00",
)
