"""A pipeline's project: a folder with a specification for Spark, the definitions of its tables and settings.

DIR/spark-pipeline.yml         for `spark-pipelines run`
DIR/transformations/tables.py  the tables, one function each; yours to change
DIR/settings.yml               where the recordings are, the policy, what is advised
DIR/policy.yaml                the policy that packs the recorded events
DIR/conf/spark-defaults.conf   the catalog: tables survive the end of a run
DIR/tables, DIR/storage        files of the tables; what has been read (checkpoints)
DIR/control                    control tables, which nodes follow
DIR/advice.json                policies that were advised
DIR/runs.jsonl                 what each run did
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from penstock import limits
from penstock.core.channels.allocation import Scheme
from penstock.errors import InputError, PolicyError
from penstock.model.instant import to_us
from penstock.pipeline.project.catalogue import RECORDED
from penstock.policy.predicates import predicate
from penstock.policy.text.forms import parse

if TYPE_CHECKING:
    from penstock.policy.nodes import Policy
    from penstock.policy.predicates import Predicate

SETTINGS: Final = "settings.yml"
SPECIFICATION: Final = "spark-pipeline.yml"
PLAIN_FILES: Final = ("parquet", "orc")
"""Formats whose tables are the files in their folders, and nothing else."""

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=10**9)]


class AllocationSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How polls are shared out, as in the section `channels` of a node."""

    scheme: Literal["lite", "fast", "fair", "fair-sqrt", "fair-log"] = "lite"
    interval_s: _Seconds = 1_800
    """The maintenance interval; budgets count polls within it."""
    least_s: _Seconds = 60
    """Shortest time between two polls of a channel."""
    most_s: _Seconds = 86_400
    """Longest time between two polls of a channel."""
    target_s: _Seconds = 30
    """Mean delay to reach, for the scheme `fast`."""
    polls_per_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Polls of all nodes together; 0: as many as each channel's subscribers would make on their own."""


class AdviceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A class of receivers whose policy is advised."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    """Name of the class, and of its policy."""
    attributes: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=16)]
    """Attributes of the payload that the receivers look at."""
    client: str = "*"
    """Client identifiers of the receivers; * and ? match."""
    filter: str = "#"
    """Topic filter: the events they get, and their subscriptions."""
    budget: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.3
    """Share of the events that the highest level may keep."""
    matters: Annotated[tuple[str, ...], msgspec.Meta(max_length=16)] = ()
    """What the receivers must not miss, as `pulse > 120` or `state in [lost, late]`; empty: numbers outside
    their normal range."""

    def predicates(self) -> tuple[Predicate, ...]:
        """Parse what matters; a text without an attribute is about the first. PolicyError if it is wrong."""
        return tuple(predicate(text, attribute=self.attributes[0]) for text in self.matters)


class PipelineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of settings.yml; paths are relative to the project's folder."""

    data: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=1_000)]
    """Data folders of the nodes whose recordings are read."""
    recorded: str = "recorded"
    """Folder of events below a data folder: the nodes' `recorder.folder`."""
    policy: str = "policy.yaml"
    """Policy that packs the recorded events."""
    key: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("topic",)
    """Columns of events that name a queue."""
    capacity: Annotated[int, msgspec.Meta(ge=limits.QUEUE_EVENTS_LEAST)] = limits.QUEUE_EVENTS
    """Events of a queue that a run takes before they are packed."""
    days: Annotated[int, msgspec.Meta(ge=1, le=3_660)] = 7
    """Days of events, up to the newest, that flows, effects and advice are made from."""
    format: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")] = "parquet"
    """Format of the tables: `parquet`, `orc`, or one that Spark has a library for, as `delta`, `iceberg`."""
    control: str = "control"
    """Folder of the control tables."""
    allocation: AllocationSettings = AllocationSettings()
    advise: tuple[AdviceSettings, ...] = ()


@dataclass(frozen=True, slots=True)
class Project:
    """A pipeline's folder and its settings."""

    folder: Path
    settings: PipelineSettings

    @property
    def identifier(self) -> str:
        """Twelve hexadecimal digits that name this pipeline in recorders' folders."""
        return sha256(str(self.folder).encode()).hexdigest()[:12]

    @property
    def database(self) -> str:
        """Name of the database of its tables on a server that has other tables, too."""
        return f"penstock_{self.identifier}"

    @property
    def control(self) -> Path:
        """Folder of the control tables."""
        return self.folder / self.settings.control

    def sources(self, kind: str) -> list[Path]:
        """Folders in which nodes record rows of a kind."""
        assert kind in RECORDED
        name = self.settings.recorded if kind == "events" else kind
        return [(self.folder / data / name).resolve() for data in self.settings.data]

    def policy(self) -> Policy:
        """The policy that packs the events."""
        path = self.folder / self.settings.policy
        return parse(_read(path, limits.POLICY_BYTES), source=str(path))


def open_project(place: str | Path) -> Project:
    """The project at a folder, or the one that a file of definitions belongs to."""
    found = Path(place).resolve()
    folder = found.parent.parent if found.is_file() else found
    path = folder / SETTINGS
    if not path.is_file():
        raise InputError(
            f"no pipeline: there is no {SETTINGS}; `penstock pipeline init` makes one", path=folder
        )
    try:
        settings = msgspec.yaml.decode(_read(path, limits.CONFIG_BYTES), type=PipelineSettings)
    except msgspec.DecodeError as error:  # a ValidationError, too
        raise InputError(told(error), path=path) from None
    names = [one.name for one in settings.advise]
    if len(set(names)) < len(names):
        raise InputError(f"advise: duplicate name; the names are {', '.join(names)}", path=path)
    for one in settings.advise:
        try:
            one.predicates()
        except PolicyError as error:
            raise InputError(f"advise: {one.name}: matters: {error}", path=path) from None
    own = settings.allocation
    if own.least_s > own.most_s:
        raise InputError(
            f"allocation: least_s {own.least_s:g} is longer than most_s {own.most_s:g}", path=path
        )
    return Project(folder, settings)


def told(error: msgspec.DecodeError) -> str:
    """What is wrong with a file in YAML, and in which line, if it is not YAML at all."""
    cause = error.__cause__ or error.__context__
    mark = getattr(cause, "problem_mark", None)
    if mark is None:
        return str(error)
    return f"line {mark.line + 1}: not YAML: {getattr(cause, 'problem', cause)}"


def _read(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            found = file.read(most + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from None
    if len(found) > most:
        raise InputError(f"is larger than {most} bytes", path=path)
    return found


def scheme_of(own: AllocationSettings) -> tuple[Scheme, int | None]:
    """The scheme, and the delay it has to reach in microseconds."""
    scheme = Scheme(own.scheme)
    return scheme, to_us(own.target_s) if scheme.has_target else None
