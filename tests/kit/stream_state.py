"""Commits to the state file of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.node.streams.log.state import StateFile


def commit(state: StateFile) -> None:
    """Run the work of the thread and of the event loop at once."""
    work = state.take()
    if work is not None:
        state.write(work)
        state.written(work)
    waiting, state._commits._waiting = state._commits._waiting, []
    for callback in waiting:
        callback()
