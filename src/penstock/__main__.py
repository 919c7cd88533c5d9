"""Runs the command line for `python -m penstock`."""

from penstock.cli import main

main()
