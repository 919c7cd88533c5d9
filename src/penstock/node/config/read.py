"""Reads a configuration file (YAML 1.2): decodes and checks it, and reports every problem with its place.

Relative paths in a file are relative to its folder. Policies become texts, wherever they were written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock import limits
from penstock.errors import ConfigError
from penstock.node.config import checks
from penstock.node.config.access_file import merged, read_entries
from penstock.node.config.decode import ConfigDecoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.config.schema import Config


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration without problems."""

    config: Config
    warnings: tuple[str, ...] = ()
    """Settings that work and are probably mistakes."""
    files: tuple[Path, ...] = ()
    """The file that was read, and the files named in it."""


def load(source: Path | str | None, *, change: Callable[[Config], Config] | None = None) -> LoadedConfig:
    """Read the configuration in a file or a text, with warnings and the files used; defaults if None.

    `change` applies the options of the command line, which take precedence over the file.
    """
    decoder = ConfigDecoder(str(source) if isinstance(source, Path) else "")
    if isinstance(source, Path):
        decoder.folder = source.parent
        decoder.files.append(source)
    text = _text(source, decoder) if isinstance(source, Path) else source or ""
    config = _with_secrets(_resolved(decoder.read(text), decoder.folder), decoder)
    config = _with_access(config, decoder)
    if change is not None:
        config = change(config)
    _check(config, decoder)
    decoder.stop()
    for listener in config.listeners:
        names = (listener.certificate, listener.key, listener.client_ca)
        decoder.files.extend(Path(name) for name in names if name)
    return LoadedConfig(config, (*decoder.warnings, *checks.warnings(config)), tuple(decoder.files))


def _check(config: Config, decoder: ConfigDecoder) -> None:
    """Report settings that cannot work together, unless the problem involves a section that was not readable
    and has its default value, which nobody wrote."""
    uncertain = decoder.uncertain()
    if "" in uncertain:
        return
    for found in checks.problems(config):
        words = re.findall(r"\w+", f"{found.path} {found.problem} {found.allowed}")
        if uncertain.isdisjoint(words):
            decoder.complain(found.problem, found.path, allowed=found.allowed, near=found.near)


def _text(path: Path, decoder: ConfigDecoder) -> str:
    """Read the text of a file; if that fails, report it and return an empty text."""
    try:
        with path.open("rb") as file:
            data = file.read(limits.CONFIG_BYTES + 1)
        if len(data) > limits.CONFIG_BYTES:
            decoder.complain(f"is larger than {limits.CONFIG_BYTES} bytes", "")
            return ""
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        decoder.complain(f"is not UTF-8 at offset {error.start}", "")
    except OSError as error:
        decoder.complain(f"cannot be read: {error.strerror}", "")
    return ""


def _with_secrets(config: Config, decoder: ConfigDecoder) -> Config:
    """Return the configuration with the secrets that are in files of their own."""
    http, cluster = config.http, config.cluster
    return msgspec.structs.replace(
        config,
        http=msgspec.structs.replace(http, token=_secret(decoder, "http.token", http.token, http.token_file)),
        cluster=msgspec.structs.replace(
            cluster,
            password=_secret(decoder, "cluster.password", cluster.password, cluster.password_file),
        ),
    )


def _with_access(config: Config, decoder: ConfigDecoder) -> Config:
    """Return the configuration with the users and rules that are in a file of their own."""
    if not config.access_file:
        return config
    path = Path(config.access_file)
    decoder.files.append(path)
    try:
        return merged(config, read_entries(path))
    except ConfigError as error:
        decoder.problems.extend((error, *error.also))
        return config


def _secret(decoder: ConfigDecoder, setting: str, given: str, file_name: str) -> str:
    """Return a secret: as it is given, or from the first line of a file."""
    if not file_name:
        return given
    place = f"{setting}_file"
    if given:
        decoder.complain(f"is given beside {setting}", place, allowed="one of them")
        return given
    path = Path(file_name)
    decoder.files.append(path)
    try:
        with path.open(encoding="utf-8") as file:
            secret = file.readline(limits.CONFIG_BYTES).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        decoder.complain(f"{path} cannot be read: {why}", place)
        return ""
    if not secret:
        decoder.complain(f"the first line of {path} is empty", place, allowed="a long text")
    return secret


def _resolved(config: Config, folder: Path) -> Config:
    """Return the configuration with relative paths resolved from the folder of the file."""

    def at(name: str) -> str:
        return str(folder / name) if name else ""

    xmpp = config.notify.xmpp
    listen = config.streams.listen
    return msgspec.structs.replace(
        config,
        data=at(config.data),
        access_file=at(config.access_file),
        policy_table=at(config.policy_table),
        http=msgspec.structs.replace(config.http, token_file=at(config.http.token_file)),
        slots=msgspec.structs.replace(config.slots, reservations=at(config.slots.reservations)),
        channels=msgspec.structs.replace(config.channels, table=at(config.channels.table)),
        cluster=msgspec.structs.replace(
            config.cluster,
            password_file=at(config.cluster.password_file),
            certificate=at(config.cluster.certificate),
            key=at(config.cluster.key),
            ca=at(config.cluster.ca),
        ),
        streams=msgspec.structs.replace(
            config.streams,
            neighbours=tuple(
                msgspec.structs.replace(one, ca=at(one.ca)) for one in config.streams.neighbours
            ),
            listen=msgspec.structs.replace(
                listen,
                certificate=at(listen.certificate),
                key=at(listen.key),
                client_ca=at(listen.client_ca),
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
