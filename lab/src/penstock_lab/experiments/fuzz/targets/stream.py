"""Valid exchanges at the listener for streams: programs with every request, and neighbour nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.streams import handshake, messages, requests, wire
from penstock.core.streams.handshake import VERSION, Alive, Hello, Offer, Offered
from penstock.core.streams.requests import Row, Staged
from penstock_lab.experiments.fuzz.exchange import INTEGERS

if TYPE_CHECKING:
    from random import Random

STREAM: Final = "orders"
NEIGHBOUR: Final = "neighbour"
_STREAMS: Final = (STREAM, STREAM, STREAM, "none")
_TICKS: Final = (0, 1, 2, 1000, 1 << 40, 1 << 60)
TOKENS: Final = (
    b"\0\0\0\0",
    b"\0\0\0\1\xc0",
    b"\xff\xff\xff\xff",
    b"\0\xff\xff\xff",
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\x91" * 300,
    b"\xd3\x80\0\0\0\0\0\0\0",
    b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xcb\x7f\xf8\0\0\0\0\0\0",
    b"\xa3\xff\xff\xff",
)


def valid(dice: Random) -> list[bytes]:
    """Return a greeting and what follows it, one frame a piece."""
    if dice.random() < 0.7:
        hello = handshake.encode(Hello(VERSION, "program", dice.choice(("reader", "ü", "p" * 100))))
        return [hello, *(requests.encode(_request(dice, number)) for number in range(dice.randint(1, 8)))]
    hello = handshake.encode(Hello(VERSION, "node", dice.choice((NEIGHBOUR, NEIGHBOUR, "stranger"))))
    return [hello, *(_said(dice) for _ in range(dice.randint(1, 8)))]


def _request(dice: Random, number: int) -> requests.Request:
    stream, name = dice.choice(_STREAMS), dice.choice(("one", "two"))
    since = dice.choice(_TICKS)
    rows = tuple(_row(dice) for _ in range(dice.randint(1, 3)))
    made: tuple[requests.Request, ...] = (
        requests.Describe(number),
        requests.Fetch(
            number,
            stream,
            since,
            most=dice.choice((1, 10)),
            wait_ms=dice.choice((0, 0, 5)),
            consumer=dice.choice(("", name)),
        ),
        requests.Split(number, stream, 0, max(1, since), rows=dice.choice((1, 100))),
        requests.Place(number, stream, name),
        requests.Settle(number, stream, name, dice.choice(_TICKS)),
        requests.Forget(number, stream, name),
        requests.Begin(number, stream, name, "token", resume=dice.random() < 0.3),
        requests.Leave(number, stream, name, "token"),
        requests.Append(number, stream, name, tuple(range(1, len(rows) + 1)), rows),
        requests.Stage(number, stream, name, dice.randrange(2), rows),
        requests.Commit(
            number, stream, name, dice.randrange(5), (Staged(name, 1),), once=dice.random() < 0.5
        ),
        requests.Abort(number, stream, (name,)),
    )
    return dice.choice(made)


def _row(dice: Random) -> Row:
    return Row(
        dice.choice(("orders/1", "orders/2/x", "elsewhere")),
        dice.choice((b"", b"12", b"z" * 500)),
        ts_us=dice.choice((0, 1, 1 << 50)),
        properties=(("a", "b"),) * dice.randrange(2),
    )


def _said(dice: Random) -> bytes:
    """One frame of a neighbour."""
    pubend, tick = dice.choice((STREAM, "theirs", "theirs")), dice.choice(_TICKS[:4])
    match dice.randrange(11):
        case 0:
            return handshake.encode(Alive())
        case 1 | 2:
            return handshake.encode(Offer((Offered("theirs", ("theirs/#",), NEIGHBOUR, tick),)))
        case 3:
            return wire.encode(messages.Silence(pubend, tick, tick + 10))
        case 4:
            return wire.encode(messages.FinalTicks(pubend, tick))
        case 5 | 6:
            return wire.encode(messages.Data(pubend, tick, tick, dice.choice((b"", b"body"))))
        case 7:
            return wire.encode(messages.Query(pubend, dice.randrange(3), tick))
        case 8:
            return wire.encode(messages.Ack(pubend, tick))
        case 9:
            return wire.encode(messages.Alert(pubend, dice.randrange(3), 1.0, messages.NO_RATE))
        case _:
            return wire.encode(messages.Nack(pubend, ((tick, tick + 5),)))


def lengths(piece: bytes, dice: Random) -> bytes:
    """Give a frame another length."""
    size = dice.choice((*INTEGERS, len(piece), len(piece) - 5))
    return max(0, size).to_bytes(4) + piece[4:]
