"""The root command: lists commands from the table, and imports the one that is called.

`LazyGroup.commands` holds a placeholder for each command, with its name and its help line. Help, shell
completion and "did you mean" read the placeholders; `resolve_command` replaces one by the command itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from penstock.cli import plugins
from penstock.cli.commands import COMMANDS, RENAMED
from penstock.cli.plain_values import convert_plainly

if TYPE_CHECKING:
    from typer._click.core import Command, Context
    from typer._click.formatting import HelpFormatter

_MARKUP: Final = "rich"


class LazyGroup(TyperGroup):
    """A group of commands that are imported when they run."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: _placeholder(name, entry.help) for name, entry in COMMANDS.items()}
        self._plugins: dict[str, plugins.Plugin] | None = None

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Read the options before the name of a command."""
        convert_plainly(self, ctx)  # here, because Typer adds options after the group is made
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """Return the placeholder of a command; None for a name that no command has."""
        if cmd_name not in self.commands:
            self._add_plugins()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Context) -> list[str]:
        """Return all names, those of other packages included."""
        self._add_plugins()
        return super().list_commands(ctx)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """Import the command that is called; the error for an old name says the new one."""
        if args[0] in RENAMED and not ctx.resilient_parsing:
            ctx.fail(f"'{args[0]}' is now '{RENAMED[args[0]]}'")
        name, found, rest = super().resolve_command(ctx, args)
        if name is None or found is None:
            return None, None, rest
        command = self.load(name)
        if not rest or "--help" in rest:
            from penstock.cli.help_text import illustrate  # noqa: PLC0415  # only help shows examples

            illustrate(command, name)
        convert_plainly(command, ctx)
        return name, command, rest

    def load(self, name: str) -> Command:
        """Import the module of a command and return the command."""
        entry = COMMANDS.get(name)
        if entry is not None:
            return _command_of(name, getattr(import_module(entry.module), entry.attribute))
        return _command_of(name, self._add_plugins()[name].load())

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002
        """Print the help of the program, as Typer does, which leaves the formatter empty."""
        from penstock.cli.help_text import root_help  # noqa: PLC0415  # commands do not need it

        found = self._add_plugins()
        groups = {name: entry.group for name, entry in COMMANDS.items()}
        groups |= {name: plugin.group for name, plugin in found.items()}
        typer.echo(root_help(self, ctx, groups))

    def _add_plugins(self) -> dict[str, plugins.Plugin]:
        """Look once for commands of other packages: a search through all installed packages takes a while."""
        if self._plugins is None:
            self._plugins = plugins.find(taken=COMMANDS)
            for name, plugin in self._plugins.items():
                self.commands[name] = _placeholder(name, plugin.help, hidden=plugin.hidden)
        return self._plugins


def _placeholder(name: str, text: str, *, hidden: bool = False) -> Command:
    return TyperCommand(name=name, help=text, hidden=hidden)


def _command_of(name: str, found: Any) -> Command:
    """Make a command of a function or of a `typer.Typer`."""
    if isinstance(found, typer.Typer):
        command: Command = get_group(found)
    else:
        alone = typer.Typer(add_completion=False, rich_markup_mode=_MARKUP)
        alone.command(name)(found)
        command = get_command(alone)
    command.name = name
    return command
