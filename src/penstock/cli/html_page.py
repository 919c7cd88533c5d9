"""A self-contained HTML page: tables and pictures in one file that can be sent to someone."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; margin: .8rem 0; } th, td { padding: .3rem .7rem; text-align: left; }
th { border-bottom: 2px solid #1f6f8b; } td { border-bottom: 1px solid #ddd; vertical-align: top; }
.yes { color: #1a7f37; } .no { color: #c5221f; font-weight: 600; } .note { color: #666; font-size: .9em; }
img { max-width: 100%; } pre { background: #f4f6f7; padding: .6rem .8rem; }
"""


@dataclass(frozen=True, slots=True)
class Table:
    """All measured figures, beside the rows."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """Rows, at least one; its keys are the header."""
        rows = found["rows"]
        return cls(found["title"], tuple(rows[0]), tuple(tuple(row.values()) for row in rows))


class Page:
    """An HTML page, written from top to bottom."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts = [f"<h1>{escape(title)}</h1>"]

    def heading(self, text: str) -> None:
        """Begin a section with a heading."""
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str) -> None:
        """Add a paragraph of text."""
        self._parts.append(f"<p>{escape(text)}</p>")

    def code(self, text: str) -> None:
        """Add preformatted text."""
        self._parts.append(f"<pre>{escape(text)}</pre>")

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a table of texts."""
        self.raw_table([escape(cell) for cell in header], [[escape(cell) for cell in row] for row in rows])

    def picture(self, path: Path) -> None:
        """Add a PNG, embedded in the page."""
        data = b64encode(path.read_bytes()).decode()
        self._parts.append(f'<p><img alt="{escape(path.stem)}" src="data:image/png;base64,{data}"></p>')

    def raw_table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a table whose cells are HTML already."""
        head = "".join(f"<th>{cell}</th>" for cell in header)
        body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
        self._parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>")

    def write(self, path: Path) -> Path:
        """Return the whole page as HTML."""
        path.parent.mkdir(parents=True, exist_ok=True)
        head = f'<meta charset="utf-8"><title>{escape(self._title)}</title><style>{_STYLE}</style>'
        body = "\n".join(self._parts)
        path.write_text(
            f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'
        )
        return path
