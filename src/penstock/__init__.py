"""Penstock: publish/subscribe for streams that outrun their readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client import Client

__all__ = ["Client"]


def __getattr__(name: str) -> Any:
    """`penstock.Client`, loaded when it is asked for: most programs need a part of the package only."""
    if name != "Client":
        raise AttributeError(f"module 'penstock' has no attribute '{name}'")
    from penstock.client import Client  # noqa: PLC0415

    return Client
