"""A noisy page and a feed, watched by a node for three readers: changes arrive over MQTT.

    a page, a feed ──► penstock up ──► three readers

`Site` serves the page and the feed and changes them on demand. The page shows another clock, counter and
advertisement at every fetch; what it offers and the feed's items change a few times. All of it is real:
processes, sockets, HTTP, MQTT; only the polls are more frequent than is polite. Each change of the page is in
another place: a number that moves a second time within a day is taken for a counter.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp import web

from penstock.cli.html_page import Table
from penstock.client import Client
from penstock.core.channels.address import topic_of
from penstock.core.channels.delta import apply
from penstock.core.channels.difference import Rules, from_json, read
from penstock.errors import ChannelError, NodeError
from penstock.model.event import Event
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.rigs.local_node import local_node
from penstock_lab.rigs.web_site import WebServer
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.client import Subscription
    from penstock.core.channels.delta import Delta
    from penstock_lab.experiments.result import Progress
    from penstock_lab.rigs.local_node import LocalNode

OFFERS: Final[tuple[tuple[str, ...], ...]] = (
    ("EUR 49.00", "Ships within two days", "Black or white"),
    ("EUR 44.00", "Ships within two days", "Black or white"),
    ("EUR 44.00", "Sold out until spring", "Black or white"),
    ("EUR 44.00", "Sold out until spring", "Black, white or green"),
    ("EUR 44.00", "Sold out until spring", "Black, white or green", "With a spare bulb"),
)
"""Texts of the page about the lamp, one version after the other."""
HEADLINES: Final = ("Bridge closed", "A ferry meanwhile", "Bridge open again", "The ferry stays", "Fair")
"""Titles of the feed's items; the first is there from the beginning."""
ADVERTISEMENTS: Final = ("a tent", "a piano", "a boat")
CHANGES: Final = len(OFFERS) - 1
"""Changes that page and feed can make, each."""
PAGE: Final = "/lamp"
FEED: Final = "/news"


