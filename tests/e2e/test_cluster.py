"""Nodes as real processes: killed, frozen and started again; at the end every event is accounted for."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from penstock.client import Client
from penstock.model.digest import Digest
from penstock_lab.rigs.direct_ways import direct_ways
from penstock_lab.rigs.ports import free_port
from tests.e2e.real_clients import How, Paho
from tests.kit.breakable_link import way
from tests.kit.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

    from penstock.client import Subscription

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("cluster")]


class Process:
    """One node of the cluster, always with the same name, ports and data folder."""

    def __init__(self, folder: Path, number: int, seed: int, **settings: Any) -> None:
        self.name = f"n{number}"
        self.port, self.http, self.direct = free_port(), free_port(), free_port()
        self._log = folder / f"{self.name}.log"
        self._config = folder / f"{self.name}.json"
        listen = seed if number == 1 else free_port()
        self._config.write_text(
            json.dumps(
                {
                    "listeners": [{"port": self.port}],
                    "http": {"port": self.http},
                    "data": str(folder / self.name),
                    "sys_interval_s": 0,
                    "cluster": {
                        "name": "ward",
                        "node": self.name,
                        "listen": f"tcp/127.0.0.1:{listen}",
                        "direct": f"tcp/127.0.0.1:{self.direct}",
                        "join": [] if number == 1 else [f"tcp/127.0.0.1:{seed}"],
                    }
                    | settings,
                }
            )
        )
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        command = (sys.executable, "-m", "penstock", "up", "--json", "--config", str(self._config))
        with self._log.open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = await asyncio.to_thread(self._process.stdout.readline)
        assert line, self._log.read_text()

    async def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            await asyncio.to_thread(process.wait)
            assert process.stdout is not None
            process.stdout.close()

    async def ended(self) -> int:
        """Wait until the node has ended by itself; returns its exit code."""
        process, self._process = self._process, None
        assert process is not None
        code = await asyncio.to_thread(process.wait, 120)
        assert process.stdout is not None
        process.stdout.close()
        return code

    async def status(self) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.http}/api/v1/cluster"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            found: dict[str, Any] = (await answer.json())["status"]
        return found

    def client(self, name: str, **how: Any) -> Client:
        return Client(f"mqtt://127.0.0.1:{self.port}", client_id=name, **how)


@asynccontextmanager
async def nodes(folder: Path, count: int, **settings: Any) -> AsyncIterator[list[Process]]:
    seed = free_port()
    made = [Process(folder, number, seed, **settings) for number in range(1, count + 1)]
    try:
        for one in made:
            await one.start()
        await met(*made)
        yield made
    finally:
        for one in made:
            await one.end()


async def met(*made: Process) -> None:
    """Wait until all nodes know each other."""
    async with asyncio.timeout(120):
        for one in made:
            while True:
                found = await one.status()
                if sum(row["state"] == "here" for row in found["members"]) == len(made) - 1:
                    break
                await asyncio.sleep(0.1)


async def take(subscription: Subscription, got: list[int], digested: list[int]) -> None:
    async for item in subscription:
        if isinstance(item, Digest):
            digested.append(item.count)
        else:
            got.append(int(item.payload))


async def reaches(found: list[int], count: int, *, also: list[int]) -> None:
    async with asyncio.timeout(120):
        while len(found) + sum(also) < count:
            await asyncio.sleep(0.02)


async def test_a_frozen_node_gets_what_waited_or_a_digest_of_it_when_it_is_back(tmp_path: Path) -> None:
    async with (
        nodes(tmp_path, 3, queue_events=50) as (n1, _, n3),
        n1.client("sensor") as sensor,
        n3.client("phone") as phone,
    ):
        subscription = await phone.subscribe("a/#", qos=1, digests="compact")
        got: list[int] = []
        digested: list[int] = []
        taking = asyncio.create_task(take(subscription, got, digested))
        for number in range(100):
            await sensor.publish("a/1", str(number), qos=1)
        await reaches(got, 100, also=digested)
        os.kill(n3.pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(120):
                while not any(row["state"] == "away" for row in (await n1.status())["members"]):
                    await asyncio.sleep(0.1)
            for number in range(100, 300):
                await sensor.publish("a/1", str(number), qos=1)  # nobody waits for a node that is away
        finally:
            os.kill(n3.pid, signal.SIGCONT)
        await reaches(got, 300, also=digested)
        for number in range(300, 400):
            await sensor.publish("a/1", str(number), qos=1)
        await reaches(got, 400, also=digested)
        assert got == sorted(set(got))
        assert len(got) + sum(digested) == 400
        assert sum(digested) >= 100
        found = await n1.status()
        link = next(row for row in found["links"] if row["name"] == "n3")["events"]
        assert link["accepted"] == 400 == link["handed"] + link["digested"]
        assert found["balanced"]
        taking.cancel()


async def test_a_frozen_node_gets_what_its_receivers_policies_keep_and_their_digests(tmp_path: Path) -> None:
    policy = "attribute: $value\nlevels: [{drop: {le: 600}}]"
    async with (
        nodes(tmp_path, 2, queue_events=100) as (n1, n2),
        n1.client("sensor") as sensor,
        n2.client("ward") as ward,
        n2.client("phone") as phone,
    ):
        got: dict[str, list[int]] = {"ward": [], "phone": []}
        digested: dict[str, list[int]] = {"ward": [], "phone": []}
        made = {
            "ward": await ward.subscribe("a/#", qos=1, policy=policy),
            "phone": await phone.subscribe("a/#", qos=1, digests="compact"),
        }
        taking = [asyncio.create_task(take(made[who], got[who], digested[who])) for who in made]
        os.kill(n2.pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(120):
                while not any(row["state"] == "away" for row in (await n1.status())["members"]):
                    await asyncio.sleep(0.1)
            for number in range(400):  # 0 … 639, with 601 … 639 now and then
                value = number if number % 20 else 601 + number // 20
                await sensor.publish("a/1", str(value), qos=1)
            async with asyncio.timeout(120):
                while (link := (await n1.status())["links"][0])["events"]["accepted"] < 400:
                    await asyncio.sleep(0.1)
            assert link["split"]
            assert {(row["filter"], row["level"] > 0) for row in link["private"]} >= {("a/#", True)}
            assert link["events"]["accepted"] == 400 == link["events"]["queued"] + link["events"]["digested"]
        finally:
            os.kill(n2.pid, signal.SIGCONT)
        for who in made:
            await reaches(got[who], 400, also=digested[who])
            assert len(got[who]) + sum(digested[who]) == 400, "the digests count the rest exactly"
        alarms = [value for value in got["ward"] if value > 600]
        assert alarms == [601 + number for number in range(20)], "the policy keeps what matters"
        assert len([value for value in got["phone"] if value > 600]) < 20, "without it the oldest go"
        async with asyncio.timeout(120):  # the API shows a moment ago
            while (await n1.status())["links"][0]["split"]:
                await asyncio.sleep(0.1)
        assert (await n1.status())["balanced"]
        for one in taking:
            one.cancel()


async def test_a_killed_node_loses_at_most_what_was_on_its_way_and_says_so(tmp_path: Path) -> None:
    async with nodes(tmp_path, 2) as (n1, n2), n1.client("sensor") as sensor:
        got: list[int] = []
        async with n2.client("phone", session_expiry_s=600, clean_start=False) as phone:
            taking = asyncio.create_task(take(await phone.subscribe("a", qos=1), got, []))
            for number in range(50):
                await sensor.publish("a", str(number), qos=1)
            await reaches(got, 50, also=[])
            taking.cancel()
        await n2.end()
        for number in range(50, 100):
            await sensor.publish("a", str(number), qos=1)
        await n2.start()
        await met(n1, n2)
        for number in range(100, 150):
            await sensor.publish("a", str(number), qos=1)
        async with n2.client("phone", session_expiry_s=600, clean_start=False) as phone:
            taking = asyncio.create_task(take(await phone.subscribe("a", qos=1), got, []))
            async with asyncio.timeout(120):
                while (events := (await n1.status())["events"])["accepted"] < 150:  # a moment ago
                    await asyncio.sleep(0.05)
                while len(set(got)) < 150 - events["abandoned"]:
                    await asyncio.sleep(0.02)
            taking.cancel()
        assert set(range(50)) | set(range(100, 150)) <= set(got)
        # What the killed node had sent comes again if it did not write down the acknowledgement.
        assert list(dict.fromkeys(got)) == sorted(set(got))
        assert all(number < 50 for number in got if got.count(number) > 1)
        assert events["accepted"] == 150 == events["handed"] + events["abandoned"]


async def test_a_killed_forwarder_costs_the_nodes_behind_it_nothing(tmp_path: Path) -> None:
    """A chain: n1 sends to one node, which passes on to the next. One is killed, another frozen."""
    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(nodes(tmp_path, 4, fan_out=1))
        n1, others = made[0], {one.name: one for one in made[1:]}
        got: dict[str, list[int]] = {name: [] for name in others}
        sensor = await stack.enter_async_context(n1.client("sensor"))
        for name, one in others.items():
            phone = await stack.enter_async_context(one.client(f"phone-{name}"))
            taking = asyncio.create_task(take(await phone.subscribe("a", qos=1), got[name], []))
            stack.callback(taking.cancel)
        ways = {row["name"]: row["via"] for row in (await n1.status())["links"]}
        last = next(name for name, via in ways.items() if len(via) == 2)
        first, second = ways[last]
        publishing = asyncio.create_task(_published(sensor, 300))
        await reaches(got[last], 50, also=[])
        assert sum(row["forwarded"] for row in (await others[first].status())["links"]) > 0
        os.kill(others[second].pid, signal.SIGSTOP)
        try:
            await reaches(got[last], 150, also=[])
        finally:
            os.kill(others[second].pid, signal.SIGCONT)
        await others[first].end()
        await publishing
        for name in (second, last):
            await reaches(got[name], 300, also=[])
            assert got[name] == list(range(300))
        found = await n1.status()
        assert found["repaired"] > 0
        assert found["balanced"]


async def _published(sensor: Client, count: int) -> None:
    for number in range(count):
        await sensor.publish("a", str(number), qos=1)
        await asyncio.sleep(0.005)  # the faults come in the middle


async def test_what_a_link_dropped_is_told_to_a_kept_session_though_its_node_is_killed(
    tmp_path: Path,
) -> None:
    """The digest is on disk before the node that dropped the events is told that it was taken."""
    async with nodes(tmp_path, 2, queue_events=50) as (n1, n2), n1.client("sensor") as sensor:
        async with n2.client("phone", session_expiry_s=600, clean_start=False) as phone:
            await phone.subscribe("a", qos=1, digests="compact")
        os.kill(n2.pid, signal.SIGSTOP)
        try:
            for number in range(200):  # more than the link has on its way at once
                await sensor.publish("a", str(number).zfill(4_000))
        finally:
            os.kill(n2.pid, signal.SIGCONT)
        async with asyncio.timeout(120):
            while True:
                events = (await n1.status())["events"]
                if events["accepted"] == events["handed"] + events["digested"] == 200:
                    break
                await asyncio.sleep(0.05)
        await n2.end()
        await n2.start()
        got: list[int] = []
        digested: list[int] = []
        async with n2.client("phone", session_expiry_s=600, clean_start=False) as phone:
            subscription = await phone.subscribe("a", qos=1, digests="compact")
            taking = asyncio.create_task(take(subscription, got, digested))
            async with asyncio.timeout(120):
                while not digested:
                    await asyncio.sleep(0.02)
            taking.cancel()
        assert sum(digested) >= events["digested"] > 0


async def test_nodes_started_again_one_after_the_other_lose_nothing(tmp_path: Path) -> None:
    """The rolling restart of the guide: the subscriber's session is kept, the publisher is elsewhere."""
    async with nodes(tmp_path, 2) as (n1, n2), n1.client("sensor") as sensor:
        got: list[int] = []
        async with n2.client("phone", session_expiry_s=600, clean_start=False) as phone:
            await phone.subscribe("a", qos=1)
        sent = 0

        async def publish(count: int) -> None:
            nonlocal sent
            for _ in range(count):
                await sensor.publish("a", str(sent), qos=1)
                sent += 1

        await publish(50)
        publishing = asyncio.create_task(publish(200))
        await n2.end(signal.SIGTERM)
        await publish(0)
        await n2.start()
        await publishing
        await met(n1, n2)
        await publish(50)
        async with n2.client("phone", session_expiry_s=600, clean_start=False) as phone:
            taking = asyncio.create_task(take(await phone.subscribe("a", qos=1), got, []))
            await reaches(got, sent, also=[])
            taking.cancel()
        assert got == list(range(sent))
        assert (await n1.status())["events"]["abandoned"] == 0


