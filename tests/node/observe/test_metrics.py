"""Prometheus reads what we write, and sees no more series than it should."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import limits
from penstock.node.broker.journal import Journal
from penstock.node.observe import metrics
from penstock.node.observe.status import NodeStatus
from penstock.node.store.tables import STORE, Store
from tests.kit.http_node import VITALS, running
from tests.kit.metrics import samples
from tests.kit.status import broker, client, subscription

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_metrics_of_a_node_with_a_slow_receiver() -> None:
    async with running() as node_:
        await node_.stalled("phone", "ward/#", policy=VITALS)
        status, text, headers = await node_.ask("GET", "/metrics")
        assert status == 200
        assert headers["Content-Type"].startswith("text/plain; version=")
        found = samples(text)
        fates = {labels["fate"]: value for labels, value in found["penstock_events_total"]}
        queued = found["penstock_events_queued"][0][1]
        assert fates.pop("accepted") == sum(fates.values()) + queued
        assert found["penstock_account_balanced"] == [({}, 1.0)]
        assert found["penstock_clients"] == [({"state": "attached"}, 1.0), ({"state": "detached"}, 0.0)]
        ((labels, items),) = found["penstock_slow_subscription_items"]
        assert labels == {"client": "phone", "filter": "ward/#"}
        assert items > 0
        assert found["process_resident_memory_bytes"][0][1] > 0
        assert found["penstock_faults"] == [({}, 0.0)]


async def test_a_store_that_cannot_be_written_is_seen_everywhere(tmp_path: Path) -> None:
    async with running() as node:
        assert "penstock_store_stopped" not in samples((await node.ask("GET", "/metrics"))[1])
        journal = node.broker.journal = Journal(Store(tmp_path / STORE))
        journal._commits.fault = "database or disk is full"
        journal.hold(lambda: None, behind=True)
        node.server._watch.changed()
        found = samples((await node.ask("GET", "/metrics"))[1])
        assert found["penstock_faults"] == found["penstock_store_stopped"] == [({}, 1.0)]
        assert found["penstock_store_answers_waiting"] == [({}, 1.0)]
        overview = await node.get("/status")
        (fault,) = overview["faults"]
        assert "database or disk is full" in fault
        assert overview["store"] == {"fault": "database or disk is full", "rows": 0, "answers": 1}
        node.broker.journal = None
        journal._commits.fault = ""
        await journal.close()


def test_only_the_slowest_have_series_of_their_own() -> None:
    crowd = [client(f"c{number}", subscription("x", items=number)) for number in range(1_000)]
    text, _ = metrics.text(NodeStatus(broker(1, *crowd)))
    found = samples(text.decode())["penstock_slow_subscription_items"]
    assert len(found) == limits.METRICS_SLOWEST
    assert found[0] == ({"client": "c999", "filter": "x"}, 999.0)


def test_names_of_strangers_stay_within_their_quotes() -> None:
    name = 'a"} 1\npenstock_connections 7\n\\'
    text, _ = metrics.text(NodeStatus(broker(1, client(name, subscription("x", items=1)))))
    found = samples(text.decode())
    assert found["penstock_connections"] == [({}, 0.0)]
    assert found["penstock_slow_subscription_items"][0][0]["client"] == name
