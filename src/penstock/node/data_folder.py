"""The folder of a node's store: made if it is not there, held by one node at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from penstock.errors import NodeError

LOCK: Final = "lock"
"""File in the folder that a running node holds; the kernel lets go of it however the node ends."""


class DataFolder:
    """A folder that is ours until `close`."""

    def __init__(self, folder: str) -> None:
        self.path = Path(folder)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NodeError(f"data folder {folder}: cannot be used: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            other = os.read(self._lock, 32).decode(errors="replace").strip()
            os.close(self._lock)
            raise NodeError(
                f"data folder {folder}: another node{f' (process {other})' if other.isdecimal() else ''} "
                "uses it; stop that one, or name another folder with `data` or --data"
            ) from None
        os.truncate(self._lock, 0)
        os.write(self._lock, f"{os.getpid()}\n".encode())

    def close(self) -> None:
        """Let go of it."""
        os.close(self._lock)
