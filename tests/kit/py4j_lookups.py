"""Remembers what Py4J looks up in the JVM: a third of its calls ask for classes and methods asked for before.

A query of some rows is built by thousands of calls, and each `col(…)` looks for its class, on the path of all
jars, and for its method. Neither can change while a JVM runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass, JavaMember, JVMView  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable


def remember_lookups() -> None:
    """From now on this process asks once for each class and each method."""
    for asked, kept in ((JVMView, JavaClass), (JavaClass, JavaMember)):
        asked.__getattr__ = _remembering(asked.__getattr__, kept)


def _remembering(look_up: Callable[[Any, str], Any], kept: type) -> Callable[[Any, str], Any]:
    def found(owner: Any, name: str) -> Any:
        known = owner.__dict__.setdefault("_penstock_found", {})
        if name not in known:
            answer = look_up(owner, name)
            if not isinstance(answer, kept):  # a package, which may get classes, or a value
                return answer
            known[name] = answer
        return known[name]

    return found
