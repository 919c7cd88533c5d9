"""Ports of loopback for servers that are started a moment later, or again and again on the same port.

A port that the kernel has chosen and that is closed again may be given to anybody: to another server, or to a
client that connects somewhere. These ports lie below the range from which the kernel chooses, and each is
locked as a file for as long as the process lives that asked: several test runs share a machine.
"""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path
from tempfile import gettempdir
from typing import Final

from penstock.errors import NodeError

HOST: Final = "127.0.0.1"
FIRST: Final = 12_000
RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
END: Final = 32_768
"""The range of the kernel begins here where nothing else is known."""

_locks: list[int] = []
"""Open files, closed when the process ends."""


def free_port() -> int:
    """A port that nothing listens on, and that nobody else gets here while this process lives."""
    folder = Path(gettempdir(), f"penstock-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    end = int(RANGE.read_text().split()[0]) if RANGE.exists() else END
    count = max(1, end - FIRST)
    begin = os.getpid() * 101 + len(_locks)  # processes begin apart: few ports are tried twice
    for number in range(begin, begin + count):
        port = FIRST + number % count
        lock = os.open(folder / str(port), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            socket.create_server((HOST, port)).close()
        except OSError:
            os.close(lock)
        else:
            _locks.append(lock)
            return port
    raise NodeError(f"no port of {HOST} from {FIRST} to {FIRST + count - 1} is free")
