"""The `penstock` command: thin commands over the packages below.

`app` puts the commands together and turns errors into one sentence and an exit code; `output` is how commands
print; the other modules are one group of commands each.
"""

from penstock.cli.app import main

__all__ = ["main"]
