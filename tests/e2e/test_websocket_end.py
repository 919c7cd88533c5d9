"""The end of a WebSocket: what a client sent before it counts, above all its DISCONNECT."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from penstock.client import Client, Will
from tests.kit import certificates
from tests.kit.up import up
from tests.kit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

TIMES = 25
"""Of so many clients the end of some was seen before their last words, when it did not wait for them."""


@pytest.mark.parametrize("kind", ["websocket", "websockets"])
async def test_a_client_that_takes_its_leave_has_no_will(kind: str, tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    secure = f", certificate: {made.server}, key: {made.server_key}" if kind == "websockets" else ""
    (tmp_path / "penstock.yaml").write_text(
        f"listeners: [{{port: 0}}, {{kind: {kind}, port: 0{secure}}}]\nsys_interval_s: 0\n"
    )
    tls = ssl.create_default_context(cafile=str(made.ca)) if secure else None
    with up(tmp_path) as node:
        place = node.about["listeners"][1]["port"]
        where = f"{'wss' if secure else 'ws'}://localhost:{place}/mqtt"
        async with Client(f"mqtt://127.0.0.1:{node.port}") as watcher:
            subscription = await watcher.subscribe("#", qos=1)
            heard: list[str] = []
            for number in range(TIMES):
                will = Will("will", b"gone")
                async with Client(where, client_id=f"c{number}", will=will, tls=tls) as client:
                    await client.publish("last/words", b"x")
            await until(lambda: node.log.read_text().count(" disconnected from ") == TIMES)
            await watcher.publish("end", b"x", qos=1)
            async for item in subscription:
                heard.append(item.topic)  # type: ignore[union-attr]
                if heard[-1] == "end":
                    break
    assert heard.count("last/words") == TIMES
    assert "will" not in heard
