"""A queue that packs by policy: fast in, slow out, and every event accounted for."""

from math import sin

from penstock import Digest, Event, parse
from penstock.core.queues import PackingQueue, QueueOptions
from penstock.model import SECOND_US

POLICY = parse("""
attribute: pulse
digest: [mean, max]
levels:
  - drop: {delta: 5}
  - drop: {within: [50, 100]}
  - keep: {latest: 10}
""")

queue = PackingQueue(POLICY, QueueOptions(capacity_events=50))
received = []

# 10 events come in each second, 4 items go out.
for number in range(600):
    now_us = number * SECOND_US // 10
    pulse = round(80 + 25 * sin(number / 9)) + (50 if number % 50 == 49 else 0)
    payload = f'{{"pulse": {pulse}}}'.encode()
    queue.offer(Event("ward/3/pulse", payload, now_us, sender="bed-12", seq=number), now_us=now_us)
    if number % 5 in (0, 2):
        received += queue.take(1)

print("the first digest and the event after it:")
place = next(place for place, item in enumerate(received) if isinstance(item, Digest))
digest, event = received[place : place + 2]
((_, pulse_summary),) = digest.attributes
print(f"  {digest.count} dropped, numbers {digest.seq_first} to {digest.seq_last}")
print(f"  mean pulse {pulse_summary.mean:.1f}, highest {pulse_summary.most:g}")
print(f"  by {', '.join(f'{cause}: {count}' for cause, count in digest.causes)}")
print(f"  {event.payload.decode()}")

found = queue.statistics()
print(f"accepted {found.accepted} = delivered {found.delivered} + digested {found.digested}", end="")
print(f" + waiting {found.queued} + in waiting digests {found.queued_digested}: {found.conserved}")
print(f"packs by level: {dict(found.packs_by_level)}")
for cause, count in found.filters.items():
    print(f"  {cause}: saw {count.seen}, dropped {count.dropped}")
