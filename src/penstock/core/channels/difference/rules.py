"""Rules of a watcher: which parts of a page count, which patterns are ignored, when a change is reported.

Selectors (CSS, XPath, JSONPath) are compiled once. They come from users and pages come from anywhere, so
neither may keep a node busy: XPath has no regular expressions here and few steps over the whole tree, and
JSONPath has no patterns.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from xxhash import xxh3_64_intdigest

from penstock import limits
from penstock.core.channels.difference.content import library
from penstock.errors import ChannelError, PolicyError
from penstock.policy import params

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_WIDE: Final = re.compile(r"//|(?:following|preceding|descendant(?:-or-self)?)\s*::")
_QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
_SIDEWAYS: Final = re.compile(
    r"((?:following|preceding)(?:-sibling)?)\s*::\s*[^/\[\]()|]*(?:\(\s*\))?\s*(\[\s*\d+\s*\])?"
)
"""Steps to what stands before or after, and whether a number bounds them."""
_BUSY_CSS: Final = re.compile(r":(?:has|not|is|where|matches|nth-[a-z-]+)\(|~|\+")


@lru_cache(maxsize=1_024)
def compiled_css(text: str) -> Callable[[Any], list[Any]]:
    """Compile a CSS selector."""
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
        raise ChannelError(f"{text!r} is not a CSS selector: {error}") from None
    return _xpath(xpath, text)


@lru_cache(maxsize=1_024)
def compiled_xpath(text: str) -> Callable[[Any], list[Any]]:
    """Compile an XPath 1.0 expression for elements, texts and attributes."""
    _check_length(text)
    if len(_WIDE.findall(_QUOTED.sub("", text))) > limits.SELECTOR_WIDE_STEPS:
        raise ChannelError(
            f"the XPath {text!r} has over {limits.SELECTOR_WIDE_STEPS} steps such as // that look "
            "at the whole page: use a more direct path"
        )
    _check_sideways(text)
    return _xpath(text, text)


def _check_sideways(text: str) -> None:
    """Refuse a path from every element to all of its neighbours.

    libxml2 merges what it finds from each: `//p/following-sibling::p` takes 29 s for 5,000 paragraphs.
    """
    bare = _QUOTED.sub("''", text)
    for step in _SIDEWAYS.finditer(bare):
        before = bare[: step.start()]
        is_predicate = before.count("[") > before.count("]")  # it ends with the first that is found
        is_narrowed = before.rstrip().removesuffix("/").rstrip().endswith(("]", ")"))
        if not (is_predicate or is_narrowed or step.group(2)):
            raise ChannelError(
                f"the XPath {text!r} goes from every element to all its neighbours: bound it as "
                f"{step.group(1)}::…[1], or narrow the step before it as h2[.='Prices']/{step.group(1)}::…"
            )


def _xpath(xpath: str, text: str) -> Callable[[Any], list[Any]]:
    etree = library("lxml.etree")
    try:
        # Without regexp=False lxml offers re:test(), whose patterns may take exponential time.
        run = etree.XPath(xpath, regexp=False)
    except (etree.XPathError, ValueError) as error:
        raise ChannelError(f"{text!r} is not an XPath expression: {error}") from None

    def find(tree: Any) -> list[Any]:
        try:
            found = run(tree)
        except (etree.XPathError, etree.LxmlError) as error:
            raise ChannelError(f"{text!r} cannot be used on this page: {error}") from None
        return found if isinstance(found, list) else [_spoken(found)]

    return find


def _spoken(value: object) -> str:
    """Result of an expression that is not a node, such as count(//li), as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


@lru_cache(maxsize=1_024)
def compiled_jsonpath(text: str) -> Callable[[Any], Iterator[tuple[str, Any]]]:
    """Compile a JSONPath (RFC 9535); yields paths and values."""
    _check_length(text)
    jsonpath = library("jsonpath")
    if text.count("..") > limits.SELECTOR_WIDE_STEPS:
        raise ChannelError(f"the JSONPath {text!r} has over {limits.SELECTOR_WIDE_STEPS} steps with '..'")
    try:
        run = _jsonpath_environment().compile(text)
    except (jsonpath.JSONPathError, RecursionError, ValueError) as error:
        raise ChannelError(f"{text!r} is not a JSONPath: {error}") from None

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
    for name in ("match", "search"):  # their patterns may take exponential time
        environment.function_extensions.pop(name, None)
    environment.max_recursion_depth = limits.DOCUMENT_DEPTH
    return environment


def _check_length(text: str) -> None:
    if not text.strip():
        raise ChannelError("the selector is empty")
    if len(text) > limits.SELECTOR_CHARS:
        raise ChannelError(f"a selector of {len(text)} characters; at most {limits.SELECTOR_CHARS}")


NOISE: Final = ("clocks", "moving", "rotating", "ads")
"""Kinds of noise that are left out unless a rule says otherwise."""


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one channel is read and compared."""

    css: tuple[str, ...] = ()
    """HTML: only elements these selectors find; with several, all of them in page order."""
    xpath: tuple[str, ...] = ()
    """HTML: only nodes these expressions find, in addition to `css`."""
    jsonpath: tuple[str, ...] = ()
    """JSON: only values these expressions find."""
    exclude_css: tuple[str, ...] = ()
    """HTML: elements to leave out."""
    exclude_xpath: tuple[str, ...] = ()
    exclude_jsonpath: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    """Lines in which one of these RE2 patterns matches are left out."""
    noise: tuple[str, ...] = NOISE
    """Kinds of noise to leave out: clocks, moving, rotating, ads."""
    only_additions: bool = False
    """Removed lines alone are not a change."""
    compare_last: int = 1
    """Content equal to one of the last `compare_last` versions is not a change: for pages that flap."""
    whole_page: bool = False
    """HTML: include navigation, asides and footers, not only the main content."""
    render: bool = False
    """HTML: run the scripts of the page in a browser, and read what they leave (`channels.browser`)."""

    def reading(self) -> int:
        """Hash of the rules that select lines: contents read by different such rules cannot be compared."""
        selecting = (self.css, self.xpath, self.jsonpath, self.exclude_css, self.exclude_xpath)
        rest = (self.exclude_jsonpath, self.ignore, self.whole_page, "ads" in self.noise)
        # Added only where it is set: versions stored before there was such a rule stay valid.
        rendered = ("render",) if self.render else ()
        return xxh3_64_intdigest(msgspec.msgpack.encode((selecting, (*rest, *rendered))))

    def check(self) -> Rules:
        """Check the rules; ChannelError names the invalid one and its place."""
        for name, compiler in _SELECTORS.items():
            _each(name, getattr(self, name), compiler)
        _each("ignore", self.ignore, pattern)
        for place, kind in enumerate(self.noise):
            if kind not in NOISE:
                raise ChannelError(
                    f"rules.noise[{place}]: unknown kind of noise {kind!r}; allowed: {', '.join(NOISE)}"
                )
        if not 1 <= self.compare_last <= limits.COMPARED_VERSIONS:
            raise ChannelError(
                f"rules.compare_last: {self.compare_last} versions; allowed: 1 to {limits.COMPARED_VERSIONS}"
            )
        return self


def rules_of(raw: object) -> Rules:
    """Rules from configuration or the JSON of a request; ChannelError names what is wrong and where."""
    try:
        rules = msgspec.convert(raw, Rules)
    except msgspec.ValidationError as error:
        raise ChannelError(f"rules: {error}") from None
    return rules.check()


_SELECTORS: Final[dict[str, Callable[[str], Any]]] = {
    "css": compiled_css,
    "xpath": compiled_xpath,
    "jsonpath": compiled_jsonpath,
    "exclude_css": compiled_css,
    "exclude_xpath": compiled_xpath,
    "exclude_jsonpath": compiled_jsonpath,
}


def _each(name: str, texts: Sequence[str], compiler: Callable[[str], Any]) -> None:
    if len(texts) > limits.SELECTORS:
        raise ChannelError(f"rules.{name}: {len(texts)} entries; at most {limits.SELECTORS}")
    for place, text in enumerate(texts):
        try:
            compiler(text)
        except ChannelError as error:
            raise ChannelError(f"rules.{name}[{place}]: {error}") from None


@lru_cache(maxsize=1_024)
def pattern(text: str) -> Callable[[str], bool]:
    """Whether the ignore pattern occurs in a line."""
    try:
        found = params.regex(params.PATTERN.parse(text))
    except PolicyError as error:
        raise ChannelError(str(error)) from None
    return lambda line: found.search(line) is not None
