"""From a file to a configuration: YAML 1.2, every problem with its place.

Relative paths in a file are relative to its folder. Policies come out as texts, wherever they were written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock import limits
from penstock.node.config import checks
from penstock.node.config.decode import ConfigDecoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.config.schema import Config


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration that can be used."""

    config: Config
    warnings: tuple[str, ...] = ()
    """What works and is surely not meant."""
    files: tuple[Path, ...] = ()
    """The file it was read from, and those that are named in it."""


def read_config(source: Path | str) -> Config:
    """The configuration in a file, or in a text; ConfigError tells all that is wrong with it."""
    return load(source).config


def load(source: Path | str | None, *, change: Callable[[Config], Config] | None = None) -> LoadedConfig:
    """The same with what else is known about it; without a source, the defaults.

    `change` is what the command line says, which counts more than the file.
    """
    reading = ConfigDecoder(str(source) if isinstance(source, Path) else "")
    if isinstance(source, Path):
        reading.folder = source.parent
        reading.files.append(source)
    text = _text(source, reading) if isinstance(source, Path) else source or ""
    config = _resolved(reading.read(text), reading.folder)
    if change is not None:
        config = change(config)
    _check(config, reading)
    reading.stop()
    for listener in config.listeners:
        names = (listener.certificate, listener.key, listener.client_ca)
        reading.files.extend(Path(name) for name in names if name)
    return LoadedConfig(config, (*reading.warnings, *checks.warnings(config)), tuple(reading.files))


def _check(config: Config, reading: ConfigDecoder) -> None:
    """Complain about what cannot work, as far as it is known: a default in the place of something unreadable
    is not the user's mistake."""
    uncertain = reading.uncertain()
    if "" in uncertain:
        return
    for found in checks.problems(config):
        words = re.findall(r"\w+", f"{found.path} {found.problem} {found.allowed}")
        if uncertain.isdisjoint(words):
            reading.complain(found.problem, found.path, allowed=found.allowed, near=found.near)


def _text(path: Path, reading: ConfigDecoder) -> str:
    """A file's text; nothing if it cannot be read, which is complained about."""
    try:
        with path.open("rb") as file:
            data = file.read(limits.CONFIG_BYTES + 1)
        if len(data) > limits.CONFIG_BYTES:
            reading.complain(f"is larger than {limits.CONFIG_BYTES} bytes", "")
            return ""
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        reading.complain(f"is not UTF-8 at offset {error.start}", "")
    except OSError as error:
        reading.complain(f"cannot be read: {error.strerror}", "")
    return ""


def _resolved(config: Config, folder: Path) -> Config:
    """The same with paths that start at the folder of the file."""

    def at(name: str) -> str:
        return str(folder / name) if name else ""

    xmpp = config.notify.xmpp
    door = config.streams.listen
    return msgspec.structs.replace(
        config,
        data=at(config.data),
        slots=msgspec.structs.replace(config.slots, reservations=at(config.slots.reservations)),
        channels=msgspec.structs.replace(config.channels, table=at(config.channels.table)),
        streams=msgspec.structs.replace(
            config.streams,
            neighbours=tuple(
                msgspec.structs.replace(one, ca=at(one.ca)) for one in config.streams.neighbours
            ),
            listen=msgspec.structs.replace(
                door, certificate=at(door.certificate), key=at(door.key), client_ca=at(door.client_ca)
            ),
        ),
        notify=msgspec.structs.replace(
            config.notify,
            xmpp=msgspec.structs.replace(xmpp, password_file=at(xmpp.password_file), ca=at(xmpp.ca)),
        ),
        listeners=tuple(
            msgspec.structs.replace(
                one, certificate=at(one.certificate), key=at(one.key), client_ca=at(one.client_ca)
            )
            for one in config.listeners
        ),
    )
