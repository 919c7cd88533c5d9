"""Kinds of filter parameters: what may be written, the value it becomes, and its JSON Schema."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, field, fields
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, cast

import re2

from penstock import limits
from penstock.errors import PolicyError
from penstock.model.instant import HOUR_US, to_us, written, written_us
from penstock.model.values import INT64_LEAST, INT64_MOST, Scalar, identity
from penstock.policy import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from dataclasses import Field


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ParamKind:
    """A kind of parameter."""

    name: str
    """Name shown to users: what to write."""
    parse: Callable[[object], Any]
    """Convert what was written; PolicyError says what is wrong."""
    schema: Mapping[str, Any]
    is_list: bool = False

    @property
    def is_text(self) -> bool:
        """Whether only a text is accepted."""
        return self.schema.get("type") == "string" or "enum" in self.schema


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a filter, as listed in the catalogue."""

    name: str
    kind: ParamKind
    doc: str
    required: bool
    default: Any
    aliases: tuple[str, ...]


def param(kind: ParamKind, doc: str, *, default: Any = MISSING, aliases: tuple[str, ...] = ()) -> Any:
    """Declare a dataclass field as a parameter of a filter."""
    return field(default=default, metadata={"kind": kind, "doc": doc, "aliases": aliases})


def params_of(node: type) -> tuple[Param, ...]:
    """Parameters of a filter class in order; the short form of the filter gives the first."""
    return tuple(_param(found) for found in fields(node))


def _param(found: Field[Any]) -> Param:
    required = found.default is MISSING
    meta = found.metadata
    default = None if required else found.default
    return Param(found.name, meta["kind"], meta["doc"], required, default, meta["aliases"])


def _number(raw: object) -> int | float:
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        raise PolicyError(f"expected a number, found {shown(raw)}")
    if isinstance(raw, int) and not INT64_LEAST <= raw <= INT64_MOST:
        raise PolicyError(f"expected a number of at most 64 bits, found one of {raw.bit_length() + 1}")
    if not isfinite(raw):
        raise PolicyError(f"expected a finite number, found {raw!r}")
    return raw


def _positive(raw: object) -> int | float:
    found = _number(raw)
    if found <= 0:
        raise PolicyError(f"expected a number above 0, found {raw!r}")
    return found


def _count(raw: object) -> int:
    found = _number(raw)
    if found != int(found) or found < 1:
        raise PolicyError(f"expected a whole number of at least 1, found {raw!r}")
    return int(_number(int(found)))


def _fraction(raw: object) -> int | float:
    """A share between 0 and 1; also `10%`, as the paper and XML write it."""
    if isinstance(raw, str) and raw.endswith("%"):
        try:
            raw = float(raw[:-1]) / 100
        except ValueError:
            raise PolicyError(f"expected a share like 0.1 or 10%, found {shown(raw)}") from None
    found = _number(raw)
    if not 0 <= found <= 1:
        raise PolicyError(f"expected a share between 0 and 1, found {shown(raw)}")
    return found


def _share(raw: object) -> float:
    """A share above 0, at most 1; also `10%`."""
    try:
        found = float(_fraction(raw))
    except PolicyError:
        found = 0.0
    if not found:
        raise PolicyError(
            f"expected a share above 0 and not above 1, found {shown(raw)}", allowed="0.1 or 10%, up to 1"
        )
    return found


def _duration(raw: object) -> int:
    """Microseconds of a time such as `500ms` or `1s`; a plain number is seconds."""
    is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
    found = written_us(raw) if isinstance(raw, str) else to_us(_number(raw)) if is_number else None
    if found is None:
        raise PolicyError(f"expected a time like 500ms, 1s or 2min, found {shown(raw)}", allowed=_DURATIONS)
    return check_duration(found, shown=shown(raw))


_DURATIONS: Final = f"{written(limits.FRESH_LEAST_US)} to {limits.FRESH_MOST_US // HOUR_US}h"


def check_duration(us: int, *, shown: str) -> int:
    """Return a duration in microseconds; PolicyError if it is out of bounds."""
    if not limits.FRESH_LEAST_US <= us <= limits.FRESH_MOST_US:
        raise PolicyError(f"expected a time above 0 and not above a day, found {shown}", allowed=_DURATIONS)
    return us


def _seed(raw: object) -> int:
    found = _number(raw)
    if found != int(found):
        raise PolicyError(f"expected a whole number, found {raw!r}")
    return int(_number(int(found)))


def _scalar(raw: object) -> Scalar:
    if isinstance(raw, str):
        return _text(raw)
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, int | float):
        return _number(raw)
    raise PolicyError(f"expected a number, a text or true/false, found {shown(raw)}")


def _ordered(raw: object) -> float | str:
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise PolicyError(f"expected a number or a text, found {shown(raw)}")
    return cast("float | str", _scalar(raw))


