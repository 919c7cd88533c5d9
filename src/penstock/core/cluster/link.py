"""One direction of a link between two nodes: everything once and in order, whatever the fabric does.

Frames are numbered. The receiver takes the next one, ignores what it has, keeps what came too early, and says
which frames are missing before it. It acknowledges all frames up to a number, and with it says how many bytes
may be on their way. The sender keeps frames until they are acknowledged. It sends again what the receiver
misses, and everything when an acknowledgement stays away or a lost connection is renewed.

A link belongs to one incarnation of both nodes: a restarted node gets new links, which begin with number 1.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock import limits
from penstock.core.backoff import doubled
from penstock.core.cluster.frames import Ack, data_frame

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.model.instant import Instant

T = TypeVar("T")


class _Sent:
    """A frame without acknowledgement."""

    __slots__ = ("frame", "number", "sent_us", "times")

    def __init__(self, number: int, frame: bytes, sent_us: Instant) -> None:
        self.number = number
        self.frame = frame
        self.sent_us = sent_us
        self.times = 1


class LinkSender:
    """Numbers frames, and keeps them until the other end has them."""

    def __init__(self, *, window_bytes: int = limits.CLUSTER_WINDOW_BYTES) -> None:
        self._most_bytes = window_bytes
        self._window_bytes = window_bytes
        self._sent: deque[_Sent] = deque()
        self._number = 0
        self._tries = 0
        """Times that the frames were sent again since the last acknowledgement of something new."""
        self._again_us: Instant = 0
        self.in_flight_bytes = 0
        self.resent = 0
        """Frames that were sent again."""
        self.round_trip_us = 0
        """Smoothed time from sending a frame to its acknowledgement; 0: not known."""

    @property
    def in_flight(self) -> int:
        """Frames without acknowledgement."""
        return len(self._sent)

    @property
    def acknowledged_upto(self) -> int:
        """Number of the last frame that is acknowledged with all before it."""
        return self._sent[0].number - 1 if self._sent else self._number

    @property
    def last(self) -> int:
        """Number of the last frame that was sent."""
        return self._number

    @property
    def room(self) -> int:
        """Bytes that may be sent now; a frame that is larger than the window goes alone."""
        if not self._sent:
            return max(self._window_bytes, 1)
        return max(0, self._window_bytes - self.in_flight_bytes)

    def send(self, body: bytes, *, now_us: Instant) -> bytes:
        """Number a frame; returns its bytes. The caller has looked at `room`."""
        self._number += 1
        frame = data_frame(self._number, body)
        if not self._sent:
            self._tries = 0
            self._again_us = now_us + limits.CLUSTER_RETRY_LEAST_US
        self._sent.append(_Sent(self._number, frame, now_us))
        self.in_flight_bytes += len(frame)
        return frame

    def acknowledged(self, ack: Ack, *, now_us: Instant) -> list[bytes]:
        """Forget what the other end has; returns frames to send again because one is missing."""
        if ack.upto > self._number:
            return []  # of nothing that was ever sent: a stranger's, or a bug of the other end
        self._window_bytes = min(ack.window_bytes, self._most_bytes)
        progress = False
        while self._sent and self._sent[0].number <= ack.upto:
            one = self._sent.popleft()
            self.in_flight_bytes -= len(one.frame)
            progress = True
            if one.times == 1:
                took_us = max(1, now_us - one.sent_us)
                self.round_trip_us += (took_us - self.round_trip_us) // 8 if self.round_trip_us else took_us
        if progress:
            self._tries = 0
            self._again_us = now_us + limits.CLUSTER_RETRY_LEAST_US
        if ack.missing is None:
            return []
        first, last = ack.missing
        return self._again([one for one in self._sent if first <= one.number <= last], now_us)

    def timer(self) -> Instant | None:
        """When to call `retry`; None: nothing is on its way."""
        return self._again_us if self._sent else None

    def retry(self, *, now_us: Instant) -> list[bytes]:
        """Frames to send again because no acknowledgement has come for long."""
        if not self._sent or now_us < self._again_us:
            return []
        self._tries += 1
        return self._again(self._sent, now_us)

    def renewed(self, *, now_us: Instant) -> list[bytes]:
        """Frames to send again because the connection was lost and is back."""
        self._tries = 0
        return self._again(self._sent, now_us)

    def withdraw(self) -> None:
        """Forget the frames without acknowledgement: the other end has not taken them."""
        self._sent.clear()
        self.in_flight_bytes = 0

    def _again(self, frames: Iterable[_Sent], now_us: Instant) -> list[bytes]:
        found: list[bytes] = []
        for one in frames:
            one.times += 1
            found.append(one.frame)
        self.resent += len(found)
        self._again_us = now_us + doubled(
            limits.CLUSTER_RETRY_LEAST_US, self._tries, most=limits.CLUSTER_RETRY_MOST_US
        )
        return found


class LinkReceiver(Generic[T]):
    """Takes each frame once and in order; `T` is what a frame contains."""

    def __init__(self, *, window_bytes: int = limits.CLUSTER_WINDOW_BYTES) -> None:
        self._window_bytes = window_bytes
        self.upto = 0
        """Number of the last frame taken."""
        self._said = 0
        """Number of the last frame acknowledged: what was taken may have to reach the disk first."""
        self.repeated = 0
        """Frames that had come before."""
        self._early: dict[int, tuple[T, int]] = {}
        """Frames that came before others which are missing, with their bytes."""
        self._early_bytes = 0
        self._asked_us: Instant | None = None

    def knows(self, number: int) -> bool:
        """Whether this frame has come before."""
        known = number <= self.upto or number in self._early
        self.repeated += known
        return known

    def takes(self, number: int, content: T, size: int) -> list[T]:
        """Take a new frame if it is the next one; returns its content and that of frames that came early.

        The caller handles it and then calls `acknowledgement`.
        """
        if number != self.upto + 1:
            self._keep(number, content, size)
            return []
        found = [content]
        self.upto = number
        while (early := self._early.pop(self.upto + 1, None)) is not None:
            found.append(early[0])
            self._early_bytes -= early[1]
            self.upto += 1
        self._asked_us = None
        return found

    def _keep(self, number: int, content: T, size: int) -> None:
        """Keep a frame that came too early, if there is room: else it has to come again."""
        near = self.upto < number <= self.upto + limits.CLUSTER_EARLY_FRAMES
        if near and self._early_bytes + size <= self._window_bytes:
            self._early[number] = (content, size)
            self._early_bytes += size

    def acknowledgement(self, upto: int) -> Ack:
        """Say that all frames up to one have been handled."""
        self._said = max(self._said, upto)
        return Ack(self._said, self._window_bytes)

    def farewell(self) -> Ack:
        """Say that nothing more is taken."""
        return Ack(self._said, self._window_bytes, closed=True)

    def reply(self, number: int, *, now_us: Instant) -> Ack | None:
        """Answer a frame that was not taken: it came again, or others before it are missing."""
        return Ack(self._said, self._window_bytes) if number <= self.upto else self.ask(number, now_us=now_us)

    def ask(self, came: int = 0, *, now_us: Instant) -> Ack | None:
        """Ask for the frames that are missing before a frame that `came`, or before those that came early."""
        behind = min(self._early, default=came)
        asked = self._asked_us is not None and now_us - self._asked_us < limits.CLUSTER_ASK_US
        if asked or behind <= self.upto:
            return None
        self._asked_us = now_us
        return Ack(self._said, self._window_bytes, missing=(self.upto + 1, behind - 1))