class Site(WebServer):
    """Serves the page and the feed while entered."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []
        """Bodies of the page, as they were sent."""
        self._offer = OFFERS[0]
        self.page(PAGE, self._lamp)
        self.change_feed(0)

    @property
    def urls(self) -> tuple[str, str]:
        """URLs of page and feed."""
        return self.url(PAGE), self.url(FEED)

    @property
    def fetches(self) -> int:
        """Number of fetches of both."""
        return self.counts[PAGE] + self.counts[FEED]

    @property
    def differing(self) -> int:
        """Number of responses of the page that differed from the one before."""
        return sum(a != b for a, b in zip(self.bodies, self.bodies[1:], strict=False))

    def change_page(self, number: int) -> None:
        """Change what the page says of the lamp."""
        self._offer = OFFERS[number]

    def change_feed(self, number: int) -> None:
        """Add an item to the feed."""
        items = "".join(
            f"<item><guid>{place}</guid><title>{HEADLINES[place]}</title></item>"
            for place in range(number, -1, -1)
        )
        text = f'<rss version="2.0"><channel><title>Town news</title>{items}</channel></rss>'
        self.put(FEED, text, content_type="application/rss+xml")

    def _lamp(self, _: web.BaseRequest) -> web.StreamResponse:
        look = len(self.bodies)
        body = (
            "<html><head><title>Desk lamp</title></head><body><nav>Home</nav><main><h1>Desk lamp</h1>"
            f"{''.join(f'<p>{line}</p>' for line in self._offer)}<p>{1_200 + 7 * look:,} views</p>"
            f"<p>Last updated: {datetime.now(UTC):%d %B %Y %H:%M:%S}</p>"
            f'<div class="ad-slot">Buy {ADVERTISEMENTS[look % len(ADVERTISEMENTS)]}</div></main>'
            "</body></html>"
        ).encode()
        self.bodies.append(body)
        return web.Response(body=body, content_type="text/html", charset="utf-8")


NAME: Final = "web-feed"
SHOWS: Final = Shows(live=True)
READERS: Final = 3
EVERY_S: Final = 0.4
"""Polling interval: real servers are asked once a minute at most, too long for a demonstration."""
PAUSE_S: Final = (1.0, 2.0)
"""Pause between two changes, in which a few polls find nothing but noise."""
MORE: Final = 1.5
"""Fetches for all readers, as a multiple of the polls of one: some changes are looked at again."""
FOUND_S: Final = 120
"""Longest wait for the first version of a page, or for a change to reach the readers."""
QUICK_CHANGES: Final = 2
CONFIG: Final = {
    "sys_interval_s": 0,
    "channels": {
        "enabled": True,
        "interval_s": EVERY_S,
        # `least_s` fixes the interval: three subscribers would otherwise justify more polls than one.
        "polling": {"networks": ["127.0.0.0/8"], "least_s": EVERY_S, "host_polls": 36_000},
    },
}


def reproduce(*, seed: int, quick: bool, out: Path | None, progress: Progress) -> ExperimentResult:  # noqa: ARG001
    """Change page and feed, and record what the readers receive."""
    changes = QUICK_CHANGES if quick else CHANGES
    with local_node(CONFIG) as node:
        watched = _Watched(node, seed, changes, progress)
        asyncio.run(watched.play())
    return _outcome(watched, seed, quick=quick)


class _Watched:
    def __init__(self, node: LocalNode, seed: int, changes: int, progress: Progress) -> None:
        self.node = node
        self.changes = changes
        """First version of page and feed."""
        self.site = Site()
        self.told: list[list[tuple[float, Delta]]] = [[] for _ in range(READERS)]
        """(time, delta) of everything that each reader received."""
        self.changed_s: list[float] = []
        """Times of the changes."""
        self.status: dict[str, Any] = {}
        self.seconds = 0.0
        """How long page and feed were polled."""
        self._progress = progress
        self._dice = Random(seed)  # noqa: S311
        self._start_s = 0.0

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time() - self._start_s

    async def play(self) -> None:
        """Run from the first fetch to the last change."""
        self._start_s = asyncio.get_running_loop().time()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.site)
            listening = []
            for number in range(READERS):
                client = await stack.enter_async_context(
                    Client(self.node.url, client_id=f"reader {number + 1}")
                )
                for url in self.site.urls:
                    subscription = await client.subscribe(topic_of(url), qos=1)
                    listening.append(asyncio.create_task(self._listen(self.told[number], subscription)))
            try:
                await self._first_versions()
                for number in range(1, self.changes + 1):
                    self._progress(number - 1, self.changes, "a page and a feed change, among noise")
                    await self._pause()
                    self.site.change_page(number)
                    await self._until_told()
                    await self._pause()
                    self.site.change_feed(number)
                    await self._until_told()
                await self._pause()
                self.status = (await self._ask("/channels"))["status"]
                self.seconds = self._now_s()
            finally:
                for task in listening:
                    task.cancel()
                await asyncio.gather(*listening, return_exceptions=True)

    async def _pause(self) -> None:
        await asyncio.sleep(self._dice.uniform(*PAUSE_S))

    async def _listen(self, told: list[tuple[float, Delta]], subscription: Subscription) -> None:
        async for item in subscription:
            assert isinstance(item, Event)  # only events come: no reader is slow enough for digests
            told.append((self._now_s(), from_json(item.payload)))

    async def _first_versions(self) -> None:
        """Wait until page and feed were fetched once; changes after that are news."""
        try:
            async with asyncio.timeout(FOUND_S):
                while sum(1 for one in (await self._ask("/channels"))["channels"] if one["version"]) < 2:
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise NodeError(
                f"the node did not read {' and '.join(self.site.urls)} within {FOUND_S} s"
            ) from None

    async def _until_told(self) -> None:
        """Wait until every reader has received the last change, or the time limit is reached."""
        self.changed_s.append(self._now_s())
        end_s = self._now_s() + FOUND_S
        while min(map(len, self.told)) < len(self.changed_s) and self._now_s() < end_s:
            await asyncio.sleep(0.01)

    async def _ask(self, path: str) -> Any:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.node.http.rstrip('/')}/api/v1{path}") as answer,
        ):
            return await answer.json()

    def of(self, url: str) -> list[Delta]:
        """Return the deltas of page or feed that the first reader received."""
        return [delta for _, delta in self.told[0] if delta.url == url]

    def leads_to_the_last(self) -> bool:
        """Return whether the deltas, applied to the first version, lead to the last offer."""
        page = self.site.urls[0]
        lines: list[str] = list(
            read(self.site.bodies[0], content_type="text/html", url=page, rules=Rules()).lines
        )
        try:
            for delta in self.of(page):
                lines = apply(delta, lines)
        except ChannelError:
            return False
        return set(OFFERS[self.changes]) <= set(lines)


def _outcome(watched: _Watched, seed: int, *, quick: bool) -> ExperimentResult:
    page, feed = watched.site.urls
    changes, fetches = watched.changes, watched.site.fetches
    titles = [item.title for delta in watched.of(feed) for item in delta.items if item.kind == "new"]
    delays_s = [at_s - made_s for (at_s, _), made_s in zip(watched.told[0], watched.changed_s, strict=False)]
    alike = all([one for _, one in found] == [one for _, one in watched.told[0]] for found in watched.told)
    noise = watched.site.differing - changes
    one_reader = 2 * (watched.seconds / EVERY_S + 1)
    told = tuple((f"{at_s:.1f}", delta.title, _what(delta)) for at_s, delta in watched.told[0])
    rows = (
        Claim(
            "false alarms: clock, counter, advertisement",
            f"{noise:,}",
            f"{max(0, len(watched.of(page)) - changes)}",
            ok=noise > 0 and len(watched.of(page)) <= changes,
            note=f"{len(watched.site.bodies):,} answers, each of them different; plain polling compares; "
            "fails if one piece of noise is told",
        ),
        Claim(
            "changes of the page that were told",
            f"{changes} of {changes}",
            f"{len(watched.of(page))} of {changes}",
            ok=len(watched.of(page)) == changes,
            note="fails if an edit is taken for noise, or told twice",
        ),
        Claim(
            "new items of the feed that were told",
            "–",
            f"{len(titles)} of {changes}",
            ok=titles == list(HEADLINES[1 : changes + 1]),
            note="fails if an item is missing, told twice or out of order",
        ),
        Claim(
            "the deltas, applied, lead from the first page to the last",
            "–",
            "yes" if watched.leads_to_the_last() else "NO",
            ok=watched.leads_to_the_last(),
            note="fails if a delta is missing or does not fit the page before it",
        ),
        Claim(
            f"fetches for {READERS} readers",
            f"{READERS * fetches:,}",
            f"{fetches:,}",
            ok=alike and fetches <= MORE * one_reader,
            note=f"one fetch serves all, and all are told the same: {'yes' if alike else 'NO'}; fails if "
            f"they are not, or above {MORE:g} × the {one_reader:.0f} polls of one reader in this time",
        ),
        Claim(
            "median time from a change to the reader",
            "–",
            f"{median(delays_s):.1f} s" if delays_s else "–",
            ok=None,
            note=f"polled every {EVERY_S:g} s here, once a minute at most on the real web",
        ),
        Claim(
            "every poll and every change is accounted for",
            "–",
            "yes" if watched.status.get("balanced") else "NO",
            ok=bool(watched.status.get("balanced")),
            note="by the node's own account; fails if a poll has no result, or a change no receiver",
        ),
    )
    return ExperimentResult(
        experiment=NAME,
        title="A page full of noise and a feed, over MQTT",
        setting=f"{changes} changes of each{' (shortened by --quick)' if quick else ''}, {READERS} readers; "
        "real processes on this machine",
        rows=rows,
        tables=(Table("What a reader was told", ("second", "of", "what"), told),),
        plots=(),
        seed=seed,
        rival="plain polling",
    )


def _what(delta: Delta) -> str:
    if delta.items:
        return "; ".join(f"{item.kind}: {item.title}" for item in delta.items)
    return "; ".join(f"{' / '.join(one.old) or '–'} → {' / '.join(one.new) or '–'}" for one in delta.changes)
