"""A JSON document as lines: one line per value with its path; the order of names does not matter.

An element of an array is named by its id, key or name if it has one, so that a new one at the front does not
rename the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock import limits
from penstock.core.channels.difference.content import ContentLines
from penstock.core.channels.difference.rules import compiled_jsonpath
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from penstock.core.channels.difference.rules import Rules

_CALLED: Final = ("id", "key", "name", "title", "slug")
_NAME_CHARS: Final = 60


def document(text: str) -> Any:
    """Parse JSON; ChannelError if it is invalid."""
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise ChannelError(f"the body is not JSON: {error}") from None


def json_lines(root: Any, rules: Rules) -> ContentLines:
    """One line per value that the rules select."""
    gone = {path for text in rules.exclude_jsonpath for path, _ in compiled_jsonpath(text)(root)}
    found = ContentLines()
    if not rules.jsonpath:
        _walk(root, "", "$", found, gone=gone)
    for place, text in enumerate(rules.jsonpath):
        matches = list(compiled_jsonpath(text)(root))
        if not matches:
            raise ChannelError(f"rules.jsonpath[{place}]: {text!r} finds nothing in the document")
        for path, value in matches:
            _walk(value, "", path, found, gone=gone)
    return found


def _walk(root: Any, name: str, path: str, found: ContentLines, *, gone: set[str]) -> None:
    """Depth first, without recursion; `path` is in JSONPath syntax, to recognise excluded values."""
    stack: list[tuple[Any, str, str, str, int]] = [(root, name, name, path, 0)]
    while stack:
        value, called, place, where, depth = stack.pop()
        if gone and where in gone:
            continue
        if depth > limits.DOCUMENT_DEPTH:
            raise ChannelError(f"the document is nested deeper than {limits.DOCUMENT_DEPTH} levels")
        if len(called) > limits.LINE_CHARS // 2:
            called = "…" + called[-limits.LINE_CHARS // 4 :]
        if isinstance(value, dict) and value:
            for key in sorted(value, reverse=True):
                joint = "." if called else ""
                exact = f"{where}[{_quoted(key)}]" if gone else where
                stack.append(
                    (
                        value[key],
                        f"{called}{joint}{key}",
                        f"{place}.{key}"[-limits.PLACE_CHARS :],
                        exact,
                        depth + 1,
                    )
                )
        elif isinstance(value, list) and value:
            for index in range(len(value) - 1, -1, -1):
                exact = f"{where}[{index}]" if gone else where
                stack.append(
                    (value[index], f"{called}[{_called(value[index])}]", f"{place}[]", exact, depth + 1)
                )
        else:
            said = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            found.add(f"{called}: {said}" if called else said, place)


def _called(element: Any) -> str:
    if isinstance(element, dict):
        for key in _CALLED:
            name = element.get(key)
            if isinstance(name, (str, int)) and not isinstance(name, bool):
                return str(name)[:_NAME_CHARS]
    return ""


def _quoted(key: str) -> str:
    return "'" + key.replace("\\", "\\\\").replace("'", "\\'") + "'"
