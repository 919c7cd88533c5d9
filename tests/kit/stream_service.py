"""A node with a reliable stream as a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator
    from pathlib import Path


def configuration(folder: Path, port: int) -> Path:
    path = folder / "node.yaml"
    path.write_text(
        f"""
listeners: [{{host: 127.0.0.1, port: {port}}}]
http: {{enabled: false}}
data: data
streams: {{host: [{{name: orders, topics: [orders/#]}}]}}
"""
    )
    return path


@asynccontextmanager
async def service(config: Path) -> AsyncIterator[Process]:
    """`penstock up`, until it is killed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock", "up", "--json", "--config", str(config)),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        said = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
        assert said["streams"] == {"hosted": ["orders"], "listener": None}
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
