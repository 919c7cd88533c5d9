"""Every error Penstock raises, in one tree.

    PenstockError                 exit code 3 unless a line says otherwise
    ├── PlacedError               a text is wrong at a place of it
    │   ├── PolicyError           a policy's text or a builder's arguments are wrong
    │   └── ConfigError           a node's configuration is wrong
    ├── DigestError               bytes that should be a digest are not
    ├── InputError                a file or a line of it cannot be read
    ├── NodeError                 a node cannot start: a port or a folder is in use, a file does not load
    │   └── StoreError            the file of sessions and retained messages cannot be read or written
    ├── QueueError                a queue was asked for what it cannot do
    │   └── ControlOverflow       more control items wait than a queue may hold
    ├── MqttError                 an MQTT peer broke a rule; carries the reason code to answer with
    │   ├── MalformedPacket       0x81: bytes that are no packet
    │   ├── ProtocolError         0x82: a packet in the wrong place, or saying what it must not
    │   ├── UnsupportedVersion    0x84: a CONNECT of another protocol
    │   └── PacketTooLarge        0x95: a packet beyond the size that was agreed
    ├── ClientError               a client cannot do what its program asks for
    │   ├── Unreachable           nobody answers at the address, or not in MQTT
    │   ├── Refused               the node said no; carries its reason code
    │   │   ├── ConnectRefused    to the connection
    │   │   ├── SubscribeRefused  to a subscription
    │   │   └── PublishRefused    to a message
    │   ├── StreamRefused         the node does not do what is asked of a stream; carries a code
    │   ├── ConnectionLost        the connection is gone and is not made again
    │   └── BufferFull            nothing more can wait to be sent
    ├── ChannelError              a web channel cannot do what is asked for
    │   ├── BadAddress            a URL that cannot be one
    │   └── ChannelRefused        an address, a host or one channel more is not allowed
    │       └── ChannelsFull      the bound on channels or subscriptions is reached
    ├── ClusterError              a ring of nodes cannot be what is asked for
    ├── SlotError                 a filter of time slots or a flow was given parameters that cannot be
    ├── StreamError               a reliable stream was given what cannot be, or a peer sent what is none
    ├── SimulationError           a simulation was set up wrongly or does not come to an end
    ├── MissingTool               exit code 4: Java, Spark or another program is not installed
    ├── SparkFailed               a Spark session or job failed
    └── GoalMissed                exit code 1: it ran, and the answer is no

Input from outside raises these; our own mistakes fail asserts. A message says what was wrong, where, and
what to do about it.
"""

from __future__ import annotations

from typing import ClassVar, Self


def printable(text: str) -> str:
    """A stranger's text, fit for a terminal or a log: no escape sequence or reversal of it gets through."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


class PenstockError(Exception):
    """Something outside the program is wrong; the message is fit to be shown to a person."""

    exit_code: ClassVar[int] = 3


class PlacedError(PenstockError):
    """A text cannot be understood; the facts are attributes, the sentence is made from them."""

    def __init__(
        self,
        problem: str,
        *,
        path: str = "",
        source: str = "",
        line: int | None = None,
        column: int | None = None,
        allowed: str = "",
        near: str = "",
    ) -> None:
        self.problem = problem
        self.path = path
        self.source = source
        self.line = line
        self.column = column
        self.allowed = allowed
        self.near = near
        super().__init__(str(self))

    def inside(self, name: str) -> Self:
        """The same problem, seen from one level further out: `name` goes in front of the path."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        self.path = f"{name}{joint}{self.path}"
        self.args = (str(self),)
        return self

    def at(self, *, line: int | None, column: int | None) -> Self:
        """The same problem with its position, unless a more exact one is known already."""
        if self.line is None:
            self.line, self.column = line, column
            self.args = (str(self),)
        return self

    def of(self, source: str) -> Self:
        """The same problem with the name of the text it was found in."""
        self.source = source
        self.args = (str(self),)
        return self

    def place(self) -> str:
        """Where: `file:line:column path`, as much of it as is known."""
        position = ":".join(
            str(part) for part in (self.source, self.line, self.column) if part not in ("", None)
        )
        return " ".join(part for part in (position, self.path) if part)

    def __str__(self) -> str:
        place = self.place()
        parts = [f"{place}: {self.problem}" if place else self.problem]
        if self.near:
            parts[0] += f" (did you mean '{self.near}'?)"
        if self.allowed:
            parts.append(f"allowed: {self.allowed}")
        return printable("; ".join(parts))

    def facts(self) -> dict[str, object]:
        """The error for `--json`."""
        return {
            "problem": self.problem,
            "path": self.path,
            "source": self.source,
            "line": self.line,
            "column": self.column,
            "allowed": self.allowed,
            "near": self.near,
        }


class PolicyError(PlacedError):
    """A policy cannot be understood."""


class ConfigError(PlacedError):
    """A node's configuration cannot be used; `also` are the other problems found in it."""

    also: tuple[ConfigError, ...] = ()

    def __str__(self) -> str:
        more = f"; and {len(self.also)} more: see `penstock config check`" if self.also else ""
        return super().__str__() + more

    def each(self) -> list[tuple[str, dict[str, object]]]:
        """Every problem by itself: its sentence and its facts."""
        return [(PlacedError.__str__(one), one.facts()) for one in (self, *self.also)]


