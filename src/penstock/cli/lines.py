"""Events and digests as lines of output, for people and as JSON, and a printer that does not block.

`penstock sub`, `watch` and `streams` print them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from base64 import b64encode
from contextlib import suppress
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import msgspec
import typer

from penstock.errors import counted, printable
from penstock.model.event import Event
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from penstock.model.digest import Digest


def item_line(item: Event | Digest, filter_: str, *, as_json: bool, colour: bool = False) -> str:
    """Return a line for an event or a digest, `colour`ed for a terminal."""
    if as_json:
        return json.dumps(_envelope(item) if isinstance(item, Event) else _digest(item), ensure_ascii=False)
    if isinstance(item, Event):
        return _event_line(item, colour=colour)
    line = digest_line(item, filter_)
    return typer.style(line, fg="yellow") if colour else line


class Printer:
    """Writes to standard output in a thread: a slow reader of the output must not stop the keep alive."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._texts: SimpleQueue[tuple[str, asyncio.Future[None]]] = SimpleQueue()
        # A daemon: a write that blocks on a full pipe must not keep the process alive.
        threading.Thread(target=self._run, daemon=True).start()

    async def print(self, text: str) -> None:
        """Write a text; raises BrokenPipeError if the reader of the output has gone."""
        done = self._loop.create_future()
        self._texts.put((text, done))
        await done

    def _run(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: the command has ended
            while True:
                text, done = self._texts.get()
                error: Exception | None = None
                try:
                    sys.stdout.write(text)
                    sys.stdout.flush()
                except (OSError, ValueError) as found:
                    error = found
                self._loop.call_soon_threadsafe(_settle, done, error)


def _settle(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


# -- as JSON -------------------------------------------------------------------------------------------------


def _envelope(event: Event) -> dict[str, Any]:
    """Return an event as `penstock policy try --events` reads it."""
    names = [name for name, _ in event.properties]
    pairs = event.properties
    return {
        "topic": event.topic,
        "ts": event.ts_us,
        **payload_json(event.payload),
        "properties": dict(pairs) if len(set(names)) == len(names) else pairs,
        "content_type": event.content_type,
    }


def payload_json(payload: bytes) -> dict[str, Any]:
    """Return a payload for JSON: an object or list unchanged, else text, else base64."""
    if payload[:1] in (b"{", b"["):
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {"payload": msgspec.json.decode(payload)}
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload_base64": b64encode(payload).decode()}


def _digest(digest: Digest) -> dict[str, Any]:
    return {"digest": {"topic": getattr(digest, "topic", "")} | _told(digest)}


def _told(digest: Digest) -> dict[str, Any]:
    """Return a digest as JSON: as the node sent it, with estimates, or made here if digests were merged."""
    from penstock.client import ReceivedDigest  # noqa: PLC0415
    from penstock.model.digest_wire import to_json  # noqa: PLC0415

    return digest.told if isinstance(digest, ReceivedDigest) else to_json(digest)


# -- for people ----------------------------------------------------------------------------------------------


def payload_text(payload: bytes) -> str:
    """Return a payload in one line; of binary data the first bytes."""
    try:
        return printable(payload.decode())
    except UnicodeDecodeError:
        return f"({len(payload)} bytes) {payload[:32].hex(' ')}" + (" …" if len(payload) > 32 else "")


def _event_line(event: Event, *, colour: bool) -> str:
    from penstock.client import ReceivedEvent  # noqa: PLC0415

    kept = " (retained)" if isinstance(event, ReceivedEvent) and event.packet.retain else ""
    when, topic = local_time(event.ts_us), printable(event.topic)
    if colour:
        when, topic = typer.style(when, dim=True), typer.style(topic, fg="cyan")
    return f"{when} {topic}{kept} {payload_text(event.payload)}"


def digest_line(digest: Digest, filter_: str) -> str:
    """Return a digest in one line."""
    told = _told(digest)
    causes = ", ".join(f"{cause.filter} {count:,}" for cause, count in digest.causes)
    level = f"at level {digest.level}" if digest.level else "by no level"
    parts = [f"{counted(digest.count, 'event')} dropped {level} ({causes})"]
    parts += [f"{name} {_summary(found)}" for name, found in told.get("attributes", {}).items() if found]
    parts.append(f"{local_time(digest.from_us)}–{local_time(digest.to_us)}")
    topic = getattr(digest, "topic", "") or filter_
    return printable(f"    … {topic}: {', '.join(parts)}")


def _summary(found: dict[str, Any]) -> str:
    shown = []
    for name in ("mean", "stddev", "min", "max", "first", "last", "distinct"):
        value = found.get(name)
        if value is not None:
            shown.append(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}")
    median = found.get("quantiles", {}).get("0.5")
    if isinstance(median, int | float):
        shown.append(f"median {median:.4g}")
    return " ".join(shown) or "no values"


class _Day:
    """The day that today is in local time, from its first microsecond to the first one of tomorrow."""

    def __init__(self) -> None:
        self._from_us = self._to_us = 0

    def has(self, ts_us: int) -> bool:
        """Return whether a moment is today; moments before the last question need no clock."""
        if self._from_us <= ts_us < self._to_us:
            return True
        now = datetime.now().astimezone()
        start = now.replace(hour=0, minute=0, second=0, microsecond=0)
        self._from_us = round(start.timestamp()) * SECOND_US
        self._to_us = round(now.timestamp()) * SECOND_US
        return self._from_us <= ts_us < self._from_us + DAY_US


DAY_US: Final = 86_400 * SECOND_US

_today = _Day()


def local_time(ts_us: int) -> str:
    """Return a moment for people, in local time: the time of day, and the date if it is not today."""
    try:
        when = datetime.fromtimestamp(ts_us // SECOND_US, tz=UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return f"{ts_us} µs"
    day = "" if _today.has(ts_us) else f"{when:%Y-%m-%d} "
    return f"{day}{when:%H:%M:%S}.{ts_us % SECOND_US // 1_000:03d}"
