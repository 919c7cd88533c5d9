"""Certificates for tests, made by the openssl command."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """Files of an authority, a server of the name localhost, and a client named ann."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path


def make(folder: Path) -> Certificates:
    """Make them; skips the test where there is no openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command is not installed")
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", "req", "-x509", *new_key, *arguments], check=True, capture_output=True)

    ca = ["-CA", str(folder / "ca.pem"), "-CAkey", str(folder / "ca.key")]
    openssl("-subj", "/CN=authority", "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.pem")
    for name, subject, alternative in (
        ("server", "/CN=localhost", "DNS:localhost,IP:127.0.0.1"),
        ("client", "/CN=ann", "DNS:ann"),
    ):
        openssl(
            *ca,
            *("-subj", subject, "-addext", f"subjectAltName={alternative}"),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem"),
        )
    return Certificates(
        folder / "ca.pem",
        folder / "server.pem",
        folder / "server.key",
        folder / "client.pem",
        folder / "client.key",
    )
