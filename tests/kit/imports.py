"""Runs the command line in a process of its own and looks which heavy packages it imported."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    *("numpy", "datasketches", "aiohttp", "pyspark", "pandas", "pyarrow", "matplotlib", "pydantic"),
    *("rich", "yaml", "re2", "cbor2", "argon2"),
)
"""Packages that take a while to import and that neither --help nor `pub` nor `sub` needs."""

RUN = """
import sys
from penstock.cli import main
sys.argv = ["penstock", *sys.argv[2:]]
try:
    main()
finally:
    loaded = [name for name in {packages!r} if name in sys.modules]
    print("loaded:", *loaded, file=sys.stderr)
"""


def loaded(*arguments: str, ok: int = 0) -> list[str]:
    """Run a command; return which of the heavy packages it imported."""
    code = RUN.format(packages=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", code, "-", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == ok, done.stderr + done.stdout
    return done.stderr.splitlines()[-1].removeprefix("loaded:").split()
