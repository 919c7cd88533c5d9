"""Pages are read in a process of their own: what a page does to it concerns nobody else."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.core.channels.difference import Rules
from penstock.errors import ChannelError
from penstock.node.channels.compare import CompareAnswer, CompareRequest, PageBody, compare
from penstock.node.channels.reader import ReadingProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.slow  # each test starts the process that reads pages

URL = "https://x.example/"
PAGE = b"<title>T</title><main><p>one</p><p>two</p></main>"
MB = 1_000_000


def request(body: bytes, content_type: str = "text/html", *, stored: bytes | None = None) -> CompareRequest:
    return CompareRequest(URL, Rules(), 1_778_580_000_000_000, PageBody(body, content_type), None, stored)


@pytest.fixture
async def process() -> AsyncIterator[ReadingProcess]:
    found = ReadingProcess()
    yield found
    await found.close()


def attributes(count: int, form: bytes) -> bytes:
    return b" ".join(form % (number, number) for number in range(count))


def lone_attributes(count: int) -> bytes:
    return b" ".join(b"a%d='1'" % number for number in range(count))


HOSTILE = {
    "attributes of a feed": b"<rss version='2.0' "
    + attributes(100_000, b"a%d='%d'")
    + b"><channel><item><guid>1</guid><title>t</title></item></channel></rss>",
    "namespaces of a feed": b"<rss version='2.0' "
    + attributes(100_000, b"xmlns:a%d='u%d'")
    + b"><channel><item><guid>1</guid><title>t</title></item></channel></rss>",
    "50,000 attributes of an item, 539 KB": b"<rss version='2.0'><channel><item "
    + lone_attributes(50_000)
    + b"><guid>1</guid><title>t</title></item></channel></rss>",
    "100,000 attributes of an item, 1.09 MB": b"<rss version='2.0'><channel><item "
    + lone_attributes(100_000)
    + b"><guid>1</guid><title>t</title></item></channel></rss>",
    "attributes of a page": b"<p " + attributes(100_000, b"a%d='%d'") + b">x",
    "attributes with an end of tag": b"<p " + attributes(100_000, b"a%d='>%d'") + b">x",
    "paragraphs": b"<p>x" * (8 * MB // 4),
    "attributes, many tags": (b"<p " + attributes(900, b"a%d=%d") + b">x") * 600,
    "one long line": b"<p>" + b"word 12:30 " * (8 * MB // 11),
    "lines that all change": b"<p>a line of words</p>\n" * 19_999,
    "open titles": b"<rss version='2.0'><channel>" + b"<title>" * (8 * MB // 7 - 10),
    "JSON": b"[" + b'{"a":1},' * (8 * MB // 8 - 10) + b"1]",
}


SLOW = b"<div>" * 2_000 + b"</x>" * (8 * MB // 4 - 2_500)
"""Nothing is wrong with it but the time it takes: ten seconds."""


@pytest.mark.parametrize("name", HOSTILE)
async def test_no_page_costs_the_node_time_or_memory(name: str, process: ReadingProcess) -> None:
    """Memory is limited by the kernel; of the event loop's time, what it computed itself is counted."""
    body = HOSTILE[name]
    await process.ask(request(PAGE))
    began_s, before = time.thread_time(), _peak_kb("self")
    try:
        said = (await process.ask(request(body))).problem
    except ChannelError as error:
        said = str(error)
    assert time.thread_time() - began_s < 0.050
    assert _peak_kb("self") - before < _MOST_KB
    if said:
        assert any(word in said for word in ("over ", "more than ")), said
    if process.pid is not None:
        assert _peak_kb(str(process.pid)) < _MOST_KB + _START_KB
    assert (await process.ask(request(PAGE))).found is not None


_MOST_KB = 64 << 10
_START_KB = 40 << 10
"""More than the process has before it reads a page."""


def _peak_kb(pid: str) -> int:
    if not sys.platform.startswith("linux"):
        pytest.skip("the peak of memory is read from /proc")
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


async def test_a_page_is_compared_as_it_would_be_here(process: ReadingProcess) -> None:
    assert process.started == 0  # a node without channels has no such process
    first = await process.ask(request(PAGE))
    assert first == compare(request(PAGE))
    assert first.found is not None
    assert (first.found.first, first.found.content.title, first.found.content.lines) == (True, "T", ())
    changed = await process.ask(request(PAGE.replace(b"two", b"three"), stored=first.found.state))
    assert changed.found is not None
    assert changed.found.delta is not None
    assert [change.new for change in changed.found.delta.changes] == [("three",)]
    assert process.started == 1


async def test_what_cannot_be_read_is_said(process: ReadingProcess) -> None:
    assert (await process.ask(request(b"%PDF-1.7"))).problem == (
        "https://x.example/: the body is not text: only feeds, pages, JSON and text can be watched"
    )
    assert "Error" in (await process.ask(request(PAGE, stored=b"not zlib"))).damage
    assert process.started == 1


async def test_a_page_that_kills_its_reader_fails_alone(process: ReadingProcess) -> None:
    await process.ask(request(PAGE))
    pid = process.pid
    assert pid is not None
    asked = asyncio.create_task(process.ask(request(SLOW)))
    await asyncio.sleep(0.2)
    os.kill(pid, signal.SIGSEGV)
    with pytest.raises(ChannelError, match="ended the process that reads pages, by SIGSEGV"):
        await asked
    assert (await process.ask(request(PAGE))).found is not None
    assert process.started == 2


async def test_computing_time_is_bounded_by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "READER_ANSWER_S", 600)  # a busy machine takes a while to give it one second
    process = ReadingProcess(cpu_s=1)
    with pytest.raises(ChannelError, match="took more than 1 s of computing"):
        await process.ask(request(SLOW))
    assert (await process.ask(request(PAGE))).found is not None
    await process.close()


async def test_an_answer_that_takes_too_long_is_not_awaited(
    process: ReadingProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    await process.ask(request(PAGE))
    monkeypatch.setattr(limits, "READER_ANSWER_S", 0.2)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(ChannelError, match=r"not done after 0\.2 s"):
        await process.ask(request(PAGE))
    monkeypatch.undo()
    assert (await process.ask(request(PAGE))).found is not None


async def test_the_reader_knows_no_secrets_of_the_node(
    process: ReadingProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PASSWORD", "secret")
    await process.ask(request(PAGE))
    assert b"secret" not in Path(f"/proc/{process.pid}/environ").read_bytes()


async def test_signals_for_the_node_do_not_end_the_reader(process: ReadingProcess) -> None:
    await process.ask(request(PAGE))
    assert process.pid is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(process.pid, number)
    assert (await process.ask(request(PAGE))).found is not None
    assert process.started == 1


async def test_a_reader_that_ended_between_two_pages_is_started_again(process: ReadingProcess) -> None:
    assert (await process.ask(request(HOSTILE["one long line"]))).problem == (
        f"reading it takes more than {limits.READER_BYTES >> 20} MB of memory"
    )
    assert (await process.ask(request(PAGE))).found is not None
    assert process.started == 2


async def test_a_cancelled_question_leaves_no_answer_behind(process: ReadingProcess) -> None:
    await process.ask(request(PAGE))
    asked = asyncio.create_task(process.ask(request(SLOW)))
    await asyncio.sleep(0.2)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    answer: CompareAnswer = await process.ask(request(PAGE))
    assert answer.found is not None
    assert answer.found.content.title == "T"
