"""Libraries of the extra `web`, loaded when a page is read: a node without them starts."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from penstock.errors import MissingTool


@cache
def library(name: str) -> Any:
    """A module; MissingTool says how to install it."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingTool(
            f"web channels need {name.partition('.')[0]}, which is not installed: pip install 'penstock[web]'"
        ) from None
