"""A self-contained HTML page: tables and pictures in one file that can be sent to someone.

It follows the light or dark colours of the reader, and never has to be moved sideways: on a narrow screen
each row of a table becomes a block with the names of its cells.
"""

from __future__ import annotations

from base64 import b64encode
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

_STYLE: Final = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b242d; --soft: #566370; --line: #dde3e8;
  --wash: #f3f6f8;
  --accent: #17647f; --good: #1a7f37; --bad: #c02626; --ours: #17647f; --other: #b5541c; }
@media (prefers-color-scheme: dark) { :root { --paper: #10171d; --ink: #e5ebf0; --soft: #9aa8b5;
  --line: #2b3742;
  --wash: #1a242d; --accent: #6cc3df; --good: #5ccb8c; --bad: #ff8a80; --ours: #6cc3df; --other: #f0a05a; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, "Segoe UI", Roboto, sans-serif; max-width: 62rem; margin: 0 auto;
  padding: 1.6rem 1.2rem 4rem;
  background: var(--paper); color: var(--ink); overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .2rem 0 .6rem; } h2 { font-size: 1.15rem;
  margin: 2.2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; } p { margin: .5rem 0; } a { color: var(--accent); }
table { border-collapse: collapse; margin: .8rem 0; width: 100%; font-size: .94rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .7rem .35rem 0; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
th { border-bottom: 2px solid var(--accent); } td { border-bottom: 1px solid var(--line); }
.yes { color: var(--good); } .no { color: var(--bad); font-weight: 600; } .note { color: var(--soft);
  font-size: .9em; }
img { max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: 8px; }
pre { background: var(--wash); padding: .7rem .9rem; border-radius: 8px; font-size: .86rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
code { font-size: .92em; overflow-wrap: anywhere; }
details { border: 1px solid var(--line); border-radius: 10px; margin: .6rem 0; padding: 0 1rem; }
details[open] { padding-bottom: .6rem; }
summary { cursor: pointer; padding: .7rem 0; font-weight: 600; } summary small { color: var(--soft);
  font-weight: 400; display: block; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 4px; }
@media (max-width: 44rem) {
  thead { display: none; } tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--line); }
  td { display: block; border: 0; padding: .1rem 0; } td:empty { display: none; }
  td[data-label]::before { content: attr(data-label) ": "; color: var(--soft); }
}
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

    def __init__(self, title: str, *, heading: str = "", style: str = "") -> None:
        self._title = title
        self._style = _STYLE + style
        self._parts = [f"<h1>{escape(heading or title)}</h1>"]

    def heading(self, text: str) -> None:
        """Begin a section with a heading."""
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str) -> None:
        """Add a paragraph of text."""
        self._parts.append(f"<p>{escape(text)}</p>")

    def code(self, text: str) -> None:
        """Add preformatted text; nothing if there is none."""
        if text:
            self._parts.append(f"<pre>{escape(text)}</pre>")

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a table of texts."""
        self.raw_table([escape(cell) for cell in header], [[escape(cell) for cell in row] for row in rows])

    def picture(self, path: Path) -> None:
        """Add a PNG, embedded in the page."""
        data = b64encode(path.read_bytes()).decode()
        self._parts.append(f'<p><img alt="{escape(path.stem)}" src="data:image/png;base64,{data}"></p>')

    def raw(self, html: str) -> None:
        """Add a piece of HTML as it is."""
        self._parts.append(html)

    def raw_table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a table whose cells are HTML already."""
        head = "".join(f'<th scope="col">{cell}</th>' for cell in header)
        body = "".join(f"<tr>{_cells(header, row)}</tr>\n" for row in rows)
        self._parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>")

    @contextmanager
    def folded(self, title: str, summary: str = "") -> Iterator[None]:
        """Fold what is added meanwhile under a title, with a sentence that is seen when it is closed."""
        small = f"<small>{escape(summary)}</small>" if summary else ""
        self._parts.append(f"<details><summary>{escape(title)}{small}</summary>")
        yield
        self._parts.append("</details>")

    def write(self, path: Path) -> Path:
        """Write the page into a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        head = (
            '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self._title)}</title><style>{self._style}</style>"
        )
        body = "\n".join(self._parts)
        path.write_text(
            f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'
        )
        return path


def _cells(header: Sequence[str], row: Sequence[str]) -> str:
    """Make the cells of a row; all but the first carry the name of their column, for narrow screens."""
    labels = ("", *(f' data-label="{name}"' for name in header[1:]))
    return "".join(f"<td{label}>{cell}</td>" for label, cell in zip(labels, row, strict=True))
