"""An exchange holds the pieces sent on one connection; files of exchanges can be replayed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Door: TypeAlias = Literal["mqtt", "websocket", "http", "stream", "process"]
"""Where an exchange is sent; `process`: a policy's text is read inside this process."""

Ending: TypeAlias = Literal["close", "reset", "half", "wait"]
"""How the connection ends: closed, reset, closed for writing only, or left to the node for a moment."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that are written at once, and the pause behind them."""

    data: bytes
    pause_ms: int = 0


@dataclass(frozen=True, slots=True)
class Exchange:
    """Everything that is sent on one connection."""

    number: int
    """Its place in the run; with the seed it determines every byte."""
    door: Door
    pieces: tuple[Piece, ...]
    ending: Ending

    @property
    def bytes(self) -> int:
        """Number of bytes that are sent."""
        return sum(len(piece.data) for piece in self.pieces)

    def as_json(self) -> dict[str, Any]:
        """An exchange in a file."""
        return {
            "number": self.number,
            "door": self.door,
            "ending": self.ending,
            "pieces": [{"hex": piece.data.hex(), "pause_ms": piece.pause_ms} for piece in self.pieces],
        }


def write_exchanges(
    path: Path, exchanges: Sequence[Exchange], *, target: str, seed: int, problem: str
) -> None:
    """Write exchanges to a file that `read_exchanges` reads, with what they did."""
    found = {
        "fuzz": target,
        "seed": seed,
        "problem": problem,
        "exchanges": [exchange.as_json() for exchange in exchanges],
    }
    path.write_text(json.dumps(found, indent=1) + "\n")


def read_exchanges(path: Path) -> tuple[str, int, list[Exchange]]:
    """Read the target, the seed and the exchanges of a file; InputError says what is wrong with it."""
    try:
        found = json.loads(path.read_text())
        return found["fuzz"], int(found["seed"]), [_exchange(each) for each in found["exchanges"]]
    except OSError as error:
        raise InputError(error.strerror or str(error), path=path) from None
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"not a file of `penstock sim fuzz`: {error!r}", path=path) from None


def _exchange(found: dict[str, Any]) -> Exchange:
    door, ending = found["door"], found["ending"]
    if door not in get_args(Door) or ending not in get_args(Ending):
        raise ValueError(f"door {door!r}, ending {ending!r}")
    return Exchange(
        number=int(found["number"]),
        door=door,
        pieces=tuple(Piece(bytes.fromhex(each["hex"]), int(each["pause_ms"])) for each in found["pieces"]),
        ending=ending,
    )
