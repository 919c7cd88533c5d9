"""Addresses of doors for streams, and doors behind which there is nothing of the kind."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.client.streams.connection import StreamAddress, StreamConnection, read_stream_address
from penstock.core.streams.requests import Describe
from penstock.errors import InputError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("stream://host", StreamAddress("host", 1884)),
        ("streams://host:9", StreamAddress("host", 9, secure=True)),
        ("stream://[::1]:9", StreamAddress("::1", 9)),
        ("stream://ann:p%40ss@host", StreamAddress("host", 1884, False, "ann", "p@ss")),
    ],
)
def test_an_address_is_taken_apart(url: str, address: StreamAddress) -> None:
    assert read_stream_address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host",
        "mqtt://host",
        "stream://",
        "stream://host:many",
        "stream://host/orders",
        "stream://host?a=1",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InputError):
        read_stream_address(url)


def test_a_password_is_not_shown() -> None:
    address = read_stream_address("stream://ann:secret@host")
    assert "secret" not in f"{address} {address!r}"
    for url in ("stream://ann:secret@host/orders", "http://ann:secret@host", "ann:secret@host"):
        with pytest.raises(InputError) as caught:
            read_stream_address(url)
        assert "secret" not in str(caught.value)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


def answered(listener: socket.socket, data: bytes) -> str:
    """Whoever connects hears this, and then nothing more; the address."""

    def answer() -> None:
        with listener.accept()[0] as heard:
            heard.recv(4096)
            heard.sendall(data)

    threading.Thread(target=answer, daemon=True).start()
    return f"stream://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "closed while greeting"),
        (b"HTTP/1.1 400 Bad Request\r\n", "is this a port for streams"),
        (b"\0\0\0\3abc", "is this a port for streams"),
    ],
)
def test_who_speaks_something_else_is_named(listener: socket.socket, data: bytes, why: str) -> None:
    with StreamConnection(answered(listener, data)) as connection, pytest.raises(Unreachable, match=why):
        connection.open()


def test_who_says_nothing_is_not_waited_for(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MQTT_CONNECT_S", 0.05)
    url = f"stream://127.0.0.1:{listener.getsockname()[1]}"
    with StreamConnection(url) as connection, pytest.raises(Unreachable, match="no greeting within"):
        connection.open()


def test_patience_ends(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    listener.close()
    began_s = time.monotonic()
    with (
        StreamConnection(f"stream://127.0.0.1:{port}", patience_s=0.3) as connection,
        pytest.raises(Unreachable, match="connection refused"),
    ):
        connection.call(Describe(0))
    assert time.monotonic() - began_s >= 0.05  # it was tried again


@pytest.mark.parametrize(
    "url", ["stream://ann:sec#ret@host", "stream://ann:sec/ret@host", "stream://ann:sec?@h"]
)
def test_a_password_that_is_not_written_as_it_must_be_is_not_shown(url: str) -> None:
    with pytest.raises(InputError, match="%23") as caught:
        read_stream_address(url)
    assert "sec" not in str(caught.value)
