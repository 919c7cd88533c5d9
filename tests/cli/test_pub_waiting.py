"""`penstock pub` says when a node does not answer for long."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from penstock.cli import pub

if TYPE_CHECKING:
    import pytest


def test_a_node_that_acknowledges_nothing_is_told_and_one_that_does_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pub, "SILENT_S", 0.0)
    looks = iter([(5, 1), (5, 2), (5, 5), (5, 5), (5, 5)])  # sent and acknowledged
    last = (9, 6)

    def statistics() -> Any:
        sent, acknowledged = next(looks, last)
        return SimpleNamespace(sent=SimpleNamespace(sent=sent, acknowledged=acknowledged, refused=0))

    async def go(turns: int) -> str:
        client: Any = SimpleNamespace(statistics=statistics)
        watching = asyncio.create_task(pub._watch(client))
        for _ in range(turns):
            await asyncio.sleep(0)
        watching.cancel()
        return capsys.readouterr().err

    assert asyncio.run(go(5)) == ""
    assert "3 not acknowledged" in asyncio.run(go(20))
