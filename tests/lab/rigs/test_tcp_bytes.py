"""The kernel's count of what connections have carried."""

from __future__ import annotations

import socket
import sys

import pytest

from penstock_lab.rigs.ports import HOST
from penstock_lab.rigs.tcp_bytes import sent_bytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux's kernel")


def test_each_connection_of_a_port_is_counted_by_itself() -> None:
    with socket.create_server((HOST, 0)) as door:
        port = door.getsockname()[1]
        one, two = (socket.create_connection((HOST, port)) for _ in range(2))
        with one, two, door.accept()[0] as to_one, door.accept()[0] as to_two:
            to_one.sendall(bytes(1_000))
            to_two.sendall(bytes(30))
            one.sendall(bytes(7))  # the other direction is not counted
            for sock, wanted in ((one, 1_000), (two, 30)):
                got = 0
                while got < wanted:
                    got += len(sock.recv(wanted))
            found = {one.getsockname()[1]: 1_000, two.getsockname()[1]: 30}
            while sent_bytes(port) != found:  # until the acknowledgements are through
                pass
