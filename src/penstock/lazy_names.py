"""Names of a package that are imported on first use, so that a program loads only the parts it uses."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_EXTRAS: Final = {"pandas": "spark", "pyarrow": "spark", "pyspark": "spark"}
"""The extra of Penstock that installs a library."""


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose names are in other modules.

    `modules` has the module of each name. A name that was imported once is an attribute of the package. If an
    optional library is missing, the ModuleNotFoundError says how to install it.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            found = getattr(import_module(modules[name]), name)
        except ModuleNotFoundError as error:
            extra = _EXTRAS.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            problem = f"{package}.{name} needs {error.name}: pip install 'penstock[{extra}]'"
            raise ModuleNotFoundError(problem, name=error.name) from error
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, names