class NodeError(PenstockError):
    """A node cannot start or go on; what stands in its way is outside of it."""


class StoreError(NodeError):
    """The store cannot be opened, read or written; the message names the file."""

    def __init__(self, problem: str, path: object) -> None:
        super().__init__(printable(f"{path}: {problem}"))


class DigestError(PenstockError):
    """Bytes or JSON that should be a digest are damaged or from an unknown version."""


class InputError(PenstockError):
    """A file, or a line of it, cannot be read as what it should be."""

    def __init__(self, problem: str, *, path: object = "", line: int | None = None) -> None:
        place = ":".join(str(part) for part in (path, line) if part not in ("", None))
        super().__init__(printable(f"{place}: {problem}" if place else problem))


class QueueError(PenstockError):
    """A queue was configured or used in a way it does not offer."""


class ControlOverflow(QueueError):
    """Too many control items wait; the owner should close the connection rather than drop one."""


class MqttError(PenstockError):
    """An MQTT peer broke a rule; `reason` is the MQTT 5 reason code that says so on the wire."""

    def __init__(self, problem: str, *, where: str = "", reason: int = 0x80) -> None:
        self.problem = problem
        self.where = where
        self.reason = reason
        super().__init__(printable(f"{where}: {problem}" if where else problem))


class MalformedPacket(MqttError):
    """Bytes that cannot be read as the packet they claim to be."""

    def __init__(self, problem: str, *, where: str = "", reason: int = 0x81) -> None:
        super().__init__(problem, where=where, reason=reason)


class ProtocolError(MqttError):
    """A well-formed packet that must not come now, or must not say this."""

    def __init__(self, problem: str, *, where: str = "", reason: int = 0x82) -> None:
        super().__init__(problem, where=where, reason=reason)


class UnsupportedVersion(MqttError):
    """A CONNECT of a protocol that is not spoken; `answer` is the CONNACK it can understand, if any."""

    def __init__(self, problem: str, *, answer: bytes) -> None:
        super().__init__(problem, where="CONNECT protocol", reason=0x84)
        self.answer = answer


class PacketTooLarge(MqttError):
    """A packet beyond the maximum packet size of its receiver."""

    def __init__(self, problem: str, *, where: str = "", reason: int = 0x95) -> None:
        super().__init__(problem, where=where, reason=reason)


class ClientError(PenstockError):
    """A client cannot do what its program asks for; the node, or the way to it, is the reason."""

    def __init__(self, problem: str) -> None:
        super().__init__(printable(problem))


class Unreachable(ClientError):
    """Nobody answers at an address, or whoever does speaks no MQTT."""


class Refused(ClientError):
    """A node said no; `reason` is its MQTT 5 reason code."""

    def __init__(self, problem: str, *, reason: int) -> None:
        self.reason = reason
        super().__init__(problem)


class ConnectRefused(Refused):
    """A node does not take the connection."""


class SubscribeRefused(Refused):
    """A node does not take a subscription; the connection lives."""


class PublishRefused(Refused):
    """A node does not take a message of QoS 1 or 2; the connection lives."""


class StreamRefused(ClientError):
    """A node does not do what a program asks of a stream.

    `code` says why, as `penstock.core.streams.requests.Code` names it; `first` is the first tick that can be
    had if messages are gone.
    """

    def __init__(self, problem: str, *, code: str, first: int = 0) -> None:
        self.code = code
        self.first = first
        super().__init__(problem)


class ConnectionLost(ClientError):
    """The connection is gone and is not made again; `reason` is the node's code, if it gave one."""

    def __init__(self, problem: str, *, reason: int | None = None) -> None:
        self.reason = reason
        super().__init__(problem)


class BufferFull(ClientError):
    """Nothing more can wait to be sent; wait with `publish`, or give the client a policy."""


class ChannelError(PenstockError):
    """A web channel cannot do what is asked for; the sentence is fit to be sent to who asked."""

    def __init__(self, problem: str) -> None:
        super().__init__(printable(problem))


class BadAddress(ChannelError):
    """A text is not the URL of a page or feed."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(f"{url}: {problem}")


class ChannelRefused(ChannelError):
    """A channel or a subscription is not allowed: its host, its address, or their number."""


class ChannelsFull(ChannelRefused):
    """One channel or one subscription more than allowed; an end of another makes room."""


class SlotError(PenstockError):
    """Parameters of a filter, a slot or a flow that cannot be; the message names the parameter."""

    def __init__(self, problem: str) -> None:
        super().__init__(printable(problem))


class ClusterError(PenstockError):
    """A ring of nodes was given ids or levels that cannot be."""


class StreamError(PenstockError):
    """A reliable stream was given options or a message that cannot be, or a peer's bytes are no message."""

    def __init__(self, problem: str) -> None:
        super().__init__(printable(problem))


class SimulationError(PenstockError):
    """A simulation was set up wrongly, or it does not come to an end."""


class MissingTool(PenstockError):
    """A program or library that this needs is not installed; the message says how to get it."""

    exit_code = 4


class SparkFailed(PenstockError):
    """Spark could not be reached, or a job of it failed for a reason that is not in the input."""


class GoalMissed(PenstockError):
    """The command did its work and the answer is no: a goal missed, a row not reproduced."""

    exit_code = 1
