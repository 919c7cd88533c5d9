"""`penstock channels`: the channels (web pages and feeds) that a running node polls."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec
import typer

from penstock import limits
from penstock.cli.api import TokenOption, api_address, ask, ask_all, ask_text
from penstock.cli.context.target import HERE, ApiOption
from penstock.cli.files import read_bytes, write_text
from penstock.cli.lines import local_time
from penstock.cli.output import JsonFlag, print_json, print_text, warn
from penstock.cli.terminal import print_table
from penstock.core.channels.address import canonical
from penstock.core.channels.delta import Delta
from penstock.core.channels.watch_list import read_watches
from penstock.errors import GoalMissed, InputError, counted, printable
from penstock.model.instant import duration

app = typer.Typer(no_args_is_help=True, help="Web pages and feeds that a running node polls.")

Page = Annotated[str, typer.Argument(metavar="PAGE", help="A page or feed, as https://example.org/news.")]

CssOption = Annotated[
    list[str] | None, typer.Option("--css", help="Compare only what this CSS selector finds.")
]
XpathOption = Annotated[
    list[str] | None, typer.Option("--xpath", help="Compare only what this XPath expression finds.")
]
JsonpathOption = Annotated[
    list[str] | None, typer.Option("--jsonpath", help="Compare only what this JSONPath finds in JSON.")
]
IgnoreOption = Annotated[
    list[str] | None, typer.Option("--ignore", metavar="PATTERN", help="Leave out lines that match.")
]

CHUNK: Final = 500
"""Feeds sent in one request: the most that a node accepts."""

TEXT_CHARS: Final = 80
"""Characters shown of a muted line."""


@app.command("list")
def list_(
    search: Annotated[str, typer.Option("--search", help="Text within URL or title.")] = "",
    tag: Annotated[str, typer.Option("--tag", help="Only pages with this tag.")] = "",
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """List the pages: those that fail first, then those that changed last."""
    where = api_address(node, token)
    found = ask_all(where, "channels", search=search, tag=tag)
    rows = found["channels"]
    if as_json:
        print_json({"enabled": found["enabled"], "status": found["status"], "channels": rows})
        return
    if not found["enabled"]:
        raise InputError(
            "channels are off at this node; start it with `penstock up --channels`", path=where.url
        )
    header = ("page", "title", "state", "every", "subscribers", "changes", "last change", "problem")
    count = counted(len(rows), "channel")
    print_table(count, header, [_row(each) for each in rows])
    for fault in found["status"]["faults"]:
        warn(fault)


def _row(each: dict[str, Any]) -> tuple[str, ...]:
    return (
        each["url"],
        each["title"],
        each["state"],
        duration(each["interval_us"]) if each["interval_us"] else "–",
        str(each["clients"] + each["people"]) + (" + kept" if each["kept"] else ""),
        f"{each['counts']['changes']:,}",
        local_time(each["changed_us"]) if each["changed_us"] else "–",
        each["problem"],
    )


@app.command()
def add(
    page: Page,
    *,
    every: Annotated[
        str | None, typer.Option("--every", metavar="TIME", help="Poll interval, as 30s; 0s: as allocated.")
    ] = None,
    css: CssOption = None,
    xpath: XpathOption = None,
    jsonpath: JsonpathOption = None,
    ignore: IgnoreOption = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="Tag the page; replaces the tags it has.")
    ] = None,
    only_additions: Annotated[
        bool, typer.Option("--only-additions", help="Ignore lines that are only removed.")
    ] = False,
    render: Annotated[
        bool, typer.Option("--render", help="Run the page's scripts in a browser, and read what they leave.")
    ] = False,
    compare_last: Annotated[
        int | None,
        typer.Option(
            "--compare-last", min=1, metavar="N", help="Ignore content that one of the last N versions had."
        ),
    ] = None,
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Poll a page until it is removed, or change its settings.

    Options of what is read replace all such options that were given before.
    """
    from penstock.cli.watch import seconds_of  # noqa: PLC0415

    rules: dict[str, Any] = {
        name: found
        for name, found in (
            ("css", css),
            ("xpath", xpath),
            ("jsonpath", jsonpath),
            ("ignore", ignore),
            ("only_additions", only_additions),
            ("render", render),
            ("compare_last", compare_last),
        )
        if found
    }
    body: dict[str, Any] = {"url": canonical(page)}
    if rules:
        body["rules"] = rules
    if tag:
        body["tags"] = tag
    if every is not None:
        body["every_s"] = seconds_of(every, least_s=0)
    found = ask(api_address(node, token), "/channels/add", body)
    _print_details(found, as_json=as_json, said="is watched")


