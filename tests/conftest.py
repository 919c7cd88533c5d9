"""Three sizes of property test, and how the tests are shared between worker processes."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.kit.effort import SIZE
from tests.kit.turns import LONG_S, SPARK_AT_ONCE, group_of, seconds_of, uses_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

# The machine that runs this may be busy with other work: time is judged by benchmarks, never here.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same code gets the same examples on every run and every machine; `long` is the search for new ones.
_SAME = settings(_PATIENT, derandomize=True, database=None)
settings.register_profile("fast", _SAME, max_examples=6, stateful_step_count=20)
settings.register_profile("full", _SAME, max_examples=35)
settings.register_profile("long", _PATIENT, max_examples=200)
settings.load_profile(SIZE)

# As in the Makefile. Containers often forbid bytecode: then every worker rewrites and compiles all tests (9 s
# of its 13 s until the first test), and every process that a test starts compiles the package.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Contexts of whoever runs the tests must not lead a command to another node.
os.environ["XDG_CONFIG_HOME"] = mkdtemp(prefix="penstock-config-")
atexit.register(rmtree, os.environ["XDG_CONFIG_HOME"], ignore_errors=True)

_NAME = 100
"""Characters of a parameter that are in the name of its test."""

# Collecting makes a million objects that all stay: the garbage collector would read them again and again.
gc.disable()


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """Undo what a test, or a command or node in its process, sets of our loggers: others read logs."""
    before = {logger: _settings_of(logger) for logger in _loggers()}
    yield
    for logger in _loggers():
        usual = before.get(logger, (logging.NOTSET, True, []))
        if _settings_of(logger) != usual:
            level, logger.propagate, handlers = usual
            logger.setLevel(level)
            logger.handlers[:] = handlers


def _loggers() -> list[logging.Logger]:
    found = logging.root.manager.loggerDict.items()
    return [one for name, one in found if isinstance(one, logging.Logger) and name.startswith("penstock")]


def _settings_of(logger: logging.Logger) -> tuple[int, bool, list[logging.Handler]]:
    return logger.level, logger.propagate, list(logger.handlers)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest groups start first, the short ones last: no worker is left with much at the end."""
    items.sort(key=_turn)
    gc.freeze()
    gc.enable()


def _turn(item: pytest.Item) -> tuple[float, int]:
    kinds = ("long", "spark", "e2e", "slow")
    kind = next((turn for turn, kind in enumerate(kinds) if item.get_closest_marker(kind)), len(kinds))
    return -seconds_of(group_of(item)), kind


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Folders that a run leaves out by their marker are not even imported."""
    name = collection_path.name
    left_out = name in ("spark", "e2e") and f"not {name}" in config.option.markexpr
    return True if left_out and collection_path.is_dir() else None


def pytest_make_parametrize_id(val: object) -> str | None:
    """Cut the names of long parameters, of which some are megabytes of bad input.

    Workers send the names of all tests, and with each report the name of its test.
    """
    if not isinstance(val, str | bytes) or len(val) <= _NAME:
        return None  # pytest makes a name
    start = val[:_NAME]
    text = start if isinstance(start, str) else start.decode("latin-1")
    return f"{text.encode('unicode_escape').decode()}… ({len(val)})"


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist nobody asks
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker whole files: what the tests of a file share is made once, not once for each worker."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # noqa: PLC0415

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # not typed
        def _split_scope(self, nodeid: str) -> str:
            test, _, group = nodeid.rpartition("@")  # xdist_group; a parameter may have an "@" as well
            return group if test and "]" not in group else nodeid.split("::", 1)[0]

        def _assign_work_unit(self, node: Any) -> None:
            """Give a worker the longest group that is left, unless that has to wait.

            A worker has to know its next test before it begins one. What waits behind a long one is short:
            a long group would wait there while other workers have nothing to do.
            """
            given = self._unfinished(node)
            if any(seconds_of(group) >= LONG_S for group in given):
                self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
            elif (
                sum(uses_spark(group) for each in self.nodes for group in self._unfinished(each))
                >= SPARK_AT_ONCE
            ):
                other = next((group for group in self.workqueue if not uses_spark(group)), None)
                if other is not None:
                    self.workqueue.move_to_end(other, last=False)
            super()._assign_work_unit(node)

        def _unfinished(self, node: Any) -> list[str]:
            given = self.assigned_work.get(node, {})
            return [group for group in given if not all(given[group].values())]

    config.option.loadscopereorder = False  # keep the order above: it would put files with many tests first
    return ByFile(config, log)
