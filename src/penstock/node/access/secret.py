"""The node's secret, stored in the data folder; keys and unguessable URL words are derived from it."""

from __future__ import annotations

import hmac
import os
import secrets
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from penstock.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

SECRET_FILE: Final = "secret"  # noqa: S105  # a name
"""Name of the file with the secret in a node's data folder."""

_BYTES: Final = 32


def own_secret(folder: Path | None) -> bytes:
    """Return the secret of a data folder, making it if needed; without a folder, a secret for this run."""
    if folder is None:
        return secrets.token_bytes(_BYTES)
    path = folder / SECRET_FILE
    try:
        # O_EXCL: an existing secret is never overwritten. 0o600: only the user of the node may read it.
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _read(path)
    except OSError as error:
        raise StoreError(f"cannot be created: {error.strerror}", path) from None
    found = secrets.token_bytes(_BYTES)
    with os.fdopen(made, "wb") as file:
        file.write(found)
        file.flush()
        # On disk before it is used: with another secret, keys of webhooks and addresses of feeds change.
        os.fsync(file.fileno())
    return found


def _read(path: Path) -> bytes:
    try:
        found = path.read_bytes()
    except OSError as error:
        raise StoreError(f"cannot be read: {error.strerror}", path) from None
    if len(found) != _BYTES:
        raise StoreError(
            f"has {len(found)} bytes instead of {_BYTES}; restore it from a backup, or delete it: then "
            "addresses of feeds and keys of webhooks change",
            path,
        )
    return found


def derived(secret: bytes, *purpose: str) -> bytes:
    """Derive 32 bytes for one purpose; they reveal nothing about those for another purpose."""
    # Joined by NUL: ("a", "bc") and ("ab", "c") give different keys.
    return hmac.digest(secret, "\0".join(purpose).encode(), sha256)


def token(secret: bytes, *purpose: str) -> str:
    """Derive a word of 128 bits for a URL."""
    return derived(secret, *purpose)[:16].hex()
