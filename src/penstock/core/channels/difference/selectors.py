"""CSS, XPath and JSONPath, compiled once and kept from running away.

Selectors come from whoever adds a channel, pages from anybody. What neither may do is keep a node busy: XPath
has no regular expressions here, few steps that look at the whole tree, and JSONPath no patterns at all.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from penstock import limits
from penstock.core.channels.difference.libraries import library
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WIDE: Final = re.compile(r"//|(?:following|preceding|descendant(?:-or-self)?)\s*::")
_QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
_BUSY_CSS: Final = re.compile(r":(?:has|not|is|where|matches|nth-[a-z-]+)\(|~|\+")


@lru_cache(maxsize=1_024)
def compiled_css(text: str) -> Callable[[Any], list[Any]]:
    """Elements of a tree by CSS."""
    _check_length(text)
    cssselect = library("cssselect")
    if len(_BUSY_CSS.findall(_QUOTED.sub("", text))) > limits.SELECTOR_WIDE_STEPS:
        raise ChannelError(
            f"the selector {text!r} has over {limits.SELECTOR_WIDE_STEPS} of :has() :not() :nth-…() ~ +: "
            "write several selectors"
        )
    try:
        xpath = cssselect.HTMLTranslator().css_to_xpath(text)
    except (cssselect.SelectorError, RecursionError, ValueError) as error:
        raise ChannelError(f"{text!r} is no CSS selector: {error}") from None
    return _xpath(xpath, text)


@lru_cache(maxsize=1_024)
def compiled_xpath(text: str) -> Callable[[Any], list[Any]]:
    """Elements, texts and attributes of a tree by XPath 1.0."""
    _check_length(text)
    if len(_WIDE.findall(_QUOTED.sub("", text))) > limits.SELECTOR_WIDE_STEPS:
        raise ChannelError(
            f"the XPath {text!r} has over {limits.SELECTOR_WIDE_STEPS} steps such as // that look "
            "at the whole page: name a shorter way"
        )
    return _xpath(text, text)


def _xpath(xpath: str, text: str) -> Callable[[Any], list[Any]]:
    etree = library("lxml.etree")
    try:
        # Without regexp=False lxml offers re:test(), whose patterns can take for ever.
        run = etree.XPath(xpath, regexp=False)
    except (etree.XPathError, ValueError) as error:
        raise ChannelError(f"{text!r} is no XPath: {error}") from None

    def find(tree: Any) -> list[Any]:
        try:
            found = run(tree)
        except (etree.XPathError, etree.LxmlError) as error:
            raise ChannelError(f"{text!r} cannot be used on this page: {error}") from None
        return found if isinstance(found, list) else [_spoken(found)]

    return find


def _spoken(value: object) -> str:
    """What count(//li) or a comparison gives."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


@lru_cache(maxsize=1_024)
def compiled_jsonpath(text: str) -> Callable[[Any], Iterator[tuple[str, Any]]]:
    """Paths and values of a JSON document by JSONPath (RFC 9535)."""
    _check_length(text)
    jsonpath = library("jsonpath")
    if text.count("..") > limits.SELECTOR_WIDE_STEPS:
        raise ChannelError(f"the JSONPath {text!r} has over {limits.SELECTOR_WIDE_STEPS} steps with '..'")
    try:
        run = _jsonpath_environment().compile(text)
    except (jsonpath.JSONPathError, RecursionError, ValueError) as error:
        raise ChannelError(f"{text!r} is no JSONPath: {error}") from None

    def find(root: Any) -> Iterator[tuple[str, Any]]:
        try:
            for number, match in enumerate(run.finditer(root)):
                if number >= limits.CONTENT_LINES:
                    raise ChannelError(f"{text!r} finds over {limits.CONTENT_LINES} values: select fewer")
                yield match.path, match.obj
        except (jsonpath.JSONPathError, RecursionError) as error:
            raise ChannelError(f"{text!r} cannot be used on this document: {error}") from None

    return find


@lru_cache(maxsize=1)
def _jsonpath_environment() -> Any:
    environment = library("jsonpath").JSONPathEnvironment(strict=True)
    for name in ("match", "search"):  # patterns that can take for ever
        environment.function_extensions.pop(name, None)
    environment.max_recursion_depth = limits.MARKUP_DEPTH
    return environment


def _check_length(text: str) -> None:
    if not text.strip():
        raise ChannelError("the selector is empty")
    if len(text) > limits.SELECTOR_CHARS:
        raise ChannelError(f"a selector of {len(text)} characters; at most {limits.SELECTOR_CHARS}")
