"""The `penstock` command: one file (or folder) for each command, thin over the packages below.

app.py      puts the commands together; errors become one sentence and an exit code
output.py   tables, JSON and progress on the terminal
options.py  options that several commands share
files.py    policies and events read from files
api.py      requests to a running node's HTTP API
"""

from penstock.cli.app import main

__all__ = ["main"]
