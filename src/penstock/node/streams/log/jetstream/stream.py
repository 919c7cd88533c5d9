"""A JetStream stream that holds a log: the connection to NATS, the requests to it, and the batches in it.

One JetStream message is one `LogBatch`: messages of ours that were appended together. Each batch covers
the ticks from `after` to its end, and no other batch has any of them. A reader that finds the end of one
batch where the next one begins knows that nothing between them was lost.

`pull` reads consecutive messages with a consumer of its own, which is deleted afterwards.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.errors import MissingTool, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js.api import StreamState

    from penstock.node.config.streams import Nats


class LogBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Messages in the order of their ticks; a batch without messages is a claim."""

    writer: str
    """Identifies the process that wrote the batch: a random text for each opening of the log."""
    after: int
    """The tick behind the last message before the batch."""
    ticks: tuple[int, ...]
    bodies: tuple[bytes, ...]
    claim: int
    """Ticks before this one are reserved."""
    trimmed: int
    """Messages before this tick are trimmed."""
    messages: int
    """Number of all messages before the batch, trimmed ones included."""
    total_bytes: int
    """Bytes of these messages."""

    @property
    def until(self) -> int:
        """The tick behind the last message."""
        return self.ticks[-1] + 1 if self.ticks else self.after

    @property
    def size(self) -> int:
        """Bytes of the messages."""
        return sum(map(len, self.bodies))

    @property
    def behind(self) -> tuple[int, int]:
        """Number and bytes of all messages up to the end of the batch, trimmed ones included."""
        return self.messages + len(self.ticks), self.total_bytes + self.size


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(LogBatch)


PULL_S: Final = 5.0
"""How long the server may take to send all messages of a `pull`."""
FORGET_S: Final = 30.0
"""When the server deletes the consumer of a `pull` that was interrupted."""


async def pull(client: Client, stream: str, sequence: int, most: int) -> list[tuple[int, bytes]]:
    """The first `most` messages from a sequence on, each with its sequence."""
    from nats.js import api  # noqa: PLC0415  # an extra

    manager = client.jsm()
    reading = await manager.add_consumer(
        stream,
        api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=sequence,
            ack_policy=api.AckPolicy.NONE,
            mem_storage=True,
            inactive_threshold=FORGET_S,
        ),
    )
    most = min(most, reading.num_pending or 0)
    found = await _next(client, f"{stream}.{reading.name}", most) if most else []
    await manager.delete_consumer(stream, reading.name)
    return found


async def _next(client: Client, reading: str, most: int) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    done = asyncio.get_running_loop().create_future()

    async def take(message: Msg) -> None:
        if message.reply:  # $JS.ACK.stream.consumer.deliveries.sequence.…
            found.append((int(message.reply.split(".")[5]), message.data))
        if (not message.reply or len(found) == most) and not done.done():
            done.set_result(None)

    inbox = client.new_inbox()
    listening = await client.subscribe(inbox, cb=take)
    request = json.dumps({"batch": most, "no_wait": True}).encode()
    try:
        await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{reading}", request, reply=inbox)
        async with asyncio.timeout(PULL_S):
            await done
    finally:
        await listening.unsubscribe()
    return found


OPEN_S: Final = 10.0
"""How long the servers may take to answer when a log is opened."""
RECONNECT_S: Final = 0.25
"""Pause between attempts to reconnect."""

PREFIX: Final = "penstock-"
"""Prefix of the names of JetStream streams."""
SUBJECT: Final = "penstock.log."
"""Prefix of their subjects."""


class NatsStream:
    """A JetStream stream. Methods that ask the server raise StoreError if it does not answer as needed."""

    def __init__(self, settings: Nats, safe_name: str) -> None:
        try:
            import nats  # noqa: PLC0415  # an extra
        except ImportError:
            raise MissingTool(
                "logs of streams in NATS need nats-py, which is not installed: pip install 'penstock[nats]'"
            ) from None
        self._nats = nats
        self._settings = settings
        self.name = PREFIX + safe_name
        self.subject = SUBJECT + safe_name
        self.place = f"stream {self.name!r} of NATS"
        self._why = ""
        """The last error of the connection."""
        self._client: Client | None = None
        self.on_away: Callable[[str], None] = lambda _: None
        """Called with the reason when the server cannot be reached."""
        self.on_back: Callable[[], None] = lambda: None
        """Called when the server can be reached again."""
        self.on_answer: Callable[[int, dict[str, Any]], None] = lambda *_: None
        """Called with the number of a batch that was sent, and the answer of the server to it."""
        self._inbox = ""

    @property
    def connected(self) -> bool:
        """Whether the server can be reached."""
        return self._client is not None and self._client.is_connected

    @property
    def max_payload(self) -> int:
        """Bytes of the largest message that the server accepts."""
        assert self._client is not None
        return self._client.max_payload

    # -- open and close --------------------------------------------------------------------------------------

    async def open(self) -> StreamState:
        """Connect, and create the stream if there is none; returns its state."""
        settings = self._settings
        login = {"user": settings.user, "password": settings.password} if settings.user else {}
        try:
            async with asyncio.timeout(OPEN_S):
                self._client = await self._nats.connect(
                    list(settings.servers),
                    name=self.name,
                    error_cb=self._failed,
                    disconnected_cb=self._disconnected,
                    reconnected_cb=self._reconnected,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RECONNECT_S,
                    connect_timeout=2,
                    **login,
                )
                state = await self._make()
                self._inbox = self._client.new_inbox()
                await self._client.subscribe(f"{self._inbox}.*", cb=self._answered)
        except (TimeoutError, OSError, self._nats.errors.Error) as error:
            await self.close()
            raise StoreError(self._no_server(error), self.place) from None
        except StoreError:
            await self.close()
            raise
        return state

    async def _make(self) -> StreamState:
        from nats.js import api, errors  # noqa: PLC0415  # an extra

        assert self._client is not None
        wanted = api.StreamConfig(
            name=self.name,
            description="log of a reliable stream of Penstock: do not purge it, delete nothing from it",
            subjects=[self.subject],
            storage=api.StorageType.FILE,
            num_replicas=self._settings.replicas,
            discard=api.DiscardPolicy.NEW,
            max_consumers=-1,
        )
        manager = self._client.jsm()
        try:
            info = await manager.stream_info(self.name)
        except errors.NotFoundError:
            info = await manager.add_stream(wanted)
        if info.config.subjects != [self.subject]:
            raise StoreError("exists and is not a log of Penstock; rename one of the two", self.place)
        if info.config.num_replicas != self._settings.replicas:
            info = await manager.update_stream(wanted)
        return info.state

    def _no_server(self, error: BaseException) -> str:
        servers = ", ".join(map(_without_password, self._settings.servers))
        why = _text(error)
        if isinstance(error, TimeoutError):
            why = self._why or f"no answer within {OPEN_S:g} s"
        what_to_do = "start nats-server with JetStream (-js), or see streams.nats"
        return f"cannot be opened at {servers}: {why}; {what_to_do}"

    async def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(self._nats.errors.Error, OSError):
                await client.close()

    # -- requests --------------------------------------------------------------------------------------------

    async def state(self) -> StreamState:
        """The present state of the stream."""
        async with self._asking() as client:
            return (await client.jsm().stream_info(self.name)).state

    async def batch(self, sequence: int) -> tuple[int, LogBatch] | None:
        """The batch at a sequence, or the first one behind it; None if there is none."""
        from nats.js import errors  # noqa: PLC0415  # an extra

        async with self._asking() as client:
            try:
                found = await client.jsm().get_msg(self.name, seq=sequence, subject=self.subject, next=True)
            except errors.NotFoundError:
                return None
        assert found.seq is not None
        return found.seq, self._decode(found.seq, found.data or b"")

    async def batches(self, sequence: int, most: int) -> list[tuple[int, LogBatch]]:
        """The first `most` batches from a sequence on."""
        async with self._asking() as client:
            found = await pull(client, self.name, sequence, most)
        return [(at, self._decode(at, data)) for at, data in found]

    async def purge(self, sequence: int) -> None:
        """Delete everything before a sequence; it must be at least 2, or NATS deletes everything."""
        assert sequence > 1
        async with self._asking() as client:
            await client.jsm().purge_stream(self.name, seq=sequence)

    async def delete(self, sequence: int) -> None:
        """Delete one batch, if it is there."""
        from nats.js import errors  # noqa: PLC0415  # an extra

        async with self._asking() as client:
            with suppress(errors.APIError):
                await client.jsm().delete_msg(self.name, sequence)

    async def send(self, batch: LogBatch, *, number: int, sequence: int, before: int) -> None:
        """Send a batch to be stored at a sequence and nowhere else; `on_answer` is called with the answer.

        `before` is the number of the batch before it, if that is not answered yet. Without that batch this
        one must not be stored either, and the sequence alone would not tell if a batch of another node got
        in between.
        """
        headers = {
            "Nats-Msg-Id": f"{batch.writer}-{number}",
            "Nats-Expected-Last-Sequence": str(sequence - 1),
        }
        if before:
            headers["Nats-Expected-Last-Msg-Id"] = f"{batch.writer}-{before}"
        async with self._asking() as client:
            await client.publish(
                self.subject, _encoder.encode(batch), reply=f"{self._inbox}.{number}", headers=headers
            )

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[Client]:
        if self._client is None:
            raise StoreError("is closed", self.place)
        try:
            yield self._client
        except (TimeoutError, OSError, self._nats.errors.Error) as error:
            raise StoreError(f"{_text(error)}; check the NATS server", self.place) from None

    def _decode(self, sequence: int, data: bytes) -> LogBatch:
        """The batch in a JetStream message; StoreError if it is not one."""
        try:
            found = _decoder.decode(data)
        except (msgspec.MsgspecError, ValueError) as error:
            problem = f"message {sequence}: not a batch of a stream's log: {error}"
            raise StoreError(problem, self.place) from None
        ticks, bodies = len(found.ticks), len(found.bodies)
        if ticks != bodies:
            problem = f"message {sequence}: a batch of a stream's log has {ticks} ticks and {bodies} bodies"
            raise StoreError(problem, self.place)
        return found

    # -- callbacks of the connection -------------------------------------------------------------------------

    async def _answered(self, message: Msg) -> None:
        number = int(message.subject.rpartition(".")[2])
        try:
            answer = json.loads(message.data) if message.data else {}
        except ValueError:
            answer = {}
        self.on_answer(number, answer)

    async def _failed(self, error: Exception) -> None:
        self._why = _text(error)
        if self._client is not None and not self._client.is_connected and not self._client.is_closed:
            self.on_away(self._why)

    async def _disconnected(self) -> None:
        if self._client is not None and not self._client.is_closed:
            self.on_away(self._why)

    async def _reconnected(self) -> None:
        self.on_back()


def _without_password(server: str) -> str:
    scheme, mark, rest = server.rpartition("://")
    return scheme + mark + rest.rpartition("@")[2]


def _text(error: BaseException) -> str:
    text = str(error).removeprefix("nats: ")
    return text or type(error).__name__