def _scalars(raw: object) -> tuple[Scalar, ...]:
    """A set of values in the order written; repeated values count once."""
    members = list(raw) if isinstance(raw, list | tuple | set | frozenset) else [raw]
    if not members:
        raise PolicyError("expected at least one value, found an empty list")
    if len(members) > limits.SET_VALUES:
        raise PolicyError(f"a list of {len(members)} values; at most {limits.SET_VALUES}")
    found = (_member(place, member) for place, member in enumerate(members))
    return tuple({identity(member): member for member in found}.values())


def _member(place: int, raw: object) -> Scalar:
    try:
        return _scalar(raw)
    except PolicyError as error:
        raise error.inside(f"[{place}]") from None


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise PolicyError(f"expected a text, found {shown(raw)}")
    if len(raw) > limits.TEXT_PARAMETER:
        raise PolicyError(f"a text of {len(raw)} characters; at most {limits.TEXT_PARAMETER}")
    check_characters(raw)
    return raw


def check_characters(text: str) -> None:
    """Raise PolicyError if a text cannot be encoded as UTF-8, as every form of a policy is."""
    if not text.isascii() and _SURROGATE.search(text):
        raise PolicyError(f"half a surrogate pair is not a character: {shown(text)}")


def regex(pattern: str) -> re2._Regexp:
    """Compile a pattern with RE2, in bounded memory: matching takes linear time for every pattern."""
    options = re2.Options()
    options.max_mem = limits.PATTERN_MEMORY
    options.log_errors = False
    return re2.compile(pattern, options=options)


def _pattern(raw: object) -> str:
    pattern = _text(raw)
    if len(pattern.encode("utf-8", "surrogatepass")) > limits.PATTERN_BYTES:
        raise PolicyError(f"a pattern of over {limits.PATTERN_BYTES} bytes")
    try:
        regex(pattern)
    except (re2.error, UnicodeEncodeError) as error:
        raise PolicyError(
            f"the pattern {pattern!r} is not accepted: {_reason(error)}",
            allowed="RE2 syntax (no back-references, no look-around)",
        ) from None
    return pattern


def _reason(error: Exception) -> str:
    found = error.args[0] if error.args else error
    return found.decode() if isinstance(found, bytes) else str(found)


def _path(raw: object) -> str:
    found = paths.parse(raw).text
    check_characters(found)
    return found


def choice(*options: str) -> ParamKind:
    """A kind that accepts one of a few words."""

    def parse(raw: object) -> str:
        if raw not in options:
            raise PolicyError(f"found {shown(raw)}", allowed=" or ".join(options))
        return str(raw)

    return ParamKind(" or ".join(options), parse, {"enum": list(options)})


def shown(raw: object) -> str:
    """The value for an error message: shortened, and safe to print."""
    if isinstance(raw, dict):
        return "a mapping"
    if isinstance(raw, list | tuple):
        return "a list"
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, str) and len(raw) > 60:
        return f"{raw[:60]!r}… ({len(raw)} characters)"
    return "nothing" if raw is None else repr(raw)


_SCALAR_SCHEMA: Final = {"type": ["number", "string", "boolean"]}

POSITIVE: Final = ParamKind("number > 0", _positive, {"type": "number", "exclusiveMinimum": 0})
COUNT: Final = ParamKind("whole number ≥ 1", _count, {"type": "integer", "minimum": 1})
FRACTION: Final = ParamKind(
    "share 0…1",
    _fraction,
    {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "pattern": "%$"}]},
)
DURATION: Final = ParamKind(
    "time such as 1s",
    _duration,
    {
        "anyOf": [
            {"type": "string", "pattern": r"^[0-9]{1,15}(\.[0-9]{1,9})? ?(ms|s|min|h|d)$"},
            {"type": "number", "exclusiveMinimum": 0, "maximum": limits.FRESH_MOST_US / 1_000_000},
        ]
    },
)
SHARE: Final = ParamKind(
    "share above 0",
    _share,
    {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            {"type": "string", "pattern": "%$"},
        ]
    },
)
SEED: Final = ParamKind("whole number", _seed, {"type": "integer"})
SCALAR: Final = ParamKind("number, text or true/false", _scalar, _SCALAR_SCHEMA)
ORDERED: Final = ParamKind("number or text", _ordered, {"type": ["number", "string"]})
SCALARS: Final = ParamKind(
    "list of values",
    _scalars,
    {
        "anyOf": [
            _SCALAR_SCHEMA,
            {"type": "array", "items": _SCALAR_SCHEMA, "minItems": 1, "maxItems": limits.SET_VALUES},
        ]
    },
    is_list=True,
)
PATTERN: Final = ParamKind("RE2 pattern", _pattern, {"type": "string", "maxLength": limits.PATTERN_BYTES})
PATH: Final = ParamKind(
    "attribute path", _path, {"type": "string", "minLength": 1, "maxLength": limits.PATH_CHARACTERS}
)
