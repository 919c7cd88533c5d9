"""A streaming table that Spark does not get started."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyspark.errors import StreamingQueryException

from penstock import limits
from penstock.pipeline.project.plain import _append

BUSY = StreamingQueryException(
    "[STREAM_FAILED] … terminated with exception: Python worker failed to connect back."
)


def started(*outcomes: BaseException | None) -> tuple[MagicMock, MagicMock]:
    """A stream whose queries end in these ways, one after the other."""
    frame = MagicMock(isStreaming=True)
    frame.sparkSession.catalog.tableExists.return_value = False
    writer = frame.writeStream.option.return_value.trigger.return_value
    ended = writer.toTable.return_value.awaitTermination
    ended.side_effect = outcomes
    return frame, ended


def test_a_machine_that_is_too_busy_gets_some_more_tries() -> None:
    frame, ended = started(BUSY, BUSY, None)
    _append(frame, "packed", Path("checkpoint"))
    assert ended.call_count == limits.STREAM_TRIES
    frame, ended = started(*[BUSY] * (limits.STREAM_TRIES + 1))
    with pytest.raises(StreamingQueryException):
        _append(frame, "packed", Path("checkpoint"))
    assert ended.call_count == limits.STREAM_TRIES


def test_other_errors_are_told_at_once() -> None:
    frame, ended = started(StreamingQueryException("[STREAM_FAILED] … division by zero"), None)
    with pytest.raises(StreamingQueryException, match="division by zero"):
        _append(frame, "packed", Path("checkpoint"))
    assert ended.call_count == 1
