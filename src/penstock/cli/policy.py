"""`penstock policy`: checks, explains, converts and tries policies; brings installed ones back."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock import limits
from penstock.cli.files import RecordedEvent, read_events, read_policy, write_text
from penstock.cli.output import JsonFlag, complain, print_json, print_text, warn
from penstock.cli.starters import POLICY, begin_file, write_yaml
from penstock.cli.starters import schema as json_schema
from penstock.cli.terminal import out, print_table
from penstock.core.queues import Drain, PackingQueue, QueueOptions, Replay
from penstock.core.queues import drain as drain_of
from penstock.errors import GoalMissed, InputError, PenstockError, PolicyError, counted, printable
from penstock.model.digest import Digest
from penstock.model.digest_wire import to_json
from penstock.model.event import Event, Item
from penstock.model.instant import duration
from penstock.policy import evaluate
from penstock.policy.evaluate import Packed
from penstock.policy.explain import explain
from penstock.policy.lint import lint, unpaced
from penstock.policy.nodes import Policy
from penstock.policy.text import forms

app = typer.Typer(no_args_is_help=True, help="Check, explain, convert and try policies.")

PolicyFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A policy: YAML, JSON or XML; - for standard input.")
]


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Policies: YAML, JSON or XML.")],
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    ordered: Annotated[
        list[str] | None,
        typer.Option(
            "--ordered",
            metavar="FILTER",
            help="Topics of the policy whose order matters: `urgent` is warned about; repeatable.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check policies: errors, and warnings about likely mistakes."""
    results = [_checked(path, ordered or ()) for path in files]
    good = all(result["ok"] and not (strict and result["warnings"]) for result in results)
    if as_json:
        print_json({"ok": good, "policies": results})
    else:
        for result in results:
            _show_checked(result)
    if not all(result["ok"] for result in results):
        raise typer.Exit(PolicyError.exit_code)
    if not good:
        raise typer.Exit(GoalMissed.exit_code)


def _checked(path: Path, ordered: Sequence[str]) -> dict[str, Any]:
    try:
        policy = read_policy(path)
    except PolicyError as error:
        return {
            "file": str(path),
            "ok": False,
            "error": {"message": str(error), **error.facts()},
            "warnings": [],
        }
    except PenstockError as error:
        return {"file": str(path), "ok": False, "error": {"message": str(error)}, "warnings": []}
    return {
        "file": str(path),
        "ok": True,
        "name": policy.name,
        "levels": policy.highest,
        "filters": sum(map(len, policy.levels)),
        "warnings": lint(policy, ordered=ordered),
    }


def _show_checked(result: dict[str, Any]) -> None:
    if not result["ok"]:
        complain(result["error"]["message"])
        return
    named = f" ({result['name']})" if result["name"] else ""
    size = f"{counted(result['levels'], 'level')}, {counted(result['filters'], 'filter')}"
    print_text(printable(f"{result['file']}: fine{named}: {size}"))
    for warning in result["warnings"]:
        warn(f"{result['file']}: {warning}")


@app.command("explain")
def explain_(file: PolicyFile, as_json: JsonFlag = False) -> None:
    """Explain in plain words what a policy does, level by level."""
    policy = read_policy(file)
    lines = explain(policy)
    if as_json:
        print_json({"policy": policy.name, "lines": lines, "warnings": lint(policy)})
        return
    for line in lines:
        print_text(printable(line))
    for warning in lint(policy):
        warn(warning)


class Form(Enum):
    """The forms of a policy."""

    YAML = "yaml"
    XML = "xml"
    JSON = "json"
    PYTHON = "python"


_WRITERS = {
    Form.YAML: forms.to_yaml,
    Form.XML: forms.to_xml,
    Form.JSON: forms.to_json,
    Form.PYTHON: forms.to_python,
}


@app.command()
def convert(
    file: PolicyFile,
    to: Annotated[Form, typer.Option("--to", help="The form to write.")],
    out_file: Annotated[
        Path | None, typer.Option("--out", help="File to write, instead of standard output.")
    ] = None,
) -> None:
    """Convert a policy into another form, without loss."""
    text = _WRITERS[to](read_policy(file))
    if out_file is None:
        print_text(text)
    elif to is Form.YAML:
        write_yaml(out_file, text, "policy")
    else:
        write_text(out_file, text if text.endswith("\n") else text + "\n")