@app.command("try")
def try_(
    page: Page,
    *,
    css: CssOption = None,
    xpath: XpathOption = None,
    jsonpath: JsonpathOption = None,
    ignore: IgnoreOption = None,
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Show the lines that selectors find on a watched page; how it is watched stays as it is."""
    given = (("css", css), ("xpath", xpath), ("jsonpath", jsonpath), ("ignore", ignore))
    body = {"url": canonical(page), "rules": {name: found for name, found in given if found}}
    found = ask(api_address(node, token), "/channels/try", body)
    if as_json:
        print_json(found)
        return
    for line in found["lines"]:
        print_text(printable(line["text"]))
    if len(found["lines"]) < found["total"]:
        warn(f"the first {len(found['lines']):,} of {counted(found['total'], 'line')}")


@app.command()
def remove(page: Page, node: ApiOption = HERE, token: TokenOption = "", as_json: JsonFlag = False) -> None:
    """Remove a page with its history and its subscriptions."""
    _done(ask(api_address(node, token), "/channels/remove", {"url": canonical(page)}), as_json=as_json)


@app.command()
def pause(page: Page, node: ApiOption = HERE, token: TokenOption = "", as_json: JsonFlag = False) -> None:
    """Stop polling a page, for all its subscribers."""
    found = ask(api_address(node, token), "/channels/pause", {"url": canonical(page), "paused": True})
    _print_details(found, as_json=as_json, said="is paused")


@app.command()
def resume(page: Page, node: ApiOption = HERE, token: TokenOption = "", as_json: JsonFlag = False) -> None:
    """Poll a paused page again."""
    found = ask(api_address(node, token), "/channels/pause", {"url": canonical(page), "paused": False})
    _print_details(found, as_json=as_json, said="is polled again")


@app.command()
def why(page: Page, node: ApiOption = HERE, token: TokenOption = "", as_json: JsonFlag = False) -> None:
    """Explain why a page is polled when it is, and what of it is muted because it keeps changing."""
    found = ask(api_address(node, token), f"/channels/one?url={quote(canonical(page), safe='')}")
    if as_json:
        print_json({"url": found["channel"]["url"], "why": found["why"], "muted": found["muted"]})
    else:
        print_text("\n".join(map(printable, found["why"])))
        for each in found["muted"]:
            line = f" in '{each['text'][:TEXT_CHARS]}'" if each["text"] else ""
            print_text(printable(f"Muted at {each['place']}{line}: {each['evidence']}"))
        if found["muted"]:
            print_text("`penstock channels unmute PAGE PLACE` has a place told again.")


@app.command()
def unmute(
    page: Page,
    place: Annotated[str, typer.Argument(metavar="PLACE", help="A place, as `channels why` names it.")],
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Tell changes of a place that was muted because it keeps changing."""
    body = {"url": canonical(page), "place": place}
    _done(ask(api_address(node, token), "/channels/unmute", body), as_json=as_json)


@app.command()
def history(
    page: Page,
    count: Annotated[
        int, typer.Option("--count", min=1, max=1_000, metavar="N", help="Number of changes.")
    ] = 10,
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Show the last changes of a page, newest first."""
    from penstock.cli.watch import change_text  # noqa: PLC0415

    found = ask(
        api_address(node, token), f"/channels/history?url={quote(canonical(page), safe='')}&limit={count}"
    )
    if as_json:
        print_json(found)
        return
    if not found["deltas"]:
        print_text("no changes yet")
    for each in found["deltas"]:
        print_text(f"version {each['version']}, {change_text(msgspec.convert(each, Delta))}\n")
    if found["deltas"] and found["deltas"][-1]["old_version"]:
        print_text(f"version {found['deltas'][-1]['old_version']} was before these changes")


@app.command()
def restore(
    page: Page,
    version: Annotated[
        int, typer.Argument(metavar="VERSION", min=1, help="A version, as `channels history` names it.")
    ],
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Compare a page with an older version of it from now on; its subscribers are told."""
    body = {"url": canonical(page), "version": version}
    _done(ask(api_address(node, token), "/channels/restore", body), as_json=as_json)


@app.command()
def check(page: Page, node: ApiOption = HERE, token: TokenOption = "", as_json: JsonFlag = False) -> None:
    """Poll a page now, if its server and the budgets allow it."""
    _done(ask(api_address(node, token), "/channels/check", {"url": canonical(page)}), as_json=as_json)


@app.command()
def subscribe(
    who: Annotated[str, typer.Argument(metavar="WHO", help="As xmpp:ann@example.org, webhook:https://…")],
    page: Page,
    policy: Annotated[
        str, typer.Option("--policy", metavar="FILE|NAME", help="Policy of the changes that wait.")
    ] = "",
    end: Annotated[bool, typer.Option("--end", help="End the subscription instead.")] = False,
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Notify a person or program of a page's changes, or stop with --end."""
    from penstock.cli.sub import policy_given  # noqa: PLC0415

    body = {"who": who, "url": canonical(page), "policy": policy_given(policy) if policy else ""}
    what = "unsubscribe" if end else "subscribe"
    _done(ask(api_address(node, token), f"/channels/{what}", body), as_json=as_json)


@app.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A list: OPML, or JSON of changedetection.io; - for input."),
    ],
    who: Annotated[
        str, typer.Option("--for", metavar="WHO", help="Subscribe them; else the feeds are only polled.")
    ] = "",
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Poll the feeds of an OPML list, as feed readers export it, or the pages of changedetection.io.

    Of changedetection.io: `url-watches.json` of a backup, or the answer of its API.
    """
    from penstock.node.notify.opml import read_opml, write_opml  # noqa: PLC0415

    where = api_address(node, token)
    data = read_bytes(file, most=max(limits.OPML_BYTES, limits.WATCH_LIST_BYTES))
    parts: list[dict[str, str]] = []
    if data.lstrip()[:1] in (b"{", b"["):
        total = len(read_watches(data))
        parts.append({"watches": data.decode(errors="replace"), "who": who})
    else:
        feeds = read_opml(data)
        total = len(feeds)
        for start in range(0, total, CHUNK):
            part = write_opml([(each, "") for each in feeds[start : start + CHUNK]], title="")
            parts.append({"opml": part.decode(), "who": who})
    answers = [ask(where, "/channels/import", part) for part in parts]
    added = sum(found["added"] for found in answers)
    refused = [each for found in answers for each in found["refused"]]
    left_out = [each for found in answers for each in found["left_out"]]
    if as_json:
        print_json({"added": added, "refused": refused, "left_out": left_out})
    else:
        print_text(f"{added:,} of {counted(total, 'page')} watched")
        for each in refused:
            warn(each["problem"])
        for each in left_out:
            warn(f"{each['url']}: {each['problem']}")
    if refused:
        raise typer.Exit(GoalMissed.exit_code)


@app.command()
def export(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="File to write; standard output if omitted.")
    ] = None,
    node: ApiOption = HERE,
    token: TokenOption = "",
) -> None:
    """Write the polled pages as a list of feeds (OPML)."""
    text = ask_text(api_address(node, token), "/channels/export")
    if file is None:
        sys.stdout.write(text + "\n" * (not text.endswith("\n")))
    else:
        write_text(file, text)


def _done(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print_text("\n".join(map(printable, found["done"].splitlines())))


def _print_details(found: dict[str, Any], *, as_json: bool, said: str) -> None:
    if as_json:
        print_json(found)
        return
    channel = found["channel"]
    print_text(printable(f"{channel['url']} {said}; its changes are on the topic {channel['topic']}"))
