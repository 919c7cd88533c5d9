"""The fabric made of Zenoh: real nodes on loopback join, leave, and keep strangers out."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock import limits
from penstock.core.cluster.frames import VERSION, data_frame
from penstock.errors import NodeError
from penstock.node.cluster import refusals, zenoh_fabric
from penstock.node.cluster.direct.fabric import DirectFabric
from penstock.node.cluster.zenoh_fabric import listen_address, sighting_of
from penstock.node.config.cluster import Address, ClusterSettings
from penstock.node.config.read import LoadedConfig
from penstock.node.config.schema import Config, Listener
from penstock.node.service import Node
from penstock_lab.rigs.ports import free_port
from tests.kit.certificates import Certificates, make
from tests.kit.peer import Running
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from penstock.core.cluster.view import Sighting

pytestmark = pytest.mark.xdist_group("cluster")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stalls for seconds must not look like a node that has gone."""
    monkeypatch.setattr(limits, "CLUSTER_LEASE_S", 60.0)


@asynccontextmanager
async def clustered(name: str, *join: str, **settings: Any) -> AsyncIterator[tuple[Node, Running]]:
    """A whole node of a cluster on loopback."""
    cluster = {
        "name": "ward",
        "node": name,
        "listen": f"tcp/127.0.0.1:{free_port()}",
        "join": join,
    } | settings
    config = msgspec.structs.replace(
        Config(),
        listeners=(Listener(port=0),),
        http=msgspec.structs.replace(Config().http, enabled=False),
        data="",
        sys_interval_s=0.0,
        cluster=msgspec.convert(cluster, ClusterSettings),
    )
    async with Node(LoadedConfig(config)) as node:
        running = Running(node.broker, node.listeners[0].port)
        try:
            yield node, running
        finally:
            for peer in running.peers:
                peer.writer.close()


def here(node: Node) -> int:
    assert node.cluster is not None
    return node.cluster.status().here


def direct(*nodes: Node) -> bool:
    """Whether all links of these nodes go over direct connections."""
    return all(row.direct for one in nodes if one.cluster is not None for row in one.cluster.status().links)


def address(node: Node) -> str:
    assert node.cluster is not None
    return node.cluster.address


@pytest.mark.slow
async def test_a_third_node_joins_through_the_second_and_knows_all() -> None:
    async with (
        clustered("n1") as (n1, at1),
        clustered("n2", address(n1)) as (n2, _),
        clustered("n3", address(n2)) as (n3, at3),
    ):
        await until(lambda: [here(one) for one in (n1, n2, n3)] == [3, 3, 3] and direct(n1, n2, n3))
        phone, sensor = await at3.connect("phone"), await at1.connect("sensor")
        await phone.subscribe("a/#", qos=2)
        sensor.publish0("a/0", b"0")
        await sensor.publish1("a/1", b"1")
        await sensor.publish2("a/2", b"2")
        assert await phone.payloads(3) == [b"0", b"1", b"2"]
        assert n3.cluster is not None
        await n3.cluster._fabric.close()
        await until(lambda: [here(one) for one in (n1, n2)] == [2, 2])