async def test_a_connection_that_is_cut_again_and_again_loses_nothing_and_repeats_nothing(
    tmp_path: Path,
) -> None:
    """All bytes between two nodes go through a way that is cut five times while messages of each QoS flow."""
    seed = free_port()
    async with AsyncExitStack() as stack:
        between = await stack.enter_async_context(way(seed))
        made = []
        for number, port in ((1, seed), (2, between.port)):
            ways = await stack.enter_async_context(direct_ways(lambda _: between))
            made.append(Process(tmp_path, number, port, direct_advertise=ways.address))
            ways.to = made[-1].direct
            stack.push_async_callback(made[-1].end)
            await made[-1].start()
        n1, n2 = made
        await met(n1, n2)
        sensor = await stack.enter_async_context(n1.client("sensor"))
        phone = await stack.enter_async_context(n2.client("phone"))
        got: list[int] = []
        digested: list[int] = []
        subscription = await phone.subscribe("a/#", qos=2, digests="compact")
        taking = asyncio.create_task(take(subscription, got, digested))
        async with asyncio.timeout(120):
            while not (await n1.status())["links"][0]["direct"]:
                await asyncio.sleep(0.05)
        direct = 0
        for number in range(500):
            await sensor.publish(f"a/{number % 3}", str(number), qos=number % 3)
            if number % 100 == 50:
                direct += (await n1.status())["links"][0]["direct"]
                between.cut()
        await reaches(got, 500, also=digested)
        taking.cancel()
        assert sorted(got) == list(range(500))
        assert digested == []
        assert direct, "no cut has met a direct connection"
        async with asyncio.timeout(120):  # the last acknowledgement may be on its way
            while (await n1.status())["events"]["handed"] < 500:
                await asyncio.sleep(0.05)
        events = (await n1.status())["events"]
        assert events["accepted"] == events["handed"] == (await n2.status())["events"]["received"] == 500


