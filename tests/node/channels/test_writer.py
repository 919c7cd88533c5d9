"""Writing the state of channels to a disk that is slow or full."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.errors import StoreError
from penstock.node.channels import store as sql
from penstock.node.channels.channel import Channel, ChannelFacts
from penstock.node.channels.store import ChannelStore
from penstock.node.channels.writer import ChannelWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.node.store.database import Row

URL = "https://example.org/"


@pytest.fixture(autouse=True)
def a_full_disk_is_tried_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOURNAL_RETRY_S", 0.05)


class Disk(ChannelStore):
    """Takes nothing while it is full."""

    full = False

    def write(self, rows: Sequence[Row]) -> None:
        if self.full:
            raise StoreError("database or disk is full", self.path)
        super().write(rows)


async def given_up(store: Disk, keeping: ChannelWriter) -> None:
    """A channel's facts that a full disk does not take: who waited for them was answered without."""
    keeping.changed(URL)
    store.full = True
    late = asyncio.create_task(keeping.flush())
    while not keeping.fault:
        await asyncio.sleep(0.01)
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)


async def test_what_could_not_be_written_in_time_is_not_written_over_what_was_since() -> None:
    store = Disk(None)
    channel = Channel(URL, ChannelFacts(since_us=1))
    keeping = ChannelWriter(store, history=1, channel={URL: channel}.get, beside=tuple)
    await given_up(store, keeping)
    store.full = False
    channel.known.paused = True
    keeping.changed(URL)
    await keeping.commit(URL, lambda: [sql.put_channel(URL, channel.known)])  # as after a poll
    await keeping.flush()
    ((_, known),) = store.channels()
    assert known.paused
    await keeping.close()


async def test_what_could_not_be_written_is_written_once_it_can_be() -> None:
    store = Disk(None)
    channel = Channel(URL, ChannelFacts(since_us=1))
    keeping = ChannelWriter(store, history=1, channel={URL: channel}.get, beside=tuple)
    await given_up(store, keeping)
    assert list(store.channels()) == []
    store.full = False
    await keeping.flush()
    assert [url for url, _ in store.channels()] == [URL]
    await keeping.close()


async def test_rows_that_cannot_be_made_cost_the_rows_of_no_other_channel() -> None:
    store = Disk(None)
    other = "https://example.com/"
    known = {url: Channel(url, ChannelFacts(since_us=1)) for url in (URL, other)}
    keeping = ChannelWriter(store, history=1, channel=known.get, beside=tuple)
    keeping.put([sql.put_channel("https://example.net/", ChannelFacts(since_us=1))])
    keeping.changed(other)

    def broken() -> list[Row]:
        raise ValueError("a page that is no page")

    both = await asyncio.gather(
        keeping.commit(URL, broken),
        keeping.commit(URL, lambda: [sql.put_channel(URL, known[URL].known)]),
        return_exceptions=True,
    )
    assert [str(one) for one in both] == ["a page that is no page", "None"]
    await keeping.flush()
    assert sorted(url for url, _ in store.channels()) == [other, "https://example.net/", URL]
    await keeping.close()
