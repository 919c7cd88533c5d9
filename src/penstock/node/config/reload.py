"""Which changed settings a running node can apply, and whether the files of its configuration have
changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from penstock.node.config.cluster import ClusterSettings
    from penstock.node.config.schema import Config, Listener
    from penstock.node.config.streams import Neighbour, Streams

_AT_START: Final = ("data", "recorder", "notify", "sys_interval_s", "watch_s")
"""Settings that are read only when a node starts."""

_CLUSTER_LIVE: Final = (
    *("join", "zone", "fan_out", "advertise", "wait_s", "move_s"),
    *("queue_events", "queue_bytes"),
)
"""Settings of the cluster that a node applies while it is a member."""


def applicable(running: Config, wanted: Config) -> tuple[Config, list[str]]:
    """Return the part of the wanted configuration that needs no restart, and the settings that need one."""
    waiting = [name for name in _AT_START if getattr(running, name) != getattr(wanted, name)]
    kept = {name: getattr(running, name) for name in _AT_START}
    if tuple(map(_place, running.listeners)) != tuple(map(_place, wanted.listeners)):
        waiting.append("listeners")
        kept["listeners"] = running.listeners
    http = msgspec.structs.replace(running.http, token=wanted.http.token, token_file=wanted.http.token_file)
    if http != wanted.http:
        waiting.append("http")
    streams = _streams(running.streams, wanted.streams)
    if streams != wanted.streams:
        waiting.append("streams")
    polling = msgspec.structs.replace(running.channels.polling, networks=wanted.channels.polling.networks)
    channels = msgspec.structs.replace(running.channels, polling=polling)
    if channels != wanted.channels:
        waiting.append("channels")
    slots = msgspec.structs.replace(running.slots, links=wanted.slots.links, decisions=wanted.slots.decisions)
    if slots != wanted.slots:
        waiting.append("slots")
    cluster, still = _cluster(running.cluster, wanted.cluster)
    waiting += still
    changed = {"http": http, "streams": streams, "channels": channels, "slots": slots, "cluster": cluster}
    return msgspec.structs.replace(wanted, **changed, **kept), waiting


def _cluster(running: ClusterSettings, wanted: ClusterSettings) -> tuple[ClusterSettings, list[str]]:
    """Return the running settings of the cluster with the changes that need no restart, and the others."""
    if not (running.on and wanted.on):
        return running, [] if running == wanted else ["cluster"]
    live = {name: getattr(wanted, name) for name in _CLUSTER_LIVE}
    found = msgspec.structs.replace(running, **live)
    names = [field.name for field in msgspec.structs.fields(found)]
    return found, [f"cluster.{name}" for name in names if getattr(found, name) != getattr(wanted, name)]


def _streams(running: Streams, wanted: Streams) -> Streams:
    """Return the running settings of streams with the changes of links that need no restart."""
    changed = {one.name: one for one in wanted.neighbours}
    return msgspec.structs.replace(
        running,
        neighbours=tuple(
            _neighbour(one, changed[one.name]) if one.name in changed else one for one in running.neighbours
        ),
    )


def _neighbour(running: Neighbour, wanted: Neighbour) -> Neighbour:
    """Take over the rate, whether the link is enabled, and the user name with which the neighbour
    connects."""
    calls = not running.host and not wanted.host
    return msgspec.structs.replace(
        running,
        bytes_per_s=wanted.bytes_per_s,
        enabled=wanted.enabled,
        user=wanted.user if calls else running.user,
    )


def _place(listener: Listener) -> Listener:
    """Return a listener without its files, which can be loaded again without a restart."""
    return msgspec.structs.replace(listener, certificate="", key="", client_ca="")


Look: TypeAlias = tuple[int, int, int] | None
"""Modification time, size and inode of a file; None if it does not exist."""


class Files:
    """Files that are checked for changes from time to time.

    A file that is being written may be incomplete, and half a configuration may lack its access list. So a
    change counts only when two checks in a row find the same state.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._seen = {path: _look(path) for path in paths}
        self._read = self._seen

    def changed(self) -> bool:
        """Return whether a file was changed since the last True, and none has changed since the last call."""
        before, self._seen = self._seen, {path: _look(path) for path in self._seen}
        if self._seen != before or self._seen == self._read:
            return False
        self._read = self._seen
        return True

    def follow(self, paths: Iterable[Path]) -> None:
        """Check these files from now on. Known files keep the state of the last check, taken before they were
        read, so that no change in between is missed."""
        self._seen = {path: self._seen[path] if path in self._seen else _look(path) for path in paths}
        self._read = self._seen


def _look(path: Path) -> Look:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino
