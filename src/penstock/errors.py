"""Every error Penstock raises, in one tree.

    PenstockError                 exit code 3 unless a line says otherwise
    ├── PlacedError               a text is wrong at a place of it
    │   ├── PolicyError           a policy's text or a builder's arguments are wrong
    │   └── ConfigError           a node's configuration is wrong
    ├── DigestError               bytes or JSON are not a valid digest
    ├── InputError                a file, or a line of it, cannot be read
    ├── NodeError                 a node cannot start: a port or a folder is in use, a file does not load
    │   └── StoreError            the file of sessions and retained messages cannot be read or written
    ├── QueueError                a queue was set up or used wrongly
    │   └── ControlOverflow       too many control items wait in a queue
    ├── MqttError                 an MQTT peer broke a rule; carries the reason code to answer with
    │   ├── MalformedPacket       0x81: bytes that are not a valid packet
    │   ├── ProtocolError         0x82: a packet that is not allowed here, or a value not allowed in it
    │   ├── UnsupportedVersion    0x84: CONNECT of an unsupported protocol or version
    │   ├── PacketTooLarge        0x95: a packet above the agreed maximum size
    │   └── UseAnotherServer      0x9C: the node sends the client to another one
    ├── ClientError               a client cannot do what the program asked for
    │   ├── Unreachable           nothing answers at the address, or it does not speak MQTT
    │   ├── Refused               the node refused; carries its reason code
    │   │   ├── ConnectRefused    a connection
    │   │   ├── SubscribeRefused  a subscription
    │   │   └── PublishRefused    a message
    │   ├── StreamRefused         the node refused a request about a stream; carries a code
    │   ├── ConnectionLost        the connection is lost and will not be retried
    │   └── BufferFull            the client's send queue is full
    ├── ChannelError              a web channel cannot be set up or changed as asked
    │   ├── BadAddress            not the URL of a page or feed
    │   └── ChannelRefused        the address, the host or another channel is not allowed
    │       └── ChannelsFull      the limit of channels or subscriptions is reached
    ├── ClusterError              invalid ids of a ring of nodes, or bytes of another node that are no frame
    ├── SlotError                 invalid parameters of a time slot filter or a flow
    ├── StreamError               invalid options or messages of a reliable stream
    ├── SimulationError           a simulation was set up wrongly, or does not end
    ├── RequestRefused            an HTTP request is refused; carries the status to answer with
    ├── MissingTool               exit code 4: Java, Spark or another program is not installed
    ├── SparkFailed               a Spark session or job failed
    └── GoalMissed                exit code 1: the command ran, and its check failed

Input from outside raises these; our own mistakes fail asserts. A message says what was wrong, where, and
what to do about it.
"""

from __future__ import annotations

from typing import ClassVar, Self


def printable(text: str) -> str:
    """Escape control and direction characters of untrusted text: safe in a terminal or a log."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def counted(number: int, what: str) -> str:
    """Return a number of things for a message: `1 level`, `3,000 events`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


class PenstockError(Exception):
    """An error caused from outside the program; its message is fit to be shown to a user.

        try:
            policy = parse(text)
        except PenstockError as error:
            print(error)

    Every error that a program should expect is below this one. `exit_code` is what `penstock` exits with.
    """

    exit_code: ClassVar[int] = 3


class PlacedError(PenstockError):
    """A text is invalid at some place. The facts are attributes; `str` composes the message from them."""

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
        """Put `name` in front of the path, as the error passes to the enclosing part; returns self."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        self.path = f"{name}{joint}{self.path}"
        self.args = (str(self),)
        return self

    def at(self, *, line: int | None, column: int | None) -> Self:
        """Set the position, unless a more exact one is known; returns self."""
        if self.line is None:
            self.line, self.column = line, column
            self.args = (str(self),)
        return self

    def of(self, source: str) -> Self:
        """Set the name of the text (the file); returns self."""
        self.source = source
        self.args = (str(self),)
        return self

    def place(self) -> str:
        """Where the problem is: `file:line:column path`, as far as known."""
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
        """The error as a mapping, for `--json`."""
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
    """A policy's text, or the arguments of the builder, are invalid."""


class ConfigError(PlacedError):
    """A node's configuration is invalid; `also` holds the further problems."""

    also: tuple[ConfigError, ...] = ()

    def __str__(self) -> str:
        more = f"; and {len(self.also)} more: see `penstock config check`" if self.also else ""
        return super().__str__() + more

    def each(self) -> list[tuple[str, dict[str, object]]]:
        """Message and facts of each problem."""
        return [(PlacedError.__str__(one), one.facts()) for one in (self, *self.also)]


class NodeError(PenstockError):
    """A node cannot start or go on because of its surroundings (port, file, disk)."""


class StoreError(NodeError):
    """The store cannot be opened, read or written; the message names the file."""

    def __init__(self, problem: str, path: object) -> None:
        super().__init__(printable(f"{path}: {problem}"))


class DigestError(PenstockError):
    """Bytes or JSON are not a digest: damaged, or of an unknown version."""


class InputError(PenstockError):
    """A file, or a line of it, cannot be read; or an argument is out of its bounds."""

    def __init__(self, problem: str, *, path: object = "", line: int | None = None) -> None:
        place = ":".join(str(part) for part in (path, line) if part not in ("", None))
        super().__init__(printable(f"{place}: {problem}" if place else problem))


class QueueError(PenstockError):
    """A queue was configured or used wrongly."""


