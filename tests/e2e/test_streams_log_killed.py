"""Logs whose process is killed without a warning, or may write no more: real signals, real limits."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from random import Random
from typing import TYPE_CHECKING

import pytest

from penstock_lab.rigs.nats_server import nats_server
from tests.kit.stream_logs import Disk, body

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("nats-log")]

APPEND = """
import asyncio, sys
from pathlib import Path
from tests.kit.stream_logs import body
from penstock.node.streams.log.factory import open_log
from penstock.node.config.streams import Nats, Streams

async def go():
    folder, url, size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    settings = Streams(log="nats", nats=Nats((url,))) if url else Streams()
    log = await open_log(settings, "orders", folder)
    told = asyncio.Event()
    def committed(until, claimed):
        print(until, flush=True)
        told.set()
    log.start(committed=committed, ready=lambda: None)
    tick = log.end
    while not log.fault:
        for _ in range(20):
            log.append(tick, body(tick, size))
            tick += 1
        if tick % 500 == 0:
            log.trim(tick - 2_000)
        told.clear()
        await asyncio.wait([asyncio.create_task(told.wait())], timeout=1)
    print(log.fault, file=sys.stderr, flush=True)
    await asyncio.sleep(60)

asyncio.run(go())
"""


def start(folder: Path, url: str, *, before: str = "", size: int = 100) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", before + APPEND, str(folder), url, str(size)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The last tick behind which it was told that all is durable, and what it complained about."""
    process.kill()
    out, err = process.communicate(timeout=300)
    lines = [line for line in out.split("\n")[:-1] if line]  # the last may be half a line
    return int(lines[-1]) if lines else 0, err


@pytest.mark.parametrize("kind", ["file", "nats"])
def test_a_killed_process_loses_nothing_it_was_told(kind: str, tmp_path: Path) -> None:
    if kind == "file":
        _rounds(Disk("file", tmp_path))
        return
    with nats_server() as server:
        _rounds(Disk("nats", tmp_path, server))


def _rounds(disk: Disk) -> None:
    dice = Random(7)
    url = "" if disk.server is None else disk.server.url
    for _ in range(5):
        process = start(disk.folder, url)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(dice.uniform(0.0, 0.3))
        told, err = ended(process)
        assert err == ""
        asyncio.run(_look(disk, told))


async def _look(disk: Disk, told: int) -> None:
    orders = await disk.open()
    found = await orders.all()
    assert orders.log.end >= told
    assert found == list(range(orders.log.trimmed, orders.log.end))
    assert orders.log.trimmed <= max(0, told - 1_000)
    await disk.close(orders)


async def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """The limit of a file's size stands for the end of the disk; Python ignores its signal."""
    disk = Disk("file", tmp_path)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))\n"
    process = start(disk.folder, "", before=limit, size=1_000)
    assert process.stderr is not None
    fault = process.stderr.readline()
    told, _ = ended(process)
    assert "orders.log.sqlite: " in fault
    assert "disk" in fault
    assert told > 100
    await _look_at_start(disk, told)


async def _look_at_start(disk: Disk, told: int) -> None:
    orders = await disk.open()
    found = await orders.read(0, 1 << 62, 1 << 20)
    assert len(found) >= told
    assert found == [(tick, body(tick, 1_000)) for tick in range(len(found))]
    orders.append(len(found), size=1_000)  # there is room again
    await orders.durable()
    await disk.close(orders)