@app.command()
def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")] = Path("policy.yaml"),
) -> None:
    """Write a policy to start from, and beside it the JSON Schema by which editors check it."""
    begin_file(file, POLICY, "policy")
    print_text(printable(f"{file}: written; `penstock policy explain {file}` says what it does"))


@app.command()
def schema() -> None:
    """Print the JSON Schema of policies, for editors."""
    print_json(json_schema("policy"))


@app.command("try")
def try_(
    file: PolicyFile,
    events: Annotated[
        Path,
        typer.Option(
            "--events",
            help="JSON lines: payloads, or envelopes (topic, ts, payload, properties); - for standard input.",
        ),
    ],
    level: Annotated[
        int | None,
        typer.Option("--level", min=0, help="The level to pack at; if omitted, the highest."),
    ] = None,
    now: Annotated[
        int | None,
        typer.Option("--now", help="Time of the pack in µs, for `older`; if omitted, the newest event's."),
    ] = None,
    worst_case: Annotated[bool, typer.Option("--worst-case", help="Show the worst case instead.")] = False,
    drain: Annotated[
        str | None,
        typer.Option(
            "--drain",
            metavar="RATE",
            help="Events come at their own times, and a receiver takes them at this pace: 5/s, 6250B/s.",
        ),
    ] = None,
    capacity: Annotated[
        int,
        typer.Option("--capacity", min=limits.QUEUE_EVENTS_LEAST, help="Items that may wait, with --drain."),
    ] = limits.QUEUE_EVENTS,
    as_json: JsonFlag = False,
) -> None:
    """Pack recorded events as one queue: what is kept, what is digested, which filter did it.

    With --drain the queue packs by itself: when it is full, and before an event waits longer than `fresh`.
    """
    policy = read_policy(file)
    if drain is not None:
        if worst_case or level is not None or now is not None:
            raise typer.BadParameter("--drain: the queue chooses time and level; leave out the others")
        replayed = _Drained(policy, read_events(events), drain_of(drain), capacity)
        print_json(replayed.facts()) if as_json else replayed.show()
        return
    idle = unpaced(policy, reason="all events are packed at once", instead="give a --drain")
    if idle is not None:
        warn(idle)
    recorded = read_events(events)
    if level is not None and level > policy.highest:
        raise InputError(f"--level {level}: the policy has {policy.highest} levels", path=file)
    first, queue = evaluate.ahead(policy, [one.event for one in recorded])
    if worst_case:
        packed = Packed(evaluate.collapse(policy, queue), ())
    else:
        now_us = max((one.event.ts_us for one in recorded), default=0) if now is None else now
        chosen = policy.highest if level is None else level
        packed = evaluate.pack(policy, queue, level=chosen, now_us=now_us)
    packed = Packed([*first, *packed.items], packed.effects)
    if as_json:
        print_json(_tried(packed, recorded))
    else:
        _show_tried(policy, packed, recorded)


class _Drained:
    """Recorded events run through a queue of their own, and what left it."""

    def __init__(self, policy: Policy, recorded: Sequence[RecordedEvent], rate: Drain, capacity: int) -> None:
        self._policy, self._recorded = policy, recorded
        replay = Replay(PackingQueue(policy, QueueOptions(capacity_events=capacity)), rate)
        self._out = replay.collect()
        replay.offer_all([one.event for one in recorded])
        self._found = replay.finish()
        self._waited = {
            id(one.event): at_us - one.event.ts_us
            for one, at_us in zip(recorded, self._found.delivered_us, strict=True)
        }

    def _effects(self) -> list[evaluate.FilterEffect]:
        counts = self._found.statistics.filters
        return [evaluate.FilterEffect(cause, one.seen, one.dropped) for cause, one in counts.items()]

    def facts(self) -> dict[str, Any]:
        """Return the result for --json: as without a drain, and the time of each event and the packs."""
        found = _tried(Packed(self._out, tuple(self._effects())), self._recorded)
        for shown, item in zip(found["items"], self._out, strict=True):
            if isinstance(item, Event):
                shown["waited_us"] = self._waited[id(item)]
        packs = [
            {
                "at_us": pack.at_us,
                "level": pack.level,
                "in_time": pack.in_time,
                "dropped": pack.events_dropped,
            }
            for pack in self._found.packs
        ]
        return {**found, "packs": packs}

    def show(self) -> None:
        """Print tables of what left the queue and of the filters."""
        waited = {key: duration(max(0, us)) for key, us in self._waited.items()}
        title = f"What leaves the queue{_named(self._policy)}"
        _show_items(title, self._out, waited)
        _show_effects(self._effects())
        late = sum(pack.in_time for pack in self._found.packs)
        out.print(
            f"{counted(len(self._found.packs), 'pack')}, {late} of them because an event would wait too long"
        )
        _show_account(self.facts(), len(self._recorded))


