"""The terminal is given back, whenever the user ends a command."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from penstock.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator


class Interrupted:
    """Ctrl-C, or `q`, comes while it is drawn for the first time."""

    def __init__(self) -> None:
        self.times = 0

    def __rich_console__(self, *_: object) -> Iterator[str]:
        self.times += 1
        if self.times == 1:
            raise KeyboardInterrupt
        yield "drawn"


def test_a_key_while_the_screen_is_taken_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = StringIO()
    monkeypatch.setattr(terminal, "out", Console(file=shown, force_terminal=True, width=40, height=5))
    with pytest.raises(KeyboardInterrupt), terminal.drawing(Interrupted(), whole=True):
        pytest.fail("the block runs although its screen was not drawn")
    said = shown.getvalue()
    assert said.rindex("\x1b[?1049l") > said.rindex("\x1b[?1049h")
