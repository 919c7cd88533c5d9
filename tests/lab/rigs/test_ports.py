"""Ports for servers: free, outside of what the kernel gives to clients, and each for one process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from penstock.errors import NodeError
from penstock_lab.rigs import ports


def test_no_port_is_given_twice_nor_by_the_kernel() -> None:
    found = [ports.free_port() for _ in range(20)]
    assert len(set(found)) == 20
    with socket.create_server((ports.HOST, 0)) as chosen:
        assert max(found) < chosen.getsockname()[1]
    for port in found:
        socket.create_server((ports.HOST, port)).close()


def test_another_process_gets_other_ports() -> None:
    """The child begins where this process did, so it meets the ports of this process first."""
    own = [ports.free_port() for _ in range(3)]
    asks = (
        "import os; from penstock_lab.rigs import ports; "
        f"os.getpid = lambda: {os.getpid()}; print(ports.free_port())"
    )
    done = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True)
    assert int(done.stdout) not in own


def test_a_port_with_a_server_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((ports.HOST, 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(ports, "FIRST", port)
        monkeypatch.setattr(ports, "RANGE", ports.RANGE / "none")
        monkeypatch.setattr(ports, "END", port + 1)
        with pytest.raises(NodeError, match=f"from {port} to {port} is free"):
            ports.free_port()
