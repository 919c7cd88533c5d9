"""Clients that connect again at once: what is tested is that they do, not how long they wait."""

from __future__ import annotations

import pytest

from penstock.client import reconnect
from penstock.core.backoff import pauses_s


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconnect, "pauses_s", lambda dice, **_: pauses_s(dice, least_s=0.02, most_s=0.05))
