"""How the bytes of a valid exchange are changed; the same dice give the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock_lab.experiments.fuzz.exchange import Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

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
