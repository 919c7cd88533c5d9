"""Connections that never became a node: found in the tables of Linux, counted, named once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from penstock import limits
from penstock.node.cluster import refusals
from penstock.node.cluster.refusals import Refusals

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def row(local: str, other: str, state: str) -> str:
    return (
        f"   0: {local} {other} {state} 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0\n"
    )


def let_in(place: str) -> SimpleNamespace:
    return SimpleNamespace(link=SimpleNamespace(dst=place))


def test_closed_connections_to_the_port_are_found_in_both_tables(tmp_path: Path) -> None:
    four, six = tmp_path / "tcp", tmp_path / "tcp6"
    four.write_text(
        HEAD
        + row("0100007F:1D17", "00000000:0000", "0A")
        + row("0100007F:1D17", "0200000A:8433", "06")
        + row("0100007F:1D17", "0300000A:8433", "01")
        + row("0100007F:0050", "0400000A:8433", "06")
        + "rubbish\n"
    )
    loopback = "00000000000000000000000001000000"
    mapped = "0000000000000000FFFF00000500000A"
    six.write_text(
        HEAD
        + row(f"{loopback}:1D17", f"{loopback}:0001", "06")
        + row(f"{loopback}:1D17", f"{mapped}:0002", "06")
    )
    found = Refusals(0x1D17, tables=(four, six, tmp_path / "none"))
    assert list(found._closed()) == ["10.0.0.2:33843", "[::1]:1", "10.0.0.5:2"]


def test_an_address_is_named_when_it_comes_again_and_not_each_time(caplog: pytest.LogCaptureFixture) -> None:
    found = Refusals(1)
    found.admitted(let_in("tcp/10.0.0.2:5"))
    found.admitted(let_in("tls/[::1]:6?x=1"))
    found.look(["10.0.0.2:5", "[::1]:6", ""])
    found.look(["10.0.0.2:5", "10.0.0.2:7", "10.0.0.3:7", "10.0.0.3:8"])
    found.look(["10.0.0.2:5", "10.0.0.2:7", "10.0.0.3:7", "10.0.0.3:8"])
    assert (found.refused, caplog.text) == (0, ""), "two nodes may have connected to each other at once"
    found.look(["10.0.0.3:8", "10.0.0.3:9"])
    assert found.refused == 3
    said = "connections from 10.0.0.3 do not become a node: its password or certificates differ"
    assert said in caplog.text
    for look in range(refusals.AGAIN_LOOKS - 1):
        found.look(["10.0.0.3:8", f"10.0.0.3:{1_000 + look}"])
    assert found.refused == 3 + refusals.AGAIN_LOOKS - 1, "each is counted once"
    assert caplog.text.count("10.0.0.3") == 1
    found.look(["10.0.0.3:10"])
    assert caplog.text.count("10.0.0.3") == 2
    for _ in range(refusals.PROOF_LOOKS):
        found.look([])
    found.look(["10.0.0.2:9"])
    assert "10.0.0.2" not in caplog.text


def test_a_flood_of_connections_fills_neither_the_memory_nor_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CLUSTER_CONNECTIONS", 50)
    found = Refusals(1)
    for number in range(100):
        found.admitted(let_in(f"tcp/10.1.0.1:{number}"))
    for port in (1, 2):
        found.look([f"10.2.0.{number}:{port}" for number in range(40)])
    found.look([f"10.3.0.{number}:1" for number in range(250)])
    assert max(len(found._admitted), len(found._counted), len(found._seen)) <= 50
    assert found.refused == 80
    assert len(caplog.records) == refusals.NAMED_MOST + 1
    assert "nor do those from 30 other addresses" in caplog.text
