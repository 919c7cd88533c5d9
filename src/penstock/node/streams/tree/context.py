"""What the parts of a node's streams share: directory, driver of the core, state file, clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.streams.log.state import StateFile
    from penstock.node.streams.tree.directory import StreamDirectory
    from penstock.node.streams.tree.driver import CoreDriver


@dataclass(frozen=True, slots=True)
class StreamContext:
    """Made once by `StreamService`, and passed to links, subscriptions and programs."""

    directory: StreamDirectory
    driver: CoreDriver
    state: StateFile
    """Durable values beside the logs: cursors, consumers, writers, offers."""
    clock: Callable[[], int]
    """Microseconds since 1970."""
