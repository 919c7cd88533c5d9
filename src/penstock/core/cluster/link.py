"""One direction of a link between two nodes: everything once and in order, whatever the fabric does.

Frames are numbered. The receiver takes the next one, ignores what it has, and says of a gap that something is
missing. It acknowledges all frames up to a number, and with it says how many bytes may be on their way. The
sender keeps frames until they are acknowledged, and sends them again when the receiver misses one, when an
acknowledgement stays away, and when a lost connection is renewed.

A link belongs to one incarnation of both nodes: a restarted node gets new links, which begin with number 1.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.backoff import doubled
from penstock.core.cluster.frames import Ack, data_frame

if TYPE_CHECKING:
    from penstock.model.instant import Instant


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
        if ack.missing and ack.upto == self.acknowledged_upto:
            return self._again(now_us)
        return []

    def timer(self) -> Instant | None:
        """When to call `retry`; None: nothing is on its way."""
        return self._again_us if self._sent else None

    def retry(self, *, now_us: Instant) -> list[bytes]:
        """Frames to send again because no acknowledgement has come for long."""
        if not self._sent or now_us < self._again_us:
            return []
        self._tries += 1
        return self._again(now_us)

    def renewed(self, *, now_us: Instant) -> list[bytes]:
        """Frames to send again because the connection was lost and is back."""
        self._tries = 0
        return self._again(now_us)

    def withdraw(self) -> None:
        """Forget the frames without acknowledgement: the other end has not taken them."""
        self._sent.clear()
        self.in_flight_bytes = 0

    def _again(self, now_us: Instant) -> list[bytes]:
        for one in self._sent:
            one.times += 1
        self.resent += len(self._sent)
        self._again_us = now_us + doubled(
            limits.CLUSTER_RETRY_LEAST_US, self._tries, most=limits.CLUSTER_RETRY_MOST_US
        )
        return [one.frame for one in self._sent]


class LinkReceiver:
    """Takes each frame once and in order."""

    def __init__(self, *, window_bytes: int = limits.CLUSTER_WINDOW_BYTES) -> None:
        self._window_bytes = window_bytes
        self.upto = 0
        """Number of the last frame taken."""
        self._said = 0
        """Number of the last frame acknowledged: what was taken may have to reach the disk first."""
        self.repeated = 0
        """Frames that had come before."""
        self._asked_us: Instant | None = None

    def takes(self, number: int) -> bool:
        """Whether this frame is the next one; the caller handles it and then calls `acknowledgement`."""
        if number == self.upto + 1:
            self.upto = number
            self._asked_us = None
            return True
        self.repeated += number <= self.upto
        return False

    def acknowledgement(self, upto: int) -> Ack:
        """Say that all frames up to one have been handled."""
        self._said = max(self._said, upto)
        return Ack(self._said, self._window_bytes)

    def farewell(self) -> Ack:
        """Say that nothing more is taken."""
        return Ack(self._said, self._window_bytes, closed=True)

    def reply(self, number: int, *, now_us: Instant) -> Ack | None:
        """Answer a frame that was not taken: it came again, or an earlier one is missing."""
        if number <= self.upto:
            return Ack(self._said, self._window_bytes)
        if self._asked_us is not None and now_us - self._asked_us < limits.CLUSTER_ASK_US:
            return None
        self._asked_us = now_us
        return Ack(self._said, self._window_bytes, missing=True)