class ControlOverflow(QueueError):
    """Too many control items wait. The owner should close the connection: control items are never dropped."""


class MqttError(PenstockError):
    """An MQTT peer broke a rule; `reason` is the MQTT 5 reason code to answer with."""

    def __init__(self, problem: str, *, where: str = "", reason: int = 0x80) -> None:
        self.problem = problem
        self.where = where
        self.reason = reason
        super().__init__(printable(f"{where}: {problem}" if where else problem))


class MalformedPacket(MqttError):
    """Bytes that cannot be decoded as the packet they claim to be."""

    def __init__(self, problem: str, *, where: str = "", reason: int = 0x81) -> None:
        super().__init__(problem, where=where, reason=reason)


class ProtocolError(MqttError):
    """A well-formed packet that is not allowed now, or a value not allowed in it."""

    def __init__(self, problem: str, *, where: str = "", reason: int = 0x82) -> None:
        super().__init__(problem, where=where, reason=reason)


class UnsupportedVersion(MqttError):
    """CONNECT of an unsupported protocol; `answer` is a CONNACK that its sender understands, or empty."""

    def __init__(self, problem: str, *, answer: bytes) -> None:
        super().__init__(problem, where="CONNECT protocol", reason=0x84)
        self.answer = answer


class PacketTooLarge(MqttError):
    """A packet larger than its receiver's maximum packet size."""

    def __init__(self, problem: str, *, where: str = "", reason: int = 0x95) -> None:
        super().__init__(problem, where=where, reason=reason)


class UseAnotherServer(MqttError):
    """The node sends a client away; `reference` is the host and port of another one, or empty."""

    def __init__(self, problem: str, *, where: str = "", reference: str = "") -> None:
        self.reference = reference
        super().__init__(problem, where=where, reason=0x9C)


class ClientError(PenstockError):
    """A client cannot do what the program asked for, because of the node or the network."""

    def __init__(self, problem: str) -> None:
        super().__init__(printable(problem))


class Unreachable(ClientError):
    """Nothing answers at an address, or it does not speak MQTT."""


class Refused(ClientError):
    """A node refused; `reason` is its MQTT 5 reason code."""

    def __init__(self, problem: str, *, reason: int) -> None:
        self.reason = reason
        super().__init__(problem)


class ConnectRefused(Refused):
    """A node refused the connection; `elsewhere` are the servers that it names instead, if any."""

    def __init__(self, problem: str, *, reason: int, elsewhere: str = "") -> None:
        self.elsewhere = elsewhere
        super().__init__(problem, reason=reason)


class SubscribeRefused(Refused):
    """A node refused a subscription; the connection stays open."""


class PublishRefused(Refused):
    """A node refused a QoS 1 or 2 message; the connection stays open."""


class StreamRefused(ClientError):
    """A node refused a request about a stream.

    `code` is one of `penstock.core.streams.requests.Code`; if messages have been deleted, `first` is the
    first tick that can still be read.
    """

    def __init__(self, problem: str, *, code: str, first: int = 0) -> None:
        self.code = code
        self.first = first
        super().__init__(problem)


class ConnectionLost(ClientError):
    """The connection is lost and will not be retried.

    `reason` is the node's reason code, if it sent one; `elsewhere` are the servers that it names, if any.
    """

    def __init__(self, problem: str, *, reason: int | None = None, elsewhere: str = "") -> None:
        self.reason = reason
        self.elsewhere = elsewhere
        super().__init__(problem)


class BufferFull(ClientError):
    """The client's send queue is full; await `publish`, or give the client a policy."""


class ChannelError(PenstockError):
    """A web channel cannot be set up or changed as asked; the message is fit for the user who asked."""

    def __init__(self, problem: str) -> None:
        super().__init__(printable(problem))


class BadAddress(ChannelError):
    """A text is not the URL of a page or feed."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(f"{url}: {problem}")


class ChannelRefused(ChannelError):
    """A channel or subscription is not allowed: its host, its address, or the number of them."""


class ChannelsFull(ChannelRefused):
    """The limit of channels or subscriptions is reached; ending one makes room."""


class SlotError(PenstockError):
    """Invalid parameters of a filter, a slot or a flow; the message names the parameter."""

    def __init__(self, problem: str) -> None:
        super().__init__(printable(problem))


class ClusterError(PenstockError):
    """Invalid ids or levels of a ring of nodes, or bytes of another node that are not a frame."""


class StreamError(PenstockError):
    """Invalid options or message of a reliable stream, or bytes of a peer that are not a message."""

    def __init__(self, problem: str) -> None:
        super().__init__(printable(problem))


class SimulationError(PenstockError):
    """A simulation was set up wrongly, or does not end."""


class RequestRefused(PenstockError):
    """An HTTP request is refused; the HTTP server makes the answer from the attributes."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        where: str = "",
        policy: dict[str, object] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """`where` names the part of the request that is wrong, `policy` the facts of a policy error."""
        super().__init__(printable(detail))
        self.status = status
        self.where = where
        self.policy = policy
        self.headers = headers or {}


class MissingTool(PenstockError):
    """A required program or library is not installed; the message says how to get it."""

    exit_code = 4


class SparkFailed(PenstockError):
    """Spark could not be reached, or a job failed for a reason other than its input."""


class GoalMissed(PenstockError):
    """The command ran and its check failed: a goal missed, a row not reproduced."""

    exit_code = 1
