"""Limits of Spark: the Java it needs, generated streams."""

from __future__ import annotations

from typing import Final

JAVA_LEAST: Final = 17
"""The oldest Java that Spark 4 starts on."""

SHORT_BYTES: Final = 16 << 20
"""Recorded bytes up to which Spark's Java compiles quickly instead of well: about a million events."""

SHORT_EVENTS: Final = 10**6
"""Events up to which Spark's Java compiles quickly instead of well, and up to which `backtest` does without
Spark unless told otherwise: a million events take about as long as starting Spark."""

LOCAL_EVENTS: Final = 10**7
"""Events that are read without Spark: they are all in memory, about half a kilobyte each."""

GENERATED_EVENTS: Final = 10**11
"""Events of a generated stream: a few terabytes; more is a typing error."""

GENERATED_SOURCES: Final = 10**7
"""Patients, vehicles, access points of a generated stream."""

GENERATED_RATE: Final = 10**9
"""Events per second of a generated stream: beyond it, thousands of events would share a microsecond."""

GENERATED_END_US: Final = 9_214_646_400 * 10**6
"""Generated streams end before 2262, where times in nanoseconds, which many readers use, leave 64 bits."""

GENERATED_PARTS_LEAST: Final = 2
"""Least number of files of a generated stream: work for two cores."""

CAMPUS_SECONDS: Final = 14 * 86_400
"""Length of a campus trace: a table with a row per second is made on the driver, 30 MB for a fortnight."""

STREAM_TRIES: Final = 3
"""Starts of a streaming table in one run: Spark waits ten seconds for a Python process of its own on the
driver, too short on a machine that has much else to do, and says so by an error. A start that failed has
committed nothing."""

ADVICE_KEPT: Final = 20
"""Pieces of advice for one class of receivers that a pipeline remembers."""

RUN_TRIES: Final = 2
"""Starts of a run of a pipeline whose Spark stands still, or has failed because the machine was too busy."""

SPARK_STILL_S: Final = 180.0
"""Seconds after which a run of a pipeline without any sign of life is ended: what Spark itself waits for, a
Python process or an answer, it waits for a minute or two, and a busy machine lets everybody do something."""

SPARK_STIR_S: Final = 3.0
"""Processor time within `SPARK_STILL_S` that is a sign of life of Spark's processes; a JVM that has nothing
to do needs 0.5 s."""

SPARK_LOOK_S: Final = 5.0
"""Seconds between two looks for signs of life."""
