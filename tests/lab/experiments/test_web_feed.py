"""The web part of the tour: a noisy page and a feed, real processes, deltas over MQTT."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.channels.delta import Delta, DeltaItem
from penstock_lab.experiments import web_feed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


def test_what_changes_is_told_to_all_and_noise_to_nobody(tmp_path: Path) -> None:
    command = ["reproduce", "web-feed", "--quick", "--json", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert [row for row in found["rows"] if row["ok"] is False] == []
    assert [row["what"] for row in found["tables"][0]["rows"]] == [
        "EUR 49.00 → EUR 44.00",
        "new: A ferry meanwhile",
        "Ships within two days → Sold out until spring",
        "new: Bridge open again",
    ]


FALSE_ALARMS, CHANGES, ITEMS, DELTAS, FETCHES, _, ACCOUNT = range(7)


def watched(**other: Any) -> Any:
    """A run as if played: one change of the page and one item of the feed, told to three readers."""
    page, feed = "http://a/lamp", "http://a/feed"
    new = DeltaItem("new", id="1", title=web_feed.HEADLINES[1])
    change = Delta(page, version=2, old_version=1, at_us=1, kind="html")
    item = Delta(feed, version=2, old_version=1, at_us=2, kind="feed", items=(new,))
    told = [[(1.0, change), (2.0, item)] for _ in range(web_feed.READERS)]
    found = {
        "site": SimpleNamespace(urls=(page, feed), fetches=50, bodies=[b""] * 25, differing=24),
        "changes": 1,
        "told": told,
        "changed_s": [0.5, 1.5],
        "seconds": 10.0,
        "status": {"balanced": True},
        "leads_to_the_last": lambda: True,
    }
    run = SimpleNamespace(**found | other)
    run.of = lambda url: [delta for _, delta in run.told[0] if delta.url == url]
    return run


def failing(run: Any) -> list[int]:
    rows = web_feed._outcome(run, 1, quick=True).rows
    return [number for number, row in enumerate(rows) if row.ok is False]


def test_each_row_fails_where_its_promise_is_broken() -> None:
    assert failing(watched()) == []
    good = watched()
    change, item = good.told[0]
    site = good.site
    assert failing(watched(told=[[change, change, item]] * 3)) == [FALSE_ALARMS, CHANGES]
    assert failing(watched(told=[[item]] * 3)) == [CHANGES]
    assert failing(watched(told=[[change]] * 3)) == [ITEMS]
    assert failing(watched(leads_to_the_last=lambda: False)) == [DELTAS]
    assert failing(watched(told=[[change, item], [change, item], [change]])) == [FETCHES]
    each = SimpleNamespace(**vars(site) | {"fetches": 3 * site.fetches})
    assert failing(watched(site=each)) == [FETCHES], "each reader is served by fetches of its own"
    still = SimpleNamespace(**vars(site) | {"differing": 1})
    assert failing(watched(site=still)) == [FALSE_ALARMS], "without noise the row says nothing"
    assert failing(watched(status={})) == [ACCOUNT]
