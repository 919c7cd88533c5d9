"""Two ends over connections that are cut at any moment: nothing lost, QoS 2 never twice, order kept.

The wire is two queues of packets. A cut loses everything on it, at once; the session goes on over a new
connection with a window of its own. Both ends send.
"""

from __future__ import annotations

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.mqtt.packets.packet import Packet, decode, encode
from penstock.mqtt.packets.publish import Ack, Puback, Pubcomp, Publish
from penstock.mqtt.sessions.exchange import Arrival, Exchange

VERSION = 5


class End:
    """One end, and what its application sent and got."""

    def __init__(self) -> None:
        self.exchange: Exchange[tuple[int, int]] = Exchange()
        self.wire: deque[bytes] = deque()
        """Packets that this end has sent and the other has not read."""
        self.waiting: deque[tuple[int, int]] = deque()
        """(number, QoS) that found no room yet."""
        self.sent: list[tuple[int, int]] = []
        self.got: list[tuple[int, int]] = []
        self.unanswered: deque[int] = deque()
        """Messages whose answer the application still owes."""
        self.unsettled: set[int] = set()
        """Published over this connection and neither answered (QoS 1) nor completed (QoS 2)."""

    def put(self, packet: Packet) -> None:
        if isinstance(packet, Publish):
            self.unsettled.add(packet.packet_id)
        self.wire.append(encode(packet, VERSION))

    def pump(self) -> None:
        out = self.exchange.outgoing
        for each in out.again():
            self.put(_publish(each.message, each.packet_id, dup=True))
        while self.waiting and out.room:
            message = self.waiting.popleft()
            self.put(_publish(message, out.send(message, qos=message[1])))

    def read(self, frame: bytes) -> None:
        packet = decode(frame, VERSION)
        if isinstance(packet, Ack):
            if isinstance(packet, Puback | Pubcomp):
                self.unsettled.discard(packet.packet_id)
            step = self.exchange.receive(packet)
            if step.reply is not None:
                self.put(step.reply)
            self.pump()
            return
        assert isinstance(packet, Publish)
        match self.exchange.incoming.arrive(packet.packet_id, qos=packet.qos):
            case Arrival.NEW:
                self.got.append((int(packet.payload), packet.qos))
                self.unanswered.append(packet.packet_id)
            case Arrival.AGAIN:
                self.put(self.exchange.incoming.answer(packet.packet_id))

    def answer(self) -> None:
        if self.unanswered:
            self.put(self.exchange.incoming.answer(self.unanswered.popleft()))


def _publish(message: tuple[int, int], packet_id: int, *, dup: bool = False) -> Publish:
    number, qos = message
    return Publish("t", b"%d" % number, qos=qos, dup=dup, packet_id=packet_id)


class TwoEnds(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ends = (End(), End())
        self.windows = (1, 1)
        self.number = 0

    @initialize(windows=st.tuples(st.integers(1, 4), st.integers(1, 4)))
    def connect(self, windows: tuple[int, int]) -> None:
        self.windows = windows
        for end, window, maximum in zip(self.ends, windows, reversed(windows), strict=True):
            end.wire.clear()
            end.unsettled.clear()
            for packet in end.exchange.resume(window=window, maximum=maximum):
                end.put(packet)
            end.pump()

    @rule(windows=st.tuples(st.integers(1, 4), st.integers(1, 4)))
    def cut(self, windows: tuple[int, int]) -> None:
        """All that is on the wire is lost; an answer owed for QoS 1 has nobody to go to."""
        for end in self.ends:
            kept = set(end.exchange.incoming.received())
            end.unanswered = deque(each for each in end.unanswered if each in kept)
        self.connect(windows)

    @rule(who=st.integers(0, 1), qos=st.integers(1, 2), count=st.integers(1, 3))
    def send(self, who: int, qos: int, count: int) -> None:
        end = self.ends[who]
        for _ in range(count):
            self.number += 1
            end.sent.append((self.number, qos))
            end.waiting.append((self.number, qos))
        end.pump()

    @rule(who=st.integers(0, 1), count=st.integers(1, 4))
    def deliver(self, who: int, count: int) -> None:
        for _ in range(min(count, len(self.ends[who].wire))):
            self.ends[1 - who].read(self.ends[who].wire.popleft())

    @rule(who=st.integers(0, 1))
    def answer(self, who: int) -> None:
        self.ends[who].answer()

    @invariant()
    def the_window_is_kept(self) -> None:
        """Section 4.9; the other end checks it, too, by its receive maximum."""
        for end, window in zip(self.ends, self.windows, strict=True):
            assert len(end.unsettled) <= window

    @invariant()
    def qos_2_is_never_delivered_twice_and_order_is_kept(self) -> None:
        for sender, receiver in (self.ends, self.ends[::-1]):
            second = [number for number, qos in receiver.got if qos == 2]
            assert len(second) == len(set(second))
            assert second == [each for each, qos in sender.sent if qos == 2][: len(second)]
            firsts = list(dict.fromkeys(number for number, qos in receiver.got if qos == 1))
            assert firsts == [each for each, qos in sender.sent if qos == 1][: len(firsts)]

    def teardown(self) -> None:
        """With a quiet wire everything arrives and nothing stays behind."""
        for _ in range(20 * (self.number + 1)):
            for who in (0, 1):
                self.deliver(who, 4)
                self.answer(who)
        for sender, receiver in (self.ends, self.ends[::-1]):
            assert sorted(set(receiver.got)) == sorted(sender.sent)
            assert [each for each in receiver.got if each[1] == 2] == [
                each for each in sender.sent if each[1] == 2
            ]
            assert not sender.waiting
            assert sender.exchange.outgoing.in_flight == 0
            assert len(sender.exchange.ids) == 0
            assert receiver.exchange.incoming.in_flight == 0
            assert receiver.exchange.incoming.received() == []


TestTwoEnds = TwoEnds.TestCase
TestTwoEnds.settings = settings(max_examples=max(15, settings().max_examples // 3))
