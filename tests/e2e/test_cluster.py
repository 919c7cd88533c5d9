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
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from penstock.client import Client
from penstock.model.digest import Digest
from penstock_lab.rigs.ports import free_port
from tests.kit.breakable_link import way
from tests.kit.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from penstock.client import Subscription

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("cluster")]


class Process:
    """One node of the cluster, always with the same name, ports and data folder."""

    def __init__(self, folder: Path, number: int, seed: int, **settings: Any) -> None:
        self.name = f"n{number}"
        self.port, self.http = free_port(), free_port()
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
            events = (await n1.status())["events"]
            async with asyncio.timeout(120):
                while len(set(got)) < 150 - events["abandoned"]:
                    await asyncio.sleep(0.02)
            taking.cancel()
        assert set(range(50)) | set(range(100, 150)) <= set(got)
        # What the killed node had sent comes again if it did not write down the acknowledgement.
        assert list(dict.fromkeys(got)) == sorted(set(got))
        assert all(number < 50 for number in got if got.count(number) > 1)
        assert events["accepted"] == 150 == events["handed"] + events["abandoned"]


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
    async with way(seed) as between:
        n1, n2 = Process(tmp_path, 1, seed), Process(tmp_path, 2, between.port)
        try:
            await n1.start()
            await n2.start()
            await met(n1, n2)
            async with n1.client("sensor") as sensor, n2.client("phone") as phone:
                got: list[int] = []
                digested: list[int] = []
                subscription = await phone.subscribe("a/#", qos=2, digests="compact")
                taking = asyncio.create_task(take(subscription, got, digested))
                for number in range(500):
                    await sensor.publish(f"a/{number % 3}", str(number), qos=number % 3)
                    if number % 100 == 50:
                        between.cut()
                await reaches(got, 500, also=digested)
                taking.cancel()
                assert sorted(got) == list(range(500))
                assert digested == []
                events = (await n1.status())["events"]
                assert (
                    events["accepted"] == events["handed"] == (await n2.status())["events"]["received"] == 500
                )
        finally:
            await n1.end()
            await n2.end()


async def test_the_guide_can_be_followed(tmp_path: Path) -> None:
    """The three nodes of the guide with its commands; only the ports are others."""
    text = (ROOT / "docs" / "guides" / "cluster.md").read_text()
    ports = {port: str(free_port()) for port in set(re.findall(r"\b2[178][048]\d\d\b", text))}
    text = re.sub(r"\b2[178][048]\d\d\b", lambda found: ports[found[0]], text)
    for name, settings in re.findall(r"```yaml\n# (n\d\.yaml)\n(.*?)```", text, re.DOTALL):
        (tmp_path / name).write_text(settings)
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    starting = [line.partition("#")[0].split() for line in lines if line.startswith("penstock up --config")]
    processes = []
    try:
        for command in starting:
            process = await penstock(*command[1:], "--json", folder=tmp_path)
            processes.append(process)
            assert process.stdout is not None
            assert (await process.stdout.readline()).startswith(b"{")
        found = [shlex.split(line) for line in lines if not line.startswith("penstock up")]
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
