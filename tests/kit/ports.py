"""Ports of loopback for servers that tests start."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port that nothing listens on at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
