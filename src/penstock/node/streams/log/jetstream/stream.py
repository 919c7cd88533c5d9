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

from penstock.errors import MissingTool, StoreError, StreamError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js.api import StreamState

    from penstock.node.config.streams import Nats


class LogBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Messages, in the order of their ticks; none: a claim."""

    writer: str
    """Which opening of the log has written it."""
    after: int
    """Behind the last message before it."""
    ticks: tuple[int, ...]
    bodies: tuple[bytes, ...]
    claim: int
    trimmed: int
    messages: int
    """That the log has ever had before it, and their bytes."""
    total_bytes: int

    @property
    def until(self) -> int:
        """Behind its last message."""
        return self.ticks[-1] + 1 if self.ticks else self.after

    @property
    def size(self) -> int:
        """Of its messages."""
        return sum(map(len, self.bodies))

    @property
    def behind(self) -> tuple[int, int]:
        """Messages that the log has ever had before its end, and their bytes."""
        return self.messages + len(self.ticks), self.total_bytes + self.size


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(LogBatch)


def encode_batch(batch: LogBatch) -> bytes:
    """For JetStream."""
    return _encoder.encode(batch)


def decode_batch(data: bytes) -> LogBatch:
    """From there; StreamError if it is not one of ours."""
    try:
        found = _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise StreamError(f"this is no batch of a stream's log: {error}") from None
    if len(found.ticks) != len(found.bodies):
        raise StreamError(
            f"a batch of a stream's log has {len(found.ticks)} ticks and {len(found.bodies)} bodies"
        )
    return found


PULL_S: Final = 5.0
"""How long the server may take for all of them."""
FORGET_S: Final = 30.0
"""After which the server forgets a reading that was broken off."""


async def pull(client: Client, stream: str, sequence: int, most: int) -> list[tuple[int, bytes]]:
    """The first messages from a sequence on, with their sequences: `most` of them, or all there are."""
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
"""How long servers may take to answer when a log is opened."""
RECONNECT_S: Final = 0.25
"""Between attempts to reach a server that is away."""

PREFIX: Final = "penstock-"
"""Of the names of streams."""
SUBJECT: Final = "penstock.log."
"""Of their subjects."""


class NatsStream:
    """One; every method that asks raises StoreError if there is no answer, or not the one that is needed."""

    def __init__(self, settings: Nats, safe_name: str) -> None:
        try:
            import nats  # noqa: PLC0415  # an extra
        except ImportError:
            raise MissingTool(
                "logs of streams in NATS need nats-py, and there is none: pip install 'penstock[nats]'"
            ) from None
        self._nats = nats
        self._settings = settings
        self.name = PREFIX + safe_name
        self.subject = SUBJECT + safe_name
        self.place = f"stream {self.name!r} of NATS"
        self._why = ""
        """What the connection complained about last."""
        self._client: Client | None = None
        self.on_away: Callable[[str], None] = lambda _: None
        """The server cannot be reached, and why."""
        self.on_back: Callable[[], None] = lambda: None
        self.on_answer: Callable[[int, dict[str, Any]], None] = lambda *_: None
        """The server has answered what was sent under a number."""
        self._inbox = ""

    @property
    def connected(self) -> bool:
        """Whether the server can be reached."""
        return self._client is not None and self._client.is_connected

    @property
    def max_payload(self) -> int:
        """Bytes of a message that the server takes."""
        assert self._client is not None
        return self._client.max_payload

    # -- beginning and end -----------------------------------------------------------------------------------

    async def open(self) -> StreamState:
        """Connect, make the stream if there is none; what is in it."""
        settings = self._settings
        login = {"user": settings.user, "password": settings.password} if settings.user else {}
        try:
            async with asyncio.timeout(OPEN_S):
                self._client = await self._nats.connect(
                    list(settings.servers),
                    name=self.name,
                    error_cb=self._complained,
                    disconnected_cb=self._went,
                    reconnected_cb=self._came,
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
            raise StoreError("is not a log of ours; rename one of the two", self.place)
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
        """Let go of the connection."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(self._nats.errors.Error, OSError):
                await client.close()

    # -- asking ----------------------------------------------------------------------------------------------

    async def state(self) -> StreamState:
        """What is in the stream."""
        async with self._asking() as client:
            return (await client.jsm().stream_info(self.name)).state

    async def batch(self, sequence: int) -> tuple[int, LogBatch] | None:
        """The batch at a sequence, or the first one behind it; None: there is none."""
        from nats.js import errors  # noqa: PLC0415  # an extra

        async with self._asking() as client:
            try:
                found = await client.jsm().get_msg(self.name, seq=sequence, subject=self.subject, next=True)
            except errors.NotFoundError:
                return None
        assert found.seq is not None
        return found.seq, self._decode(found.seq, found.data or b"")

    async def batches(self, sequence: int, most: int) -> list[tuple[int, LogBatch]]:
        """The first batches from a sequence on: `most` of them, or all there are."""
        async with self._asking() as client:
            found = await pull(client, self.name, sequence, most)
        return [(at, self._decode(at, data)) for at, data in found]

    async def purge(self, sequence: int) -> None:
        """Everything before a sequence goes; there must be something: asked for nothing, NATS purges all."""
        assert sequence > 1
        async with self._asking() as client:
            await client.jsm().purge_stream(self.name, seq=sequence)

    async def delete(self, sequence: int) -> None:
        """One batch goes, if it is there."""
        from nats.js import errors  # noqa: PLC0415  # an extra

        async with self._asking() as client:
            with suppress(errors.APIError):
                await client.jsm().delete_msg(self.name, sequence)

    async def send(self, batch: LogBatch, *, number: int, sequence: int, before: int) -> None:
        """Store a batch at a sequence and nowhere else; `on_answer` follows, or nothing.

        `before` is the number of the one before it, if that is on its way, too: without it this one must not
        be stored either, and the sequence alone would not tell, if somebody else's batch got in between.
        """
        headers = {
            "Nats-Msg-Id": f"{batch.writer}-{number}",
            "Nats-Expected-Last-Sequence": str(sequence - 1),
        }
        if before:
            headers["Nats-Expected-Last-Msg-Id"] = f"{batch.writer}-{before}"
        async with self._asking() as client:
            await client.publish(
                self.subject, encode_batch(batch), reply=f"{self._inbox}.{number}", headers=headers
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
        try:
            return decode_batch(data)
        except StreamError as error:
            raise StoreError(f"message {sequence}: {error}", self.place) from None

    # -- what the connection says ----------------------------------------------------------------------------

    async def _answered(self, message: Msg) -> None:
        number = int(message.subject.rpartition(".")[2])
        try:
            answer = json.loads(message.data) if message.data else {}
        except ValueError:
            answer = {}
        self.on_answer(number, answer)

    async def _complained(self, error: Exception) -> None:
        self._why = _text(error)
        if self._client is not None and not self._client.is_connected and not self._client.is_closed:
            self.on_away(self._why)

    async def _went(self) -> None:
        if self._client is not None and not self._client.is_closed:
            self.on_away(self._why)

    async def _came(self) -> None:
        self.on_back()


def _without_password(server: str) -> str:
    scheme, mark, rest = server.rpartition("://")
    return scheme + mark + rest.rpartition("@")[2]


def _text(error: BaseException) -> str:
    text = str(error).removeprefix("nats: ")
    return text or type(error).__name__
