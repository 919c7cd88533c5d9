"""A command that needs no Spark does not wait for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.e2e


def test_commands_are_listed_without_loading_what_only_some_need() -> None:
    heavy = ("pyspark", "pandas", "pyarrow", "matplotlib")
    code = f"import sys, penstock.cli.app; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