async def test_nodes_are_drained_and_restarted_in_turn_and_one_leaves(tmp_path: Path) -> None:
    """Subscribers and a publisher with a list of nodes; each node is drained and started again meanwhile."""
    async with nodes(tmp_path, 3) as made, AsyncExitStack() as stack:
        everywhere = ",".join(f"mqtt://127.0.0.1:{one.port}" for one in made)
        n1, n2, n3 = made
        phones = [
            await stack.enter_async_context(
                Client(everywhere, client_id=f"phone{number}", reconnect_most_s=1, session_expiry_s=600)
            )
            for number in range(3)
        ]
        got: list[list[int]] = [[] for _ in phones]
        for phone, into in zip(phones, got, strict=True):
            taking = asyncio.create_task(take(await phone.subscribe("a", qos=1), into, []))
            stack.callback(taking.cancel)
        sensor = await stack.enter_async_context(n3.client("sensor", reconnect_most_s=1))
        for number in range(20):
            await sensor.publish("a", str(number), qos=1)
        for one, other in ((n1, n2), (n2, n1)):
            where = f"http://127.0.0.1:{other.http}"
            drained = json.loads(
                await said("cluster", "drain", one.name, "--node", where, "--json", folder=tmp_path)
            )
            assert (drained["node"], drained["left"]) == (one.name, 0)
            assert await ready(one) == 503
            await settles(lambda: all(phone.connected for phone in phones))
            assert not any(phone.address.endswith(f":{one.port}") for phone in phones)
            await one.end(signal.SIGTERM)
            await one.start()
            await met(*made)
            assert await ready(one) == 200
        where = f"http://127.0.0.1:{n1.http}"
        assert await said("cluster", "leave", "n2", "--node", where, folder=tmp_path) == (
            "node n2 has left the cluster\n"
        )
        assert await n2.ended() == 0
        assert [row["name"] for row in (await n1.status())["members"]] == ["n3"]
        await settles(lambda: all(phone.connected for phone in phones))
        for number in range(20, 40):
            await sensor.publish("a", str(number), qos=1)
        for into in got:
            await reaches(into, 40, also=[])
            assert into == list(range(40))
        for one in (n1, n3):
            assert (await one.status())["balanced"]


