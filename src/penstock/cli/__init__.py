"""The `penstock` command: one file (or folder) for each command, thin over the packages below.

app.py           the program: errors become one sentence and an exit code
commands.py      the table of commands, with the help line of each
lazy.py          imports the command that is called
plugins.py       commands of other packages
help_text.py     `penstock --help`, and an example for the help of each command
plain_values.py  converts texts and numbers of the command line
output.py        JSON, text, errors and warnings on standard output and error
terminal.py      tables, progress bars and screens, with rich
options.py       options that several commands share
files.py         policies and events read from files
api.py           requests to a running node's HTTP API
"""

from penstock.cli.app import main

__all__ = ["main"]
