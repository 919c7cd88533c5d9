"""The file of contexts: addresses and credentials of nodes by name.

    {"version": 1, "current": "home", "contexts": {"home": {"node": "nas.local", "user": "ann", …}}}

The file is `penstock/contexts.json` in the user's folder of configuration. It holds no passwords: a context
names the file or the environment variable that holds one.
"""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION: Final = 1
"""Version of the file's format."""

MOST: Final = 1_000
"""Contexts in the file."""

FILE_BYTES: Final = 4 << 20
"""Longest file that is read: a thousand contexts with long names."""

SECRET_BYTES: Final = 64 << 10
"""Longest file of a password or token that is read: MQTT allows no longer password."""

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
"""Names of contexts: without dots and colons, so that an address is never taken for one."""


class Context(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One node: its addresses, and the user, password and certificates to connect with."""

    node: str
    """Host or URL; what is not said below is at the same host, on the usual ports."""
    http: str = ""
    """URL of dashboard and API."""
    streams: str = ""
    """URL of `streams.listen`."""
    user: str = ""
    password_file: str = ""
    password_env: str = ""
    token_file: str = ""
    token_env: str = ""
    ca: str = ""
    """File of trusted CA certificates, PEM."""

    def password(self) -> str | None:
        """Read the password; None if the context has none."""
        return _secret(self.password_file, self.password_env, "password")

    def token(self) -> str:
        """Read the token of the HTTP API; empty if the context has none."""
        return _secret(self.token_file, self.token_env, "token") or ""


class Contexts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything in the file."""

    version: int = VERSION
    current: str = ""
    """The context in use; empty if there is none."""
    contexts: dict[str, Context] = {}

    def named(self, name: str, *, said: str) -> Context:
        """Return a context; the error for an unknown name begins with `said` and lists the names."""
        found = self.contexts.get(name)
        if found is None:
            there = (
                f"there are: {', '.join(sorted(self.contexts))}" if self.contexts else "there are none yet"
            )
            raise InputError(
                f"there is no context '{name}'; {there}; make one with `penstock context add {name} ADDRESS`",
                path=said,
            )
        return found


def checked_name(name: str) -> str:
    """Return the name of a context; InputError if it is not allowed."""
    if NAME.fullmatch(name) is None:
        raise InputError(
            f"'{name}' cannot be the name of a context: up to 64 letters, digits, - and _", path="NAME"
        )
    return name


def path() -> Path:
    """Return the file of contexts, which need not exist."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    # The specification of these folders says that a relative path is to be ignored.
    place = Path(folder) if folder.startswith("/") else Path.home() / ".config"
    return place / "penstock" / "contexts.json"


def load() -> Contexts:
    """Read the file of contexts; without one there are no contexts."""
    file = path()
    try:
        with file.open("rb") as opened:
            data = opened.read(FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=file) from None
    if len(data) > FILE_BYTES:
        raise InputError(f"is larger than {FILE_BYTES} bytes", path=file)
    try:
        found = msgspec.json.decode(data, type=Contexts)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"is not a file of contexts: {error}; correct it, or remove it and add the contexts again",
            path=file,
        ) from None
    if found.version != VERSION:
        raise InputError(
            f"has version {found.version} of the format, and this Penstock reads version {VERSION}", path=file
        )
    return found


@contextmanager
def changing() -> Iterator[list[Contexts]]:
    """Change the file of contexts, one program at a time: put the new contents into the list's only place."""
    file = path()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=file) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = [load()]
        before = held[0]
        yield held
        if held[0] != before:
            _write(file, held[0])
    finally:
        os.close(lock)


def _write(file: Path, contexts: Contexts) -> None:
    """Replace the file as a whole: who reads meanwhile, or after a crash, has the old or the new one."""
    if len(contexts.contexts) > MOST:
        raise InputError(
            f"more than {MOST:,} contexts; remove some with `penstock context remove`", path=file
        )
    from tempfile import mkstemp  # noqa: PLC0415  # `penstock pub` needs no drafts

    text = msgspec.json.format(msgspec.json.encode(contexts), indent=2) + b"\n"
    try:
        handle, draft = mkstemp(dir=file.parent, prefix=".contexts-")  # mode 0600
        try:
            with open(handle, "wb") as opened:  # noqa: PTH123  # an open handle
                opened.write(text)
                opened.flush()
                os.fsync(handle)
            Path(draft).replace(file)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=file) from None


def _secret(file: str, variable: str, what: str) -> str | None:
    """Read a secret: the first line of a file, or an environment variable."""
    if variable:
        found = os.environ.get(variable)
        if found is None:
            raise InputError(f"there is no environment variable '{variable}', which holds the {what}")
        return found
    if not file:
        return None
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(SECRET_BYTES + 1)
        if len(data) > SECRET_BYTES:
            raise InputError(f"the {what} in it is longer than {SECRET_BYTES} bytes", path=file)
        return data.decode().partition("\n")[0].rstrip("\r")
    except OSError as error:
        raise InputError(f"the {what} cannot be read: {error.strerror}", path=file) from None
    except UnicodeDecodeError:
        raise InputError(f"the {what} in it is not UTF-8", path=file) from None
