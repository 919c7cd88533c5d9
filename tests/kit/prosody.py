"""A real XMPP server of our own: Prosody on a free port of loopback, with accounts and TLS."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock_lab.rigs.ports import free_port
from tests.kit import certificates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PROSODY = shutil.which("prosody", path="/usr/bin:/usr/local/bin:/usr/sbin")

_CONFIG = """
run_as_root = true
daemonize = false
pidfile = "{folder}/prosody.pid"
data_path = "{folder}/data"
certificates = "{folder}"
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {port} }}
c2s_direct_tls_ports = {{ {direct_port} }}
s2s_ports = {{}}
http_ports = {{}}
https_ports = {{}}
modules_enabled = {{
  "roster"; "saslauth"; "tls"; "disco"; "offline"; "presence"; "message"; "iq"; "smacks"; "ping";
}}
modules_disabled = {{ "s2s" }}
authentication = "internal_plain"
c2s_require_encryption = {encrypted}
allow_unencrypted_plain_auth = true
ssl = {{ certificate = "{folder}/server.pem"; key = "{folder}/server.key"; }}
log = {{ {{ levels = {{ min = "info" }}, to = "file", filename = "{folder}/prosody.log" }} }}
VirtualHost "localhost"
"""


@dataclass
class Prosody:
    """A server that can be stopped and started again on its port."""

    folder: Path
    port: int
    direct_port: int
    """For TLS from the first byte on."""
    ca: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run it until it listens."""
        self.process = subprocess.Popen(
            [str(PROSODY), "--config", str(self.folder / "prosody.cfg.lua"), "-F"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + 180
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert time.monotonic() < until, (self.folder / "prosody.log").read_text()
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """End it, by its own process."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None


@contextmanager
def prosody(folder: Path, accounts: Mapping[str, str], *, encrypted: bool = True) -> Iterator[Prosody]:
    """A running server of the domain localhost, with these accounts and their passwords."""
    made = certificates.make(folder)
    port, direct_port = free_port(), free_port()
    users = folder / "data" / "localhost" / "accounts"
    users.mkdir(parents=True, exist_ok=True)
    for name, password in accounts.items():
        (users / f"{name}.dat").write_text(f'return {{ ["password"] = "{password}"; }};\n')
    text = _CONFIG.format(
        folder=folder, port=port, direct_port=direct_port, encrypted="true" if encrypted else "false"
    )
    (folder / "prosody.cfg.lua").write_text(text)
    server = Prosody(folder, port, direct_port, made.ca)
    server.start()
    try:
        yield server
    finally:
        server.stop()
