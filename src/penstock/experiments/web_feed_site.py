"""A small web site that changes when it is told to: a page that is different at every look, and a feed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from aiohttp import web

from penstock.client.web_server import WebServer

PRICES: Final = ("49.00", "44.00", "39.00", "42.00", "37.00")
"""Of the lamp, one after the other."""
HEADLINES: Final = ("Bridge closed", "A ferry meanwhile", "Bridge open again", "The ferry stays", "Fair")
"""Of the feed; the first is there from the beginning."""
ADVERTISEMENTS: Final = ("a tent", "a piano", "a boat")
CHANGES: Final = len(PRICES) - 1
"""That page and feed can make, each."""
PAGE: Final = "/lamp"
FEED: Final = "/news"


class Site(WebServer):
    """Serves both while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []
        """Of the page, as they were answered."""
        self._price = PRICES[0]
        self.page(PAGE, self._lamp)
        self.change_feed(0)

    @property
    def urls(self) -> tuple[str, str]:
        """Of page and feed."""
        return self.url(PAGE), self.url(FEED)

    @property
    def fetches(self) -> int:
        """Of both."""
        return self.counts[PAGE] + self.counts[FEED]

    @property
    def differing(self) -> int:
        """Answers of the page that differed from the one before."""
        return sum(a != b for a, b in zip(self.bodies, self.bodies[1:], strict=False))

    def change_page(self, number: int) -> None:
        """Another price."""
        self._price = PRICES[number]

    def change_feed(self, number: int) -> None:
        """One more item."""
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
            f"<p>EUR {self._price}</p><p>{1_200 + 7 * look:,} views</p>"
            f"<p>Last updated: {datetime.now(UTC):%d %B %Y %H:%M:%S}</p>"
            f'<div class="ad-slot">Buy {ADVERTISEMENTS[look % len(ADVERTISEMENTS)]}</div></main>'
            "</body></html>"
        ).encode()
        self.bodies.append(body)
        return web.Response(body=body, content_type="text/html", charset="utf-8")
