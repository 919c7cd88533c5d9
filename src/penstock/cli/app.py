"""The root of the command line: commands, errors, exit codes.

0   done, and the answer is yes
1   done, and the answer is no: a goal missed, a row not reproduced, warnings under --strict
2   the command line is wrong
3   the input is wrong: a policy, a file, a line of it; or Spark failed
4   a program or library is not installed
70  a bug in Penstock
130 interrupted
"""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException

from penstock.cli.lazy import LazyGroup
from penstock.cli.output import complain, print_json, print_text
from penstock.errors import (
    ConnectRefused,
    PenstockError,
    PlacedError,
    PublishRefused,
    SubscribeRefused,
    Unreachable,
)

app = typer.Typer(
    name="penstock",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Publish/subscribe for streams that outrun their readers.",
    epilog="Also --version, --install-completion. Exit codes: 0 yes, 1 no, 2 wrong command, "
    "3 wrong input, 4 program missing.",
)


def _print_version(value: bool) -> None:
    if value:
        from importlib.metadata import version  # noqa: PLC0415  # other commands need no version

        print_text(f"penstock {version('penstock')}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Publish/subscribe for streams that outrun their readers."""


def main() -> None:
    """Run a command; an error becomes one message and an exit code."""
    _open_streams()
    try:
        code = app(standalone_mode=False)
    except TyperException as error:
        message = error.format_message()
        if message:  # empty if the help was shown instead
            _report(message, {})
        sys.exit(error.exit_code)
    except PenstockError as error:
        _report(f"{error}{_hint(error)}", error.facts() if isinstance(error, PlacedError) else {})
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains at its exit
        sys.exit(0)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _report(f"{where}{error.strerror or error}", {})
        sys.exit(PenstockError.exit_code)
    except Exception as error:  # the last resort of a command line
        if os.environ.get("PENSTOCK_DEBUG"):
            raise
        _report(
            f"a bug in Penstock: {type(error).__name__}: {error}; "
            "set PENSTOCK_DEBUG=1 to see where, and please report it",
            {},
        )
        sys.exit(70)
    sys.exit(code if isinstance(code, int) else 0)


def _hint(error: PenstockError) -> str:
    """Return the option or setting that helps; the error does not say it, because programs see it too."""
    match error:
        case Unreachable() if "not trusted" in str(error):
            return " (--ca FILE names the authority to trust)"
        case Unreachable():
            return " (--node, or `penstock context`, names another node)"
        case ConnectRefused(reason=0x86 | 0x87):
            return " (--user with --password-env, or a context, says who you are)"
        case PublishRefused(reason=0x87) | SubscribeRefused(reason=0x87) if "acl" not in str(error):
            return " (`acl` in the node's configuration decides)"
        case _:
            return ""


def _open_streams() -> None:
    """Replace a closed standard output by the null device; escape characters that an encoding lacks."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115  # open to the end of the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # In a C locale, a topic with an umlaut must not end in a UnicodeEncodeError.
            stream.reconfigure(errors="backslashreplace")


def _report(message: str, facts: dict[str, object]) -> None:
    # Not from the parsed options: the error may come before they are parsed.
    if "--json" in sys.argv:
        print_json({"error": {"message": message, **facts}})
    complain(message)
