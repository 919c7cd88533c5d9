"""A typed table of the state file: values of one type under keys of one length, encoded with MessagePack."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from penstock.errors import StoreError
from penstock.node.store.database import MOVE_AWAY
from penstock.node.streams.log.state import FILE

if TYPE_CHECKING:
    from penstock.node.streams.log.state import Key, StateFile

log = logging.getLogger(__name__)

Value = TypeVar("Value")

_encode = msgspec.msgpack.Encoder().encode


class StateTable(Generic[Value]):
    """One table. What is put into any table of a file in one turn of the event loop is durable together."""

    def __init__(self, state: StateFile, name: str, type_: type[Value], *, width: int) -> None:
        """`width`: number of parts of a key."""
        self.state = state
        self.name = name
        self._width = width
        self._decode = msgspec.msgpack.Decoder(type_).decode

    def load(self, *, skip: bool = False) -> dict[Key, Value]:
        """All rows in the order of their keys, those not durable yet included.

        A row that cannot be decoded raises StoreError; with `skip` it is logged and left out.
        """
        found: dict[Key, Value] = {}
        for key, data in self.state.load(self.name):
            try:
                value = self._decode(data)
                problem = (
                    ""
                    if len(key) == self._width
                    else f"its key has {len(key)} parts instead of {self._width}"
                )
            except (ValueError, msgspec.MsgspecError) as error:
                problem = str(error)
            if not problem:
                found[key] = value
            elif skip:
                log.error("%s: row %r of table %r is left out: %s", FILE, key, self.name, problem)
            else:
                raise StoreError(f"row {key!r} of table {self.name!r}: {problem}; {MOVE_AWAY}", FILE)
        return found

    def put(self, key: Key, value: Value) -> None:
        """Write a value in place of the one under this key."""
        self.state.put(self.name, key, _encode(value))

    def remove(self, key: Key) -> None:
        """Delete the value under a key, if there is one."""
        self.state.remove(self.name, key)