KEPT: dict[str, Any] = {"session_expiry_s": 600, "clean_start": False}


async def visit(one: Process, got: list[int], until: Callable[[], bool]) -> None:
    """Our client at a node: it continues its session until something has happened."""
    async with one.client("phone", **KEPT) as phone:
        taking = asyncio.create_task(take(await phone.subscribe("a", qos=2), got, []))
        await settles(until)
        taking.cancel()


async def visit_with_paho(one: Process, got: list[int], until: Callable[[], bool]) -> None:
    """The same with paho, which subscribes only the first time.

    With QoS 2 it would show a message when that is released, and forget it with the program.
    """

    def stay() -> None:
        phone = Paho(How(client_id="phone", port=one.port, version=5, keep=True))
        try:
            if not got:
                phone.subscribe("a", qos=1)
            seen = 0
            while not until():
                heard = phone.heard[seen:]
                seen += len(heard)
                got.extend(int(each.payload) for each in heard)
                time.sleep(0.01)
        finally:
            phone.close()
            got.extend(int(each.payload) for each in phone.heard[seen:])

    await asyncio.wait_for(asyncio.to_thread(stay), 120)


def _either(publishing: asyncio.Task[None], got: list[int], enough: int) -> bool:
    """Whether everything is published, or enough has come."""
    return publishing.done() or len(got) > enough


