"""Control tables that a node follows: policies of classes of receivers, and what the API says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock import Client, limits
from penstock.node.broker.policies import policy_follower
from penstock.node.config.read import LoadedConfig
from penstock.node.config.schema import Config, Http, Installed, Listener
from penstock.node.service import Node
from penstock.pipeline.tables.control_tables import roll_back, write_version
from tests.kit.http_node import running
from tests.kit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

KEEP = "name: {}\nlevels:\n  - keep: {{latest_by: $topic}}\n"


def publish(folder: Path, *rows: tuple[str, str, str, str]) -> None:
    names = ("name", "client", "filter", "policy")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    write_version(
        pa.table(columns, pa.schema([(name, pa.string()) for name in names])), folder, name="policies"
    )


def policies(node: Node) -> dict[str, str]:
    return {
        client.client_id: client.subscriptions[0].policy
        for client in node.broker.status().clients
        if client.subscriptions
    }


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONTROL_LOOK_S", 0.05)


async def test_receivers_get_the_policies_of_the_table_and_lose_them_by_a_rollback(tmp_path: Path) -> None:
    table = tmp_path / "policies"
    publish(table, ("old", "dash-*", "ward/#", KEEP.format("old")))
    config = Config(
        data="",
        listeners=(Listener(port=0),),
        http=Http(port=0),
        policies={"mine": KEEP.format("mine")},
        install=(Installed(policy="mine", client="dash-own"),),
        policy_table=str(table),
        sys_interval_s=0,
    )
    async with Node(LoadedConfig(config)) as node:
        port = node.listeners[0].port
        async with (
            Client(f"mqtt://127.0.0.1:{port}", client_id="dash-1") as dash,
            Client(f"mqtt://127.0.0.1:{port}", client_id="dash-own") as own,
            Client(f"mqtt://127.0.0.1:{port}", client_id="phone") as phone,
        ):
            await dash.subscribe("ward/1")
            await own.subscribe("ward/1")  # the operator's own word counts more
            await phone.subscribe("ward/1")
            expected = {"dash-1": "old", "dash-own": "mine", "phone": ""}
            assert policies(node) == expected
            publish(table, ("new", "dash-*", "ward/#", KEEP.format("new")))
            await until(lambda: policies(node)["dash-1"] == "new")
            (shown,) = node.observed.status().tables
            assert (shown.version, shown.rows) == (2, 1)
            assert (shown.added, shown.removed, shown.changed) == (1, 1, 0)
            assert shown.examples[0].startswith("+ new dash-* ward/#")
            publish(table, ("broken", "dash-*", "ward/#", "levels: 7"))
            await until(lambda: node.observed.status().tables[0].fault)
            assert policies(node)["dash-1"] == "new"
            assert "a newer table of policies was refused" in node.observed.status().faults[0]
            roll_back(table, to=1)
            await until(lambda: policies(node)["dash-1"] == "old")
            assert node.observed.status().tables[0].fault == ""
            assert policies(node) == expected


async def test_the_api_shows_version_age_and_change(tmp_path: Path) -> None:
    table = tmp_path / "policies"
    publish(table, ("one", "*", "#", KEEP.format("one")))
    async with running() as node:
        assert (await node.get("/tables"))["tables"] == []
        assert (await node.get("/status"))["parts"] == []
        follower = policy_follower(str(table), node.broker.take_policies)
        node.observed.tables.append(follower)
        await follower.look()
        assert (await node.get("/status"))["parts"] == ["tables"]
        found: dict[str, Any] = await node.get("/tables")
        (shown,) = found["tables"]
        assert (shown["table"], shown["version"], shown["added"]) == ("policies", 1, 1)
        assert 0 <= found["now_us"] - shown["made_us"] < 600_000_000
        publish(table, ("one", "*", "#", KEEP.format("two")))
        await follower.look()
        (shown,) = (await node.get("/tables"))["tables"]
        assert (shown["version"], shown["added"], shown["removed"], shown["changed"]) == (2, 0, 0, 1)
