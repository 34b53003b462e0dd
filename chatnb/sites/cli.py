"""The command line: `chatnb lab`, `chatnb chats`, `chatnb action` (DESIGN's section "command line")."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click

from chatnb import __version__
from chatnb.errors import ChatnbError

DEFAULT_FOLDER = "chatnb-tour"


# The commands that are files of their own: loaded when they are called, or when the help lists them.
_FILES = {
    "a2a": "chatnb.sites.serve",
    "action": "chatnb.sites.cli_action",
    "chats": "chatnb.sites.chats",
    "mcp": "chatnb.sites.serve",
    "serve": "chatnb.sites.serve",
}


class _Commands(click.Group):
    """Shows chatnb's own errors as one line and exit code 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_FILES])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _FILES:
            command: click.Command = getattr(import_module(_FILES[cmd_name]), cmd_name)
            return command
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ChatnbError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="chatnb")
def main() -> None:
    """Chat with an agent that lives in the notebook."""


@main.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=DEFAULT_FOLDER)
@click.option("--no-browser", is_flag=True, help="Print the address instead of opening a browser.")
@click.option("--port", type=click.IntRange(1, 65535), help="Listen on this port, or fail.")
@click.pass_context
def lab(ctx: click.Context, folder: Path, no_browser: bool, port: int | None) -> None:
    """Copy the tour into FOLDER (default: chatnb-tour) and open JupyterLab on its first notebook.

    A notebook that you have changed stays as you left it. Ctrl-C ends JupyterLab too.
    """
    from chatnb.sites.lab import copy_tour, open_lab, tour_folder

    for name in copy_tour(tour_folder(), folder):
        click.echo(f"Kept your own {folder / name}.")
    ctx.exit(open_lab(folder.resolve(), browser=not no_browser, port=port))