@pytest.mark.slow
async def test_a_node_started_before_its_seed_finds_it_later(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = f"tcp/127.0.0.1:{free_port()}"
    monkeypatch.setattr(limits, "CLUSTER_JOIN_S", 0.2)
    async with clustered("n2", seed) as (n2, _):
        assert f"no node can be joined: {seed} connection refused" in caplog.text
        assert n2.cluster is not None
        assert ["no node can be joined" in fault for fault in n2.cluster.status().faults] == [True]
        async with clustered("n1", listen=seed) as (n1, _):
            await until(lambda: here(n1) == here(n2) == 2)
            await until(lambda: n2.cluster is not None and not n2.cluster.status().problem)


@pytest.mark.slow
async def test_a_node_that_is_alone_joins_by_the_addresses_of_a_reloaded_configuration(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(limits, "CLUSTER_JOIN_S", 0.2)
    async with clustered("n1") as (n1, at1), clustered("n2", f"tcp/127.0.0.1:{free_port()}") as (n2, at2):
        changes = {"join": (address(n1),), "zone": "east", "gossip": False}
        cluster = msgspec.structs.replace(n2.config.cluster, **changes)
        n2._again = lambda: LoadedConfig(msgspec.structs.replace(n2.config, cluster=cluster))
        assert n2.reload()
        await until(lambda: here(n1) == here(n2) == 2)
        assert "cluster.gossip: the change takes effect when the node is started again" in caplog.text
        assert "cluster.join" not in caplog.text
        phone, sensor = await at1.connect("phone"), await at2.connect("sensor")
        await phone.subscribe("a", qos=1)
        await sensor.publish1("a", b"x")
        assert await phone.payloads(1) == [b"x"]
        assert n1.cluster is not None
        await until(lambda: n1.cluster.status().members[0].zone == "east")  # type: ignore[union-attr]


async def test_the_first_node_may_be_told_to_join_its_own_address() -> None:
    own = f"tcp/127.0.0.1:{free_port()}"
    async with clustered("n1", own, listen=own) as (n1, _), clustered("n2", own) as (n2, _):
        await until(lambda: here(n1) == here(n2) == 2)
        assert n1.cluster is not None
        assert n1.cluster.status().faults == ()


@pytest.mark.parametrize("off", ["n1", "n2"])
async def test_a_node_without_direct_connections_is_reached_through_zenoh(off: str) -> None:
    settings = {name: {"direct": "off"} if name == off else {} for name in ("n1", "n2")}
    async with (
        clustered("n1", **settings["n1"]) as (n1, at1),
        clustered("n2", address(n1), **settings["n2"]) as (n2, at2),
    ):
        await until(lambda: here(n1) == here(n2) == 2)
        await both_ways(at1, at2)
        assert not direct(n1)
        assert not direct(n2)
        assert [row.damaged for one in (n1, n2) for row in one.cluster.status().links] == [0, 0]  # type: ignore[union-attr]


@pytest.mark.e2e
def test_a_node_on_its_own_does_not_load_zenoh() -> None:
    code = "import sys, penstock.node.service, penstock.node.http; sys.exit('zenoh' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
async def test_a_node_with_a_wrong_password_stays_out_and_is_told_why(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CLUSTER_JOIN_S", 0.5)
    monkeypatch.setattr(refusals, "LOOK_S", 0.1)
    async with (
        clustered("n1", password="right") as (n1, _),  # noqa: S106
        clustered("n2", address(n1), password="right") as (n2, _),  # noqa: S106
        clustered("n3", address(n1), password="wrong") as (n3, _),  # noqa: S106
        clustered("n4", address(n1)) as (n4, _),
    ):
        await until(lambda: here(n1) == here(n2) == 2)
        assert here(n3) == here(n4) == 1
        for outside in (n3, n4):
            assert outside.cluster is not None
            assert (
                "does not let this node in: the passwords or certificates differ"
                in outside.cluster.status().problem
            )
        await until(lambda: "from 127.0.0.1 do not become a node: its password" in caplog.text)
        assert n1.cluster is not None
        assert n1.cluster.status().refused >= 2


async def test_a_node_that_was_let_in_and_has_left_was_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "LOOK_S", 0.05)
    async with clustered("n1") as (n1, _):
        for name in ("n2", "n3"):
            async with clustered(name, address(n1)) as (other, _):
                await until(lambda other=other: here(other) == 2)  # type: ignore[misc]
            await asyncio.sleep(0.2)
        assert n1.cluster is not None
        assert n1.cluster.status().refused == 0


async def test_a_name_that_is_taken_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLUSTER_JOIN_S", 1.0)
    async with clustered("n1") as (n1, _):
        with pytest.raises(NodeError, match="has a node named 'n1' already"):
            async with clustered("n1", address(n1)):
                pass
        assert here(n1) == 1


async def test_a_port_that_is_taken_is_refused() -> None:
    async with clustered("n1") as (n1, _):
        with pytest.raises(NodeError, match="the address is already in use"):
            async with clustered("n2", listen=address(n1)):
                pass


async def test_garbage_on_the_port_disturbs_nobody() -> None:
    async with clustered("n1") as (n1, at1), clustered("n2", address(n1)) as (n2, at2):
        _, host, port = Address("tcp", "127.0.0.1", int(address(n1).rpartition(":")[2]))
        writers = []
        for junk in (b"GET / HTTP/1.1\r\n\r\n" * 1_000, b"\xff" * 100_000, b"\x10\x00", b""):
            _, writer = await asyncio.open_connection(host, port)
            writer.write(junk)
            writers.append(writer)
        await until(lambda: here(n1) == here(n2) == 2)
        phone, sensor = await at2.connect("phone"), await at1.connect("sensor")
        await phone.subscribe("a", qos=1)
        await sensor.publish1("a", b"x")
        assert await phone.payloads(1) == [b"x"]
        for writer in writers:
            writer.transport.abort()


@pytest.mark.slow
async def test_nodes_with_certificates_join_over_tls_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / "good", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    good, other = map(make, folders)
    monkeypatch.setattr(limits, "CLUSTER_JOIN_S", 0.5)

    def tls(made: Certificates) -> dict[str, str]:
        return {
            "listen": f"tls/127.0.0.1:{free_port()}",
            "certificate": str(made.server),
            "key": str(made.server_key),
            "ca": str(made.ca),
        }

    async with (
        clustered("n1", **tls(good)) as (n1, at1),
        clustered("n2", address(n1), **tls(good)) as (n2, at2),
        clustered("n3", address(n1), **tls(other)) as (n3, _),
    ):
        await until(lambda: here(n1) == here(n2) == 2 and direct(n1, n2))
        assert here(n3) == 1
        phone, sensor = await at2.connect("phone"), await at1.connect("sensor")
        await phone.subscribe("a", qos=1)
        await sensor.publish1("a", b"x")
        assert await phone.payloads(1) == [b"x"]


def test_a_free_port_is_chosen_where_the_usual_one_is_taken_and_others_are_joined() -> None:
    assert listen_address(ClusterSettings(name="a", listen="tcp/[::1]:7000")) == Address("tcp", "::1", 7000)
    chosen = listen_address(ClusterSettings(name="a", listen="tcp/127.0.0.1:0"))
    assert chosen.port
    with pytest.raises(NodeError, match=r"cluster\.listen"):
        listen_address(ClusterSettings(name="a", listen="tcp/192.0.2.1:0"))


@pytest.mark.parametrize(
    "key", ["penstock/alive/1/ward/n1", "penstock/link/1/ward/n1/5", "penstock/alive/x/ward/n1/5", "a"]
)
def test_keys_that_are_no_nodes_are_ignored(key: str) -> None:
    assert sighting_of(key) is None


@contextmanager
def stranger(address: str) -> Iterator[Any]:
    """A session of Zenoh that has joined the fabric, and is no node of ours."""
    config = {
        "mode": "peer",
        "connect": {"endpoints": [address]},
        "scouting": {"multicast": {"enabled": False}},
    }
    session = zenoh_fabric.load_zenoh().open(zenoh_fabric.load_zenoh().Config.from_json5(json.dumps(config)))
    try:
        yield session
    finally:
        session.close()


async def test_strangers_on_the_fabric_are_named_and_stay_out(caplog: pytest.LogCaptureFixture) -> None:
    async with clustered("n1") as (n1, at1), clustered("n2", address(n1)) as (n2, at2):
        await until(lambda: here(n1) == here(n2) == 2)
        with stranger(address(n1)) as other:
            tokens = [
                other.liveliness().declare_token(f"penstock/alive/{key}")
                for key in (
                    f"{VERSION}/yard/n9/1",
                    f"{VERSION + 1}/ward/n8/1",
                    f"{VERSION}/ward/n1/1",
                    "garbage",
                )
            ]
            await until(
                lambda: "node n9 stays out: it belongs to cluster 'yard', and this is 'ward'" in caplog.text
            )
            await until(lambda: f"node n8 stays out: it speaks version {VERSION + 1}" in caplog.text)
            await until(lambda: "another node is named n1, too; it was started earlier" in caplog.text)
            assert here(n1) == here(n2) == 2
            assert len(tokens) == 4
            await both_ways(at1, at2)


@pytest.mark.slow
async def test_a_node_that_floods_is_bounded_and_disturbs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zenoh_fabric, "INBOX_BYTES", 1 << 20)
    # CONNECT, SUBSCRIBE and PUBLISH wait this long for the answer of the node that only floods.
    wait: dict[str, Any] = {"wait_s": 0.2, "move_s": 0.2}
    async with clustered("n1", **wait) as (n1, at1), clustered("n2", address(n1), **wait) as (n2, at2):
        await until(lambda: here(n1) == here(n2) == 2)
        assert n1.cluster is not None
        outer, own = n1.cluster._fabric, n1.cluster.own
        assert isinstance(outer, DirectFabric)
        fabric = outer._inner
        assert isinstance(fabric, zenoh_fabric.ZenohFabric)
        most = 0

        def looked(sender: Sighting, frame: bytes) -> None:
            nonlocal most
            most = max(most, fabric._inbox_bytes + len(frame))
            received(sender, frame)

        received = n1.cluster.received
        monkeypatch.setattr(n1.cluster, "received", looked)
        with stranger(address(n1)) as other:
            token = other.liveliness().declare_token(f"penstock/alive/{VERSION}/ward/bad/7")
            await until(lambda: here(n1) == 3)
            key = f"penstock/link/ward/{own.name}/{own.incarnation}/bad/7"
            frames = [data_frame(number, bytes(60_000)) for number in range(2, 102)]
            await asyncio.to_thread(lambda: [other.put(key, frame) for _ in range(10) for frame in frames])
            await both_ways(at1, at2)
            peer = n1.cluster.peer("bad")
            assert peer is not None
            assert peer.link.taken == 0, "its first frame never came"
            token.undeclare()
        assert 0 < most <= (1 << 20) + 70_000


async def both_ways(at1: Running, at2: Running) -> None:
    """Messages between two nodes arrive."""
    for number, (here_, there) in enumerate(((at1, at2), (at2, at1))):
        phone, sensor = await there.connect(f"phone{number}"), await here_.connect(f"sensor{number}")
        await phone.subscribe("a", qos=1)
        await sensor.publish1("a", b"x")
        assert await phone.payloads(1) == [b"x"]
        await phone.unsubscribe("a")
