"""Writes what is made of stored runs: docs/measurements.md, docs/papers.md, and blocks of the guides.

    python tools/measurements.py [--check | --readme]

The runs are in docs/measured, one file each. To repeat one of them and show what it found:

    penstock bench node --store docs/measured && python tools/measurements.py

All of them: `make measurements`, with ARGS=--quick in about an hour. `--check` writes nothing, and exits 1 if
a page is not what the runs say. `--readme` runs the README's backtest again and stores it; a test holds that
the README's table is what it says.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock_lab.runs import pages, stored

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
POLICY = "examples/policies/ward.yaml"
GENERATE = ("generate", "vitals", "--events", "100000", "--out", "vitals.parquet")
BACKTEST = tuple(f"backtest --events vitals.parquet --policy {POLICY} --capacity 300 --drain 50/s".split())
"""The commands of the README."""


def readme() -> int:
    """Run the README's commands and store what the backtest says."""
    begun = stored.Begun()
    with TemporaryDirectory() as folder:
        words = [str(ROOT / POLICY) if word == POLICY else word for word in BACKTEST]
        for command in (GENERATE, [*words, "--json"]):
            done = subprocess.run(  # our own command
                [sys.executable, "-m", "penstock", *command],
                cwd=folder,
                check=True,
                text=True,
                stdout=subprocess.PIPE,
            )
    found = json.loads(done.stdout)
    run = begun.ended(" ".join(("penstock", *BACKTEST)), quick=False)
    stored.write(DOCS / "measured" / "readme", "backtest", found | {"run": run})
    return 0


def main() -> int:
    """Write or check both pages and the blocks of the guides."""
    if "--readme" in sys.argv[1:]:
        return readme()
    runs = stored.read(DOCS / "measured")
    strange = pages.unknown_figures(runs)
    if strange:
        print(f"no paper has {', '.join(strange)}: see penstock_lab/runs/papers.py", file=sys.stderr)
        return 1
    made = {
        DOCS / "measurements.md": lambda page: pages.replaced(page, pages.measurements(runs)),
        DOCS / "papers.md": lambda page: pages.replaced(page, pages.papers(runs)),
    }
    for path in sorted((DOCS / "guides").glob("*.md")):
        made[path] = lambda page, name=path.name: pages.filled(page, runs, name)
    stale = []
    for path, make in made.items():
        before = path.read_text()
        page = make(before)
        if page != before:
            stale.append(path.name)
            if "--check" not in sys.argv[1:]:
                path.write_text(page)
    print(f"{len(runs)} runs; changed: {', '.join(stale) or 'nothing'}")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
