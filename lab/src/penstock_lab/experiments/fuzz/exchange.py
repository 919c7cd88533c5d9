"""An exchange holds the pieces sent on one connection; files of exchanges can be replayed.

`changed` and `paced` make other exchanges of a valid one; the same random generator gives the same bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from random import Random


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


MOST_PIECES: Final = 120
"""Pieces of an exchange after all repetitions."""
DRIPPED: Final = 60
"""Bytes of a piece that are sent one by one."""
INTEGERS: Final = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)
"""Values at which lengths and counts tend to go wrong."""


def changed(
    pieces: Sequence[bytes],
    dice: Random,
    *,
    donor: Sequence[bytes],
    tokens: Sequence[bytes],
    lengths: Callable[[bytes, Random], bytes],
) -> list[bytes]:
    """Change a valid exchange up to five times.

    `donor` is another valid exchange, from which bytes are spliced in, `tokens` are inserted, and `lengths`
    gives a piece another length field.
    """
    found = [piece for piece in pieces if piece]
    for _ in range(dice.choice((0, 1, 1, 1, 2, 3, 5))):
        if not found:
            break
        if dice.random() < 0.3:
            found = _reordered(found, dice)
            continue
        at = dice.randrange(len(found))
        match dice.randrange(10):
            case 0 | 1:
                found[at] = lengths(found[at], dice)
            case 2:
                found[at] = spliced(found[at], dice.choice(donor), dice)
            case 3:
                found[at : at + 1] = [found[at], dice.choice(donor)]
            case _:
                found[at] = damaged(found[at], dice, tokens)
        found = [piece for piece in found if piece]
    return found


def damaged(data: bytes, dice: Random, tokens: Sequence[bytes]) -> bytes:
    """Change some bytes of one piece: flipped bits, other values, cut, inserted, removed."""
    found = bytearray(data)
    at = dice.randrange(len(found) + 1)
    match dice.randrange(7):
        case 0 | 1:
            for _ in range(dice.randint(1, 6)):
                spot = dice.randrange(len(found))
                found[spot] ^= 1 << dice.randrange(8)
        case 2:
            del found[at:]
        case 3:
            del found[at : at + dice.randint(1, 8)]
        case 4:
            found[at:at] = dice.randbytes(dice.randint(1, 16))
        case 5:
            found[at:at] = dice.choice(tokens)
        case _:
            size = dice.choice((1, 2, 4))
            found[at : at + size] = (dice.choice(INTEGERS) & ((1 << 8 * size) - 1)).to_bytes(size)
    return bytes(found)


def spliced(data: bytes, other: bytes, dice: Random) -> bytes:
    """Join the beginning of one piece and the end of another."""
    return data[: dice.randrange(len(data) + 1)] + other[dice.randrange(len(other) + 1) :]


def _reordered(pieces: list[bytes], dice: Random) -> list[bytes]:
    at, to = dice.randrange(len(pieces)), dice.randrange(len(pieces))
    found = list(pieces)
    match dice.randrange(5):
        case 0:
            found[at : at + 1] = [found[at]] * dice.choice((2, 3, 20))
        case 1:
            found[at], found[to] = found[to], found[at]
        case 2:
            del found[at]
        case 3:
            found = found[:at]
        case _:
            dice.shuffle(found)
    return found[:MOST_PIECES]


def paced(pieces: Sequence[bytes], dice: Random) -> tuple[Piece, ...]:
    """Decide how pieces are written: each alone, all at once, cut anywhere, or a byte at a time."""
    match dice.randrange(8):
        case 0 | 1 | 2:
            return (Piece(b"".join(pieces)),)
        case 3:
            whole = b"".join(pieces)
            cut = dice.randrange(len(whole) + 1)
            return (Piece(whole[:cut], dice.randrange(4)), Piece(whole[cut:]))
        case 4:
            whole = b"".join(pieces)
            at = dice.randrange(max(1, len(whole) - DRIPPED))
            drops = [Piece(whole[each : each + 1], 1) for each in range(at, min(len(whole), at + DRIPPED))]
            return (Piece(whole[:at]), *drops, Piece(whole[at + DRIPPED :]))
        case _:
            return tuple(Piece(piece, dice.randrange(3)) for piece in pieces)
