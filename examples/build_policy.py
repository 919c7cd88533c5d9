"""A policy built in Python: checked, explained, written as YAML, tried on a queue."""

from penstock import Event, PolicyError, explain, lint, parse
from penstock.policy import drop, evaluate, keep, policy, to_yaml

ward = policy(
    drop.delta(5),
    [drop.uniq(), drop(attribute="spo2").within(95, 100)],
    keep.latest_by("$topic", n=3),
    attribute="pulse",
    digest={"pulse": ["mean"], "spo2": ["min"]},
    name="ward",
)

print(to_yaml(ward))
print(f"nothing is lost on the way: {parse(to_yaml(ward)) == ward}")
print()

for line in explain(ward):
    print(line)

print()
for warning in lint(policy(drop.latest(10), attribute="pulse")):
    print(f"warning: {warning}")

try:
    drop.within(100, 50)
except PolicyError as error:
    print(f"error: {error}")

queue = [
    Event("bed/1", b'{"pulse": 70, "spo2": 97}', 0, seq=0),
    Event("bed/1", b'{"pulse": 71, "spo2": 97}', 1_000_000, seq=1),
    Event("bed/1", b'{"pulse": 90, "spo2": 91}', 2_000_000, seq=2),
]
packed = evaluate.pack(ward, queue, level=2, now_us=3_000_000)
print()
for effect in packed.effects:
    print(f"{effect.cause}: saw {effect.seen}, dropped {effect.dropped}")
print([type(item).__name__ for item in packed.items])
