"""A configuration read from a file or a text, without its warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.node.config.read import load

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.node.config.schema import Config


def read_config(source: Path | str) -> Config:
    """Read the configuration in a file or a text; ConfigError has all problems."""
    return load(source).config
