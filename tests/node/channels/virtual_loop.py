"""An event loop whose clock jumps to the next timer, and a web of scripts: days of polling in no time."""

from __future__ import annotations

import asyncio
import selectors
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from penstock.node.clock import Clock
from penstock.node.outbound.fetch import FetchResult

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from penstock.node.outbound.fetch import RobotsCheck

START_US = 1_770_114_030_000_000
"""Tuesday 3 February 2026, 10:20:30 UTC."""
S = 1_000_000
HOUR = 3_600 * S


class _Jumping(selectors.SelectSelector):
    """Never waits: when nothing is ready, the time that would have been waited has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        if not found and timeout is not None:
            self.now_s += timeout
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time is the selector's."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end on a clock of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main)


class Wall:
    """A wall clock that can be set."""

    def __init__(self) -> None:
        self.set_us = 0
        self.clock = Clock(wall=lambda: self._steady() + START_US + self.set_us, steady=self._steady)

    def _steady(self) -> int:
        return round(asyncio.get_running_loop().time() * S)


class ScriptedWeb:
    """Answers by address; notes when it was asked, and how many fetches were under way at once."""

    def __init__(self, *, takes_s: float = 0.2) -> None:
        self.answers: dict[str, Callable[[Mapping[str, str]], FetchResult]] = {}
        self.asked: defaultdict[str, list[float]] = defaultdict(list)
        """Seconds since the start, by address."""
        self.under_way = 0
        self.most_under_way = 0
        self.headers: list[Mapping[str, str]] = []
        self._takes_s = takes_s

    async def fetch(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        barred: RobotsCheck | None = None,  # noqa: ARG002  # redirects are in the scripts
    ) -> FetchResult:
        self.asked[url].append(asyncio.get_running_loop().time())
        self.headers.append(headers or {})
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(self._takes_s)
        finally:
            self.under_way -= 1
        answer = self.answers.get(url)
        if answer is not None:
            return answer(headers or {})
        if url.endswith("/robots.txt"):
            return FetchResult(status=404, url=url)
        return FetchResult(status=200, body=b"text", url=url, bytes_wire=4)
