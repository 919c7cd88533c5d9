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
    """Writes times in UTC, and escapes control characters that a client may have put into a message."""

    def format(self, record: logging.LogRecord) -> str:
        second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        when = f"{second}.{int(record.msecs):03d}Z"
        line = f"{when} {record.levelname.lower()}: {printable(record.getMessage())}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _is_ours(record: logging.LogRecord) -> bool:
    """Return False for tracebacks of aiohttp about requests that are not valid HTTP."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__module__ != "aiohttp.http_exceptions"


def to_stderr(config: Config) -> None:
    """Log to standard error from now on; other libraries log warnings and errors only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Plain())
    handler.addFilter(_is_ours)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("penstock").setLevel(config.log.upper())


def begin(path: Path | None, warnings: Iterable[str]) -> None:
    """Log the path of the configuration and its warnings."""
    log.info("configuration: %s", "defaults" if path is None else path)
    for warning in warnings:
        log.warning("%s", warning)


def ready(about: dict[str, Any]) -> None:
    """Log the addresses of the node, as `service.about` returns them."""
    for listener in about["listeners"]:
        log.info("listening: %s", listener["url"])
    if about["http"] is not None:
        log.info("dashboard: %s", about["http"]["url"])
    if about["streams"] is not None:
        hosted, listener = about["streams"]["hosted"], about["streams"]["listener"]
        log.info("streams: %s", ", ".join(hosted) or "none of its own")
        if listener is not None:
            log.info("streams listen: %s", listener["url"])
    if about["cluster"] is not None:
        log.info("cluster: others join at %s", about["cluster"]["address"])
    log.info("store: %s", about["data"] or "none; nothing survives a restart")
