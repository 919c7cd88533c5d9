"""Several streams of one session: each has its turn, whatever the window is, and so have ordinary topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.stream_nodes import streams_node
from tests.kit.stream_sessions import KEPT

if TYPE_CHECKING:
    from typing import Any

TWO: dict[str, Any] = {
    "host": [{"name": "orders", "topics": ["orders/#"]}, {"name": "bills", "topics": ["bills/#"]}]
}


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("window", [1, 2])
async def test_two_streams_share_a_small_window(qos: int, kept: bool, window: int) -> None:
    async with streams_node(TWO) as running:
        peer = await running.connect("s", receive_maximum=window, **(KEPT if kept else {}))
        await peer.subscribe("#", qos=qos)
        publisher = await running.connect("p")
        for topic in ("orders/a", "bills/a"):
            for number in range(25):
                await publisher.publish2(topic, b"%d" % number)
        topics = [(await peer.message()).topic for _ in range(24)]
        assert 9 < topics.count("orders/a") < 15


async def test_ordinary_messages_do_not_wait_for_a_stream_that_is_caught_up_with() -> None:
    async with streams_node() as running:
        peer = await running.connect("s", receive_maximum=1, **KEPT)
        await peer.subscribe("#", qos=1)
        publisher = await running.connect("p")
        for number in range(25):
            await publisher.publish1("orders/a", b"%d" % number)
        await publisher.publish1("other", b"")
        assert "other" in [(await peer.message()).topic for _ in range(3)]
