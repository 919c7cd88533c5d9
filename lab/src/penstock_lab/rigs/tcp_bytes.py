"""Bytes that TCP connections of this machine have carried, as the kernel counts them; Linux only."""

from __future__ import annotations

import socket
import struct
from typing import Final

NETLINK_SOCK_DIAG: Final = 4
SOCK_DIAG_BY_FAMILY: Final = 20
DUMP: Final = 0x301
"""NLM_F_REQUEST and NLM_F_DUMP: all sockets that match."""
DONE: Final = 3
ERROR: Final = 2
TCP_ESTABLISHED: Final = 1
INFO: Final = 2
"""INET_DIAG_INFO: with the figures of `struct tcp_info`."""
ACKED_AT: Final = 120
"""Place of `tcpi_bytes_acked` in `struct tcp_info`."""

_HEAD: Final = struct.Struct("=IHHII")
_REQUEST: Final = struct.Struct("=BBBBI")
_ATTRIBUTE: Final = struct.Struct("=HH")
_ADDRESS_BYTES: Final = 48
_MESSAGE_BYTES: Final = 72
"""Size of `struct inet_diag_msg`."""


def sent_bytes(port: int) -> dict[int, int]:
    """Bytes that each connection of a listening port has sent and the other end has; by that end's port."""
    request = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 1 << (INFO - 1), 0, 1 << TCP_ESTABLISHED)
    body = request + bytes(_ADDRESS_BYTES)
    found: dict[int, int] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG) as sock:
        sock.send(_HEAD.pack(_HEAD.size + len(body), SOCK_DIAG_BY_FAMILY, DUMP, 1, 0) + body)
        while True:
            data = sock.recv(1 << 20)
            while data:
                length, kind, *_ = _HEAD.unpack_from(data)
                if kind == ERROR:
                    code = -struct.unpack_from("=i", data, _HEAD.size)[0]
                    raise OSError(code, "the kernel tells no figures of its connections")
                if kind == DONE:
                    return found
                near, far, sent = _connection(data[_HEAD.size : length])
                if near == port:
                    found[far] = sent
                data = data[(length + 3) & ~3 :]


def _connection(message: bytes) -> tuple[int, int, int]:
    """Port at this end, port at the other end, and bytes sent."""
    near, far = struct.unpack_from(">HH", message, 4)
    at = _MESSAGE_BYTES
    while at < len(message):
        size, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == INFO:
            return near, far, struct.unpack_from("=Q", message, at + _ATTRIBUTE.size + ACKED_AT)[0]
        at += (size + 3) & ~3
    return near, far, 0
