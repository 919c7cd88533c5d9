"""The command line of `penstock up`."""

from __future__ import annotations

import pytest
from typer.exceptions import TyperException
from typer.testing import CliRunner

from penstock.cli.app import app


@pytest.mark.parametrize(
    ("old", "said"),
    [("--web", "'--web' is now '--channels'"), ("--no-web", "'--no-web' is now '--no-channels'")],
)
def test_an_old_option_is_refused_with_the_new_one(old: str, said: str) -> None:
    found = CliRunner().invoke(app, ["up", old], standalone_mode=False)
    assert isinstance(found.exception, TyperException)
    assert (found.exception.format_message(), found.exception.exit_code) == (said, 2)
    assert "--web" not in CliRunner().invoke(app, ["up", "--help"]).output
