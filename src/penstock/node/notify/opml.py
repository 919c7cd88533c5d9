"""Reads and writes OPML 2.0, the lists of feeds that feed readers exchange; input is bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET
from xml.parsers import expat

from penstock import limits
from penstock.errors import ChannelError
from penstock.node.notify.transport import clean

if TYPE_CHECKING:
    from collections.abc import Iterable

_ADDRESSES: Final = ("xmlurl", "url")
"""Attributes that name a feed, the usual one first; writers do not agree on upper and lower case."""


def read_opml(data: bytes) -> list[str]:
    """Read the addresses of feeds in the order of the list, each once; ChannelError if it is no OPML list."""
    if len(data) > limits.OPML_BYTES:
        raise ChannelError(f"the list of feeds has {len(data):,} bytes; at most {limits.OPML_BYTES:,}")
    reading = _Reading()
    try:
        reading.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ChannelError(f"the list of feeds is not XML: {error}") from None
    except (ValueError, LookupError) as error:  # an encoding that is not known
        raise ChannelError(f"the list of feeds cannot be read: {error}") from None
    if not reading.found:
        raise ChannelError("there is no feed in the list: no <outline> with an xmlUrl")
    return list(reading.found)


class _Reading:
    """Collects addresses from expat's calls."""

    def __init__(self) -> None:
        self.found: dict[str, None] = {}
        self._depth = 0
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._doctype

    def _start(self, name: str, said: dict[str, str]) -> None:
        if not self._depth and name.lower() != "opml":
            raise ChannelError(f"a list of feeds begins with <opml>, not with <{name[:80]}>")
        self._depth += 1
        if self._depth > limits.OPML_DEPTH:
            raise ChannelError(f"the list of feeds is nested more than {limits.OPML_DEPTH} deep")
        if name.lower() != "outline":
            return
        lowered = {key.lower(): value for key, value in said.items()}
        url = next((lowered[key].strip() for key in _ADDRESSES if lowered.get(key, "").strip()), "")
        if url:
            self.found[url] = None
        if len(self.found) > limits.OPML_FEEDS:
            raise ChannelError(f"the list of feeds is longer than {limits.OPML_FEEDS:,}; divide it")

    def _end(self, _: str) -> None:
        self._depth -= 1

    def _doctype(self, *_: object) -> None:
        raise ChannelError("a document type declaration is not accepted in a list of feeds; remove it")


def write_opml(
    feeds: Iterable[tuple[str, str]], *, title: str, pages: Iterable[tuple[str, str]] = ()
) -> bytes:
    """A list of feeds, each with its address and its title; pages that are none follow as links."""
    root = ET.Element("opml", version="2.0")
    ET.SubElement(ET.SubElement(root, "head"), "title").text = clean(title)
    body = ET.SubElement(root, "body")
    for url, name in feeds:
        ET.SubElement(body, "outline", type="rss", text=clean(name or url), xmlUrl=clean(url))
    for url, name in pages:
        ET.SubElement(body, "outline", type="link", text=clean(name or url), url=clean(url))
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))
