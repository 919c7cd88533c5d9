"""The main module of a process of the load generator."""

from __future__ import annotations

import sys

from penstock_lab.bench.load.worker import serve

if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
