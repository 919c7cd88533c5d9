"""A Mosquitto broker on loopback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock_lab.rigs.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")


@contextmanager
def mosquitto(folder: Path) -> Iterator[int]:
    """A Mosquitto broker with its files in a folder; its port."""
    number = free_port()
    config = folder / "mosquitto.conf"
    config.write_text(f"listener {number} 127.0.0.1\nallow_anonymous true\npersistence false\n")
    with subprocess.Popen([str(MOSQUITTO), "-c", str(config)], stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(number)
            yield number
        finally:
            process.terminate()


def _wait_for(number: int) -> None:
    for _ in range(1_200):  # two minutes
        try:
            socket.create_connection(("127.0.0.1", number), timeout=1).close()
        except (ConnectionRefusedError, TimeoutError):
            time.sleep(0.1)
        else:
            return
    raise AssertionError("mosquitto does not listen")
