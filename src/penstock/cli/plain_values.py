"""Converts texts, numbers and paths of the command line without pydantic.

Typer builds a pydantic adapter for every parameter, also for one that is not given; importing pydantic takes
twice as long as publishing a message. What is converted here is what cannot be converted differently: texts,
plain numbers within their bounds, paths, and parameters that are not given. Typer converts everything else.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

if TYPE_CHECKING:
    from typer._click.core import Command, Context

_WHOLE: Final = re.compile(r"\d{1,15}", re.ASCII)
_DECIMAL: Final = re.compile(r"\d{1,9}(\.\d{1,6})?", re.ASCII)

_UNKNOWN: Final = object()
"""Stands for a value that Typer has to convert."""


class PlainValues:
    """Converts the values of one parameter; put in the place of Typer's converter."""

    def __init__(self, descriptor: Any) -> None:
        """Keep what Typer knows about the parameter: its annotation, its bounds."""
        self._descriptor = descriptor
        self._several = get_origin(descriptor.annotation) is list
        self._kind = get_args(descriptor.annotation)[0] if self._several else descriptor.annotation

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as its parameter wants it; Typer raises the error for a wrong one."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        found = self._converted(value)
        if found is not _UNKNOWN:
            return found
        from typer._coercion import build_runtime_param  # noqa: PLC0415  # imports pydantic

        return build_runtime_param(self._descriptor).coerce(value, param=param, ctx=ctx)

    def _converted(self, value: Any) -> Any:
        if not self._several:
            return self._one(value)
        found = [self._one(each) for each in value] if isinstance(value, list | tuple) else [_UNKNOWN]
        return _UNKNOWN if _UNKNOWN in found else found

    def _one(self, value: Any) -> Any:
        if self._kind is str:
            return value if isinstance(value, str) else _UNKNOWN
        if self._kind is int:
            return self._within(int(value)) if _WHOLE.fullmatch(str(value)) else _UNKNOWN
        if self._kind is float:
            return self._within(float(value)) if _DECIMAL.fullmatch(str(value)) else _UNKNOWN
        return self._path(value) if self._kind is Path and isinstance(value, str | Path) else _UNKNOWN

    def _path(self, value: str | Path) -> Any:
        """A path of which nothing is asked but that it can be read, if it is there."""
        about = self._descriptor.parameter_info
        special = about.exists or about.resolve_path or about.writable or about.allow_dash or about.path_type
        found = Path(value)
        if special or not about.file_okay or not about.dir_okay:
            return _UNKNOWN
        return found if os.access(found, os.R_OK) or not found.exists() else _UNKNOWN

    def _within(self, number: float) -> Any:
        about = self._descriptor.parameter_info
        small = about.min is not None and number < about.min
        return _UNKNOWN if small or (about.max is not None and number > about.max) else number


def convert_plainly(command: Command, ctx: Context) -> None:
    """Convert the parameters of a command, and of its subcommands, without pydantic where possible."""
    for parameter in command.get_params(ctx):  # --help included, which Typer makes on first use
        descriptor = getattr(parameter, "type_descriptor", None)
        if descriptor is not None and descriptor.parameter_info.parser is None:
            # Typer keeps its converter in this attribute and builds one only if the attribute is empty.
            setattr(parameter, "_runtime_param", PlainValues(descriptor))  # noqa: B010  # not in its type
    for each in getattr(command, "commands", {}).values():
        convert_plainly(each, ctx)
