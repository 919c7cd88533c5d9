"""All targets by name, and the exchange that belongs to a seed and a number."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final, get_args

from penstock_lab.experiments.fuzz.exchange import Ending, Exchange, Piece, changed, paced
from penstock_lab.experiments.fuzz.targets import http, mqtt, policy, stream, websocket

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock_lab.experiments.fuzz.exchange import Door


@dataclass(frozen=True, slots=True)
class Target:
    """One door of a node, and how to speak and misspeak there."""

    door: Door
    valid: Callable[[Random], list[bytes]]
    """A valid exchange."""
    tokens: Sequence[bytes]
    lengths: Callable[[bytes, Random], bytes]


TARGETS: Final = {
    "mqtt": Target("mqtt", mqtt.valid, mqtt.TOKENS, mqtt.lengths),
    "websocket": Target("websocket", websocket.valid, websocket.TOKENS, websocket.lengths),
    "http": Target("http", http.valid, http.TOKENS, http.lengths),
    "stream": Target("stream", stream.valid, stream.TOKENS, stream.lengths),
}
POLICY: Final = "policy"
NAMES: Final = (*TARGETS, POLICY)


def exchange_of(target: str, seed: int, number: int) -> Exchange:
    """Make the exchange of this number: the same seed gives the same bytes, on any machine."""
    dice = Random(f"{target}/{seed}/{number}")  # noqa: S311  # repeatable on purpose
    ending: Ending = dice.choice(get_args(Ending))
    if target == POLICY:
        (text,) = policy.valid(dice)
        door, pieces = policy.carried(text, dice)
        return Exchange(number, door, tuple(Piece(piece) for piece in pieces), "wait")
    found = TARGETS[target]
    pieces = changed(
        found.valid(dice), dice, donor=found.valid(dice), tokens=found.tokens, lengths=found.lengths
    )
    return Exchange(number, found.door, paced(pieces, dice), ending)
