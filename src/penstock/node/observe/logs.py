"""The log of a node: plain lines on standard error, `2026-01-31T12:00:00.123Z warning: …`."""

from __future__ import annotations

import logging
import sys
import time
from typing import TYPE_CHECKING, Any

from penstock.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from penstock.node.config.schema import Config

log = logging.getLogger(__name__)


class _Plain(logging.Formatter):
    """UTC, and no line break or escape sequence of a stranger's."""

    def format(self, record: logging.LogRecord) -> str:
        second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        when = f"{second}.{int(record.msecs):03d}Z"
        line = f"{when} {record.levelname.lower()}: {printable(record.getMessage())}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a line is about us: aiohttp shows where it was when a stranger's request was none."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__module__ != "aiohttp.http_exceptions"


def to_stderr(config: Config) -> None:
    """Log there from now on; other libraries only from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Plain())
    handler.addFilter(_is_ours)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("penstock").setLevel(config.log.upper())


def begin(path: Path | None, warnings: Iterable[str]) -> None:
    """What a node starts with."""
    log.info("configuration: %s", "defaults" if path is None else path)
    for warning in warnings:
        log.warning("%s", warning)


def ready(about: dict[str, Any]) -> None:
    """Where it can be found, as `service.about` says."""
    for listener in about["listeners"]:
        log.info("listening: %s", listener["url"])
    if about["http"] is not None:
        log.info("dashboard: %s", about["http"]["url"])
    if about["streams"] is not None:
        hosted, door = about["streams"]["hosted"], about["streams"]["door"]
        log.info("streams: %s", ", ".join(hosted) or "none of its own")
        if door is not None:
            log.info("streams listen: %s", door["url"])
    log.info("store: %s", about["data"] or "none; nothing survives a restart")