@pytest.mark.parametrize("visiting", [visit, visit_with_paho], ids=["ours", "paho"])
async def test_a_client_moves_while_messages_are_published_and_its_node_is_killed(
    tmp_path: Path, visiting: Callable[[Process, list[int], Callable[[], bool]], Coroutine[Any, Any, None]]
) -> None:
    async with nodes(tmp_path, 3) as made, made[2].client("sensor") as sensor:
        got: list[int] = []
        sent = 0

        async def publish(count: int) -> None:
            nonlocal sent
            for _ in range(count):
                await sensor.publish("a", str(sent), qos=1 + sent % 2)
                sent += 1

        staying = asyncio.create_task(visiting(made[0], got, lambda: bool(got)))
        while not staying.done():
            await publish(1)
        await staying
        first = got[0]
        publishing = asyncio.create_task(publish(300))
        for step in range(1, 6):
            enough = len(got) + 10
            await visiting(made[step % 3], got, partial(_either, publishing, got, enough))
        await publishing
        await visiting(made[0], got, lambda: bool(got) and max(got) == sent - 1)
        # What was sent and not acknowledged is sent again.
        assert list(dict.fromkeys(got)) == list(range(first, sent))

        await publish(10)
        await made[0].end(signal.SIGKILL)
        await asyncio.sleep(1)
        killed = sent
        await publish(10)
        await visiting(made[1], got, lambda: bool(got) and max(got) == sent - 1)
        assert set(range(killed, sent)) <= set(got)
        await made[0].start()
        await met(*made)
        await visiting(made[1], got, lambda: len(set(got)) == sent - first)
        assert sorted(set(got)) == list(range(first, sent))
        status = await made[1].status()
        assert status["balanced"]
        assert status["sessions"]["came"] > 0


async def ready(one: Process) -> int:
    url = f"http://127.0.0.1:{one.http}/readyz"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status


async def settles(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not happened():
            await asyncio.sleep(0.05)


async def test_the_guide_can_be_followed(tmp_path: Path) -> None:
    """The three nodes of the guide with its commands; only the ports are others."""
    text = (ROOT / "docs" / "guides" / "cluster.md").read_text()
    ports = {port: str(free_port()) for port in set(re.findall(r"\b2[178][048]\d\d\b", text))}
    text = re.sub(r"\b2[178][048]\d\d\b", lambda found: ports[found[0]], text)
    for name, settings in re.findall(r"```yaml\n# (n\d\.yaml)\n(.*?)```", text, re.DOTALL):
        (tmp_path / name).write_text(settings)
    beginning, later, _ = text.partition("\n## Clients with several nodes\n")
    assert later, "the commands behind this heading are not for these three nodes"
    blocks = re.findall(r"```sh\n(.*?)```", beginning, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    starting = [line.partition("#")[0].split() for line in lines if line.startswith("penstock up --config")]
    processes = []
    try:
        for command in starting:
            process = await penstock(*command[1:], "--json", folder=tmp_path)
            processes.append(process)
            assert process.stdout is not None
            assert (await process.stdout.readline()).startswith(b"{")
        found = [
            shlex.split(line) for line in lines if not line.startswith(("penstock up", "penstock bench"))
        ]
        members, sub, *pubs, status = (command[1:] for command in found)
        async with asyncio.timeout(120):
            while "3 of 3 nodes here" not in await said(*members, folder=tmp_path):
                await asyncio.sleep(0.1)
        listening = await penstock(*sub, folder=tmp_path)
        processes.append(listening)
        assert listening.stderr is not None
        assert b"subscribed to ward/#" in await listening.stderr.readline()
        for command in pubs:
            await said(*command, folder=tmp_path)
        heard, _ = await asyncio.wait_for(listening.communicate(), 120)
        assert re.findall(rb'ward/(\d) \{"pulse": (\d+)\}', heard) == [(b"1", b"71"), (b"2", b"93")]
        async with asyncio.timeout(120):  # nodes acknowledge each other now and then
            shown = ""
            while "0 in flight + 0 abandoned" not in " ".join(shown.split()):
                shown = await said(*status, folder=tmp_path)
                await asyncio.sleep(0.1)
        assert "cluster ward, node n1" in shown
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def penstock(*arguments: str, folder: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "penstock",
        *arguments,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


async def said(*arguments: str, folder: Path) -> str:
    process = await penstock(*arguments, folder=folder)
    output, errors = await process.communicate()
    assert process.returncode == 0, errors
    return output.decode()
