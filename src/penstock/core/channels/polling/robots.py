"""robots.txt (RFC 9309): what it allows, how long it is valid, and what its absence means."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from yarl import URL

from penstock import limits
from penstock.core.backoff import doubled
from penstock.core.channels.polling import http_rules
from penstock.core.channels.polling.values import Hold, PollState, RobotsVerdict
from penstock.errors import MissingTool
from penstock.model.instant import DAY_US, HOUR_US, Instant, to_us

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protego import Protego

    from penstock.core.channels.polling.values import FetchOutcome, Manners

AGENT: Final = "Penstock"
"""Product token of this program in robots.txt."""

UNREACHABLE_US: Final = HOUR_US
"""Pause after the first answer that is an error. Without an answer it is that of pages: the fault may be that
of the local network."""

_FEED_TYPE: Final = re.compile(r"(application|text)/((rss|atom|rdf)\+xml|feed\+json|xml)\b", re.IGNORECASE)
_FEED_PATH: Final = re.compile(r"feed|rss|atom|\.(xml|rdf)$", re.IGNORECASE)


def address(url: str) -> str:
    """Address of the robots.txt for a URL."""
    return str(URL(url).origin().with_path("/robots.txt"))


def is_feed(content_type: str) -> bool:
    """Whether a content type is that of a feed."""
    return bool(_FEED_TYPE.match(content_type))


def looks_like_feed(url: str) -> bool:
    """Whether a URL looks like a feed, before anything was fetched."""
    return bool(_FEED_PATH.search(URL(url).path))


class RobotsFile:
    """A robots.txt, or the verdict that applies while there is none."""

    __slots__ = ("_rules", "_sentence", "failures", "spacing_us", "until_us")

    def __init__(
        self, rules: Protego | None, *, until_us: Instant, sentence: str = "", failures: int = 0
    ) -> None:
        self._rules = rules
        self.failures = failures
        """Attempts in a row that failed."""
        self._sentence = sentence
        """Why everything is refused; empty: the rules decide."""
        self.until_us = until_us
        delay_s = (rules.crawl_delay(AGENT) if rules is not None else None) or 0.0
        self.spacing_us = min(to_us(delay_s), limits.CRAWL_DELAY_US)

    @property
    def has_rules(self) -> bool:
        """Whether these are the site's own rules."""
        return not self._sentence

    def until(self, until_us: Instant, *, failures: int) -> RobotsFile:
        """The file, valid for longer, because it could not be read again."""
        return RobotsFile(self._rules, until_us=until_us, sentence=self._sentence, failures=failures)

    def verdict(self, url: str) -> RobotsVerdict:
        """Whether a URL may be fetched."""
        reason = self._sentence
        if not reason and self._rules is not None and not self._rules.can_fetch(url, AGENT):
            reason = f"{address(url)} does not allow {AGENT} to fetch this address."
        return RobotsVerdict(
            allowed=not reason, until_us=self.until_us, reason=reason, url=url, failures=self.failures
        )


def read(
    outcome: FetchOutcome,
    body: bytes,
    *,
    url: str,
    before: RobotsFile | None,
    manners: Manners,
    now_us: Instant,
    failures: int = 0,
) -> RobotsFile:
    """Interpret the response to a request for robots.txt (RFC 9309, 2.3.1); `before` is the last known file.

    200: its rules. 4xx: no rules, everything may be fetched. 5xx and no response: nothing may be fetched,
    unless there is an older copy; it is requested again after a pause that doubles with each of the
    `failures` before. Stricter than the RFC: we never conclude from errors that there is none. A 429 means
    "not now" and counts with the 5xx.
    """
    status = outcome.status
    if 200 <= status < 300 and not outcome.error:
        return RobotsFile(_parse(body), until_us=now_us + DAY_US)
    if 400 <= status < 500 and status != 429:
        return RobotsFile(None, until_us=now_us + DAY_US)
    least_us = UNREACHABLE_US if status else manners.error_least_us
    pause_us = max(least_us, doubled(least_us, failures, most=manners.error_most_us))
    again_us = max(now_us + pause_us, http_rules.asked_us(outcome, manners=manners, now_us=now_us))
    if before is not None and before.has_rules:
        return before.until(again_us, failures=failures + 1)
    why = outcome.error or f"The answer is {status}."
    sentence = f"{address(url)} cannot be read: {why}"
    return RobotsFile(None, until_us=again_us, sentence=sentence, failures=failures + 1)


def needed(state: PollState, *, url: str, manners: Manners, now_us: Instant) -> bool:
    """Whether robots.txt has to be read before this URL may be fetched."""
    if not obeyed(state, url=url, manners=manners):
        return False
    said = state.robots
    return said is None or said.until_us <= now_us or said.url != url


def obeyed(state: PollState, *, url: str, manners: Manners) -> bool:
    """Whether robots.txt applies to this channel."""
    feed = looks_like_feed(url) if state.feed is None else state.feed
    return manners.obeys_robots(feed=feed)


def hold(state: PollState, *, url: str, manners: Manners, now_us: Instant) -> Hold | None:
    """Hold by the verdict of robots.txt."""
    said = state.robots
    if said is None or said.allowed or said.until_us <= now_us or said.url != url:
        return None
    return Hold(said.until_us, said.reason, hard=True) if obeyed(state, url=url, manners=manners) else None


def _parse(body: bytes) -> Protego:
    try:
        from protego import Protego  # noqa: PLC0415  # optional dependency
    except ImportError:
        raise MissingTool(
            "reading robots.txt needs more libraries: pip install 'penstock[channels]'"
        ) from None
    text = body[: limits.ROBOTS_BYTES].decode(errors="replace").removeprefix("\ufeff")
    return Protego.parse("\n".join(_own_lines(text)))


_LINE: Final = re.compile(r"\s*(user-agent|disallow|allow|crawl-delay)\s*:\s*([^#]*)", re.IGNORECASE)
_PRODUCT: Final = re.compile(r"[^\s/]*")


def _own_lines(text: str) -> Iterator[str]:
    """Lines of the groups for this program and for all; a version behind the product's name does not count.

    The other groups, often thousands of lines, are not worth parsing.
    """
    is_own = begins = False
    left = limits.ROBOTS_RULES
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        key, value = found.group(1).lower(), found.group(2).strip()
        if key == "user-agent":
            product = _PRODUCT.match(value)
            name = product.group().lower() if product else ""
            named = name in ("*", AGENT.lower())
            is_own, begins = named or (begins and is_own), True
            if named:
                yield f"User-agent: {name}"
            continue
        begins = False
        if is_own and left:
            left -= 1
            yield f"{key}: {value}"
