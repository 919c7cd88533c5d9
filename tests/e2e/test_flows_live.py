"""Flows of constant rate between processes: on links offered three times their rate, and one that lies."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from penstock.client import Client
from penstock_lab.experiments.ces.live_figures import IDLE, KEPT, rows, too_busy
from penstock_lab.experiments.ces.overload_live import NODE, measure, setting_of
from penstock_lab.rigs.local_node import local_node

if TYPE_CHECKING:
    from penstock_lab.rigs.local_node import LocalNode

pytestmark = pytest.mark.e2e

SECONDS = 6
LIES = 350
TRUTH_S = 0.1


def settings(*, slots: bool) -> dict[str, Any]:
    return NODE | {"listeners": [{"kind": "tcp", "slots": slots}]}


def api(node: LocalNode, path: str) -> Any:
    with urlopen(f"{node.http.rstrip('/')}/api/v1{path}", timeout=300) as answer:  # noqa: S310  # our own node
        return json.load(answer)


def listed(node: LocalNode) -> Any:
    command = [sys.executable, "-m", "penstock", "flows", "--node", node.http, "--json"]
    return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=300).stdout)


def test_reserved_flows_keep_their_jitter_and_lose_nothing_while_best_effort_is_packed() -> None:
    with local_node(settings(slots=True)) as node, local_node(settings(slots=False)) as plain:
        nodes = {True: node, False: plain}
        phase = asyncio.run(
            measure(
                setting_of(3, SECONDS),
                {slots: each.port for slots, each in nodes.items()},
                seed=1,
                http={slots: each.http for slots, each in nodes.items()},
            )
        )
        flows, shown, account = api(node, "/flows"), listed(node), api(node, "/status")
    topics = [row["topic"] for row in flows["flows"] if "voice/" in row["topic"]]
    assert len(topics) == len(set(topics)) >= 12, "six flows for each of the two receivers"
    assert {row["told"] for row in flows["flows"] if row["topic"] in topics} == {"client"}
    assert sorted(row["topic"] for row in shown["flows"] if "voice/" in row["topic"]) == sorted(topics)
    assert account["balanced"], account["account"]
    assert account["account"]["digested"] > 0, "best effort is packed"
    assert phase.receivers[KEPT].balanced
    assert phase.receivers[IDLE].digested == 0
    found = rows([phase])
    print(*(f"{row.what}: {row.ours}" for row in found), sep="\n")  # noqa: T201  # shown with -s
    failing = [row for row in found if row.ok is False]
    if busy := too_busy(phase):  # jitter is then the machine's, and the rows that fail must say so
        failing = [row for row in failing if busy not in row.note]
    assert failing == []


async def lie(node: LocalNode) -> None:
    """Publish ten times as often as declared; after a pause of the machine, what is due by then."""
    loop = asyncio.get_running_loop()
    async with Client(node.url, client_id="liar") as liar:
        start_s = loop.time()
        for number in range(LIES):
            await asyncio.sleep(max(0.0, start_s + number * TRUTH_S / 10 - loop.time()))
            liar.publish_nowait("load/liar", bytes(20), properties={"penstock-period": f"{TRUTH_S:g}s"})
        await liar.publish("load/end", b"", qos=1)


def test_a_flow_that_sends_more_than_it_declares_does_not_go_ahead() -> None:
    with local_node(settings(slots=True)) as node:
        asyncio.run(lie(node))
        found = api(node, "/flows")
    liar = next(row for row in found["flows"] if row["topic"] == "load/liar")
    assert found["status"]["refused"].get("sends more than it declared", 0) >= 1, (found["status"], liar)
    assert liar["excess"] >= 5
    assert liar["on_time"] < liar["arrivals"] / 4, "it goes ahead with no more than it told"
