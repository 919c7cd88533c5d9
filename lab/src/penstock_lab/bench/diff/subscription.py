"""A subscription to a generated page, polled as a node polls it: a pair, a silent third fetch, then polls.

Also what others do with the same polls: a text diff, a hash, and changedetection.io with its defaults.
"""

from __future__ import annotations

import difflib
from datetime import timedelta
from hashlib import md5, sha256
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from penstock.core.channels.difference import Rules, Versions, read
from penstock.core.channels.difference.content import library
from penstock_lab.bench.diff.corpus.sites import START, Visit, rendered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from penstock.core.channels.difference import Content
    from penstock_lab.bench.diff.corpus.noises import Noise
    from penstock_lab.bench.diff.corpus.sites import Page

URL: Final = "https://x.example/page"
INTERVAL: Final = timedelta(minutes=15)
THIRD: Final = timedelta(minutes=5)
AGAIN: Final = timedelta(seconds=4)
"""A node fetches a candidate again after so much time, for politeness."""
RULES: Final = Rules()


class GeneratedPage:
    """A page with noise on a server: may be edited, and renders each request anew."""

    def __init__(self, page: Page, noises: Sequence[Noise], seed: int) -> None:
        self.page = page
        self._noises = noises
        self._seed = seed
        self._requests = 0

    def body(self, at: datetime) -> bytes:
        """Answer a request."""
        self._requests += 1
        visit = Visit(at, Random(self._seed * 1_000_003 + self._requests))  # noqa: S311
        slots: dict[str, str] = {}
        for noise in self._noises:
            for name, text in noise(self.page, visit).items():
                joint = " " if name in ("class", "body") or name.startswith("post") else ""
                slots[name] = slots[name] + joint + text if name in slots else text
        return rendered(self.page, slots)


class Watcher(Protocol):
    """A contestant: says at each poll what it would tell, or None."""

    def poll(self, fetch: Callable[[datetime], bytes], at: datetime) -> str | None:
        """Poll once; the lines that are told, or None."""
        ...


class Ours:
    """The model, driven as by a node."""

    def __init__(self, *, confirms: bool = True, content_type: str = "text/html; charset=utf-8") -> None:
        """`confirms`: whether a page is ever fetched a second time; switched off to break the model."""
        self.versions = Versions(URL, RULES)
        self.fetches = 0
        self._confirms = confirms
        self._content_type = content_type

    def poll(self, fetch: Callable[[datetime], bytes], at: datetime) -> str | None:
        """Look, and look again if the model asks for it."""
        first = self.versions.version == 0
        content = self._read(fetch(at))
        now_us = int(at.timestamp() * 1e6)
        look = self.versions.look(content, now_us=now_us, alone=not self._confirms)
        if look.again:
            look = self.versions.look(content, now_us=now_us, beside=self._read(fetch(at + AGAIN)))
        if look.delta is None or first:
            return None
        return "\n".join(line for change in look.delta.changes for line in (*change.old, *change.new))

    def _read(self, body: bytes) -> Content:
        self.fetches += 1
        return read(body, content_type=self._content_type, url=URL, rules=RULES)


def visible(body: bytes) -> list[str]:
    """The visible text of a page, by text nodes."""
    etree = library("lxml.etree")
    root = etree.fromstring(body, etree.HTMLParser(encoding="utf-8"))
    found = root.xpath("//body//text()[not(ancestor::script or ancestor::style)]")
    return [" ".join(text.split()) for text in found if text.strip()]


class TextDiff:
    """A plain diff of the visible text with that of the poll before."""

    def __init__(self) -> None:
        self._last: list[str] | None = None

    def poll(self, fetch: Callable[[datetime], bytes], at: datetime) -> str | None:
        """Compare with the last poll."""
        now = visible(fetch(at))
        last, self._last = self._last, now
        if last is None or last == now:
            return None
        return "\n".join(line[1:] for line in difflib.unified_diff(last, now, n=0) if line[0] in "+-")


class PageHash:
    """A hash of the bytes."""

    def __init__(self) -> None:
        self._last = b""

    def poll(self, fetch: Callable[[datetime], bytes], at: datetime) -> str | None:
        """Compare with the last poll; a hash shows nothing, so it is given every edit."""
        last, self._last = self._last, sha256(fetch(at)).digest()
        return EVERYTHING if last and last != self._last else None


class ChangedetectionDefaults:
    """Does as changedetection.io does if nothing is set, as far as it can be run here.

    Its defaults (settings and manual of 0.50): the text of the whole page, links not written out, nothing
    ignored, no selector, no trigger; white space does not count; the MD5 of that text is compared with the
    last one; added, removed and replaced lines all count; lines are neither sorted nor remembered.
    """

    def __init__(self) -> None:
        self._last = ""

    def poll(self, fetch: Callable[[datetime], bytes], at: datetime) -> str | None:
        """Compare with the last poll."""
        text = "".join("".join(visible(fetch(at))).split())
        last, self._last = self._last, md5(text.encode(), usedforsecurity=False).hexdigest()
        return EVERYTHING if last and last != self._last else None


EVERYTHING: Final = "\x00"


def moments(polls: int) -> list[datetime]:
    """The moments of the first fetch, the third, and so many regular polls."""
    return [START, START + THIRD, *(START + INTERVAL * (n + 1) for n in range(polls))]


QUIET: Final = 3
"""Moments that tell nothing: the first fetch, the third, and the first regular poll."""
