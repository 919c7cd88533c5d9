"""Reports the progress of a running Spark job to a callback."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

POLL_S: Final = 0.2


@contextmanager
def watched(spark: SparkSession, step: Callable[[int, int, str], None], what: str) -> Iterator[None]:
    """Call `step` with tasks done, tasks in all, and what the block does, until the block ends.

    A Connect server reports no progress: there `step` is called once.
    """
    step(0, 0, what)
    try:
        tracker = spark.sparkContext.statusTracker()
    except (PySparkException, AttributeError):
        yield
        return
    done = Event()
    thread = Thread(target=_poll, args=(tracker, step, what, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _poll(tracker: StatusTracker, step: Callable[[int, int, str], None], what: str, done: Event) -> None:
    while not done.wait(POLL_S):
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        found = [stage for stage in stages if stage is not None]
        if found:
            finished = sum(stage.numCompletedTasks for stage in found)
            step(finished, sum(stage.numTasks for stage in found), what)