@app.command("rollback")
def rollback(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of a control table, as PROJECT/control/policies.")
    ],
    *,
    to: Annotated[
        int | None, typer.Option("--to", metavar="N", min=1, help="Version; the one before if omitted.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Bring an older version of a control table back; nodes take it within seconds.

    What is rolled back is refused from then on: a pipeline that arrives at the same rows publishes nothing.
    """
    from penstock.pipeline.tables.control_tables import roll_back  # noqa: PLC0415  # pyarrow, where it is needed

    made = roll_back(folder, to=to)
    if as_json:
        print_json({"folder": str(folder), "version": made.version, "rows": made.rows, "note": made.note})
        return
    print_text(f"{folder}: version {made.version}, {made.rows:,} rows: {made.note}")


def _tried(packed: Packed, recorded: Sequence[RecordedEvent]) -> dict[str, Any]:
    lines = {id(one.event): one.line for one in recorded}
    digests = [item for item in packed.items if isinstance(item, Digest)]
    return {
        "items": [
            {"digest": to_json(item)} if isinstance(item, Digest) else {"event": lines[id(item)]}
            for item in packed.items
        ],
        "kept": len(packed.items) - len(digests),
        "digested": sum(digest.count for digest in digests),
        "filters": [
            {
                "level": effect.cause.level,
                "position": effect.cause.position,
                "filter": effect.cause.filter,
                "seen": effect.seen,
                "dropped": effect.dropped,
            }
            for effect in packed.effects
        ],
    }


def _show_tried(policy: Policy, packed: Packed, recorded: Sequence[RecordedEvent]) -> None:
    _show_items(f"The queue after packing{_named(policy)}", packed.items, None)
    _show_effects(packed.effects)
    _show_account(_tried(packed, recorded), len(recorded))


def _show_items(title: str, items: Sequence[Item], waited: dict[int, str] | None) -> None:
    """Print a table of items; with a column of how long events took, if that is known."""
    rows = []
    for item in items:
        took = () if waited is None else (waited.get(id(item), ""),)
        if isinstance(item, Event):
            shown = item.payload.decode("utf-8", "replace")
            rows.append(("event", str(item.seq), *took, shown if len(shown) <= 100 else shown[:99] + "…"))
        elif isinstance(item, Digest):
            rows.append(("digest", f"{item.seq_first}–{item.seq_last}", *took, summary(item)))
    columns = ("item", "seq", *(() if waited is None else ("after",)), "content")
    print_table(title, columns, rows)


def _show_effects(effects: Sequence[evaluate.FilterEffect]) -> None:
    if effects:
        counts = [
            (
                str(effect.cause.level),
                effect.cause.filter,
                str(effect.seen),
                str(effect.dropped),
                _share(effect),
            )
            for effect in effects
        ]
        print_table("Filters", ("level", "filter", "seen", "dropped", "share"), counts)


def _show_account(found: dict[str, Any], total: int) -> None:
    balance = "=" if found["kept"] + found["digested"] == total else "≠"
    out.print(f"kept {found['kept']} + digested {found['digested']} {balance} {total} events")


def _named(policy: Policy) -> str:
    return f" by '{policy.name}'" if policy.name else ""


def _share(effect: evaluate.FilterEffect) -> str:
    return f"{effect.dropped / effect.seen:.1%}" if effect.seen else "–"


def summary(digest: Digest) -> str:
    """Return a digest in one line."""
    parts = [f"{digest.count} dropped"]
    for name, facts in to_json(digest)["attributes"].items():
        known = ", ".join(f"{what} {_short(value)}" for what, value in facts.items() if what != "n")
        parts.append(f"{name}: {known}" if known else f"{name}: nothing readable")
    causes = ", ".join(f"{cause} {count}" for cause, count in digest.causes)
    return "; ".join([*parts, f"by {causes}"])


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return " ".join(f"{key}→{_short(found)}" for key, found in value.items())
    return str(value)
