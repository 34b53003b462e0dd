"""`chatnb action`: dispatches one action of an agent from the command line (spec/actions.md, 11.6).

The result is JSON on stdout, and nothing else is: what the action prints, its progress, questions and errors go to
stderr. Exit codes: 0 it ran; 1 it failed; 2 the command can't be read; 3 a person has to say yes first.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import shlex
import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

import click
from pydantic_core import PydanticSerializationError, to_jsonable_python

from chatnb._json import JsonValue
from chatnb.actions import find_identity
from chatnb.actions.dispatch import Dispatcher
from chatnb.actions.settled import Settled
from chatnb.sites.cli_help import describe, is_call_for_help, list_actions
from chatnb.sites.cli_words import APPROVED, Words, read_input, read_words
from chatnb.sites.targets import load_agent

if TYPE_CHECKING:
    from chatnb.actions.prepare import PreparedCall
    from chatnb.agent import Agent

FAILED, NOT_APPROVED = 1, 3
UNAPPROVED = frozenset({"approval_required", "approval_mismatch"})

Line = dict[str, JsonValue]


# Options count before TARGET only: every word after it belongs to the call.
@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}, options_metavar="")
@click.argument(
    "words", metavar="TARGET NAME ['{json}'] [--k v | --k=v ...] [--approved HASH]", nargs=-1, type=click.UNPROCESSED
)
@click.pass_context
def action(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Run one action of an agent; TARGET is module:agent.

    Arguments are one JSON object, flags, or both; flags win. A flag that is repeated is a list, one without a value is
    true. The result is printed as JSON. `TARGET --help` lists the actions, `TARGET NAME --help` explains one.

    An action that needs approval asks on a terminal. Elsewhere it is not run, and the exit code is 3: show a person
    what is printed, and run the printed command when they say yes.
    """
    if is_call_for_help(words):
        with redirect_stdout(sys.stderr):
            text = describe(load_agent(words[0]), words)
        if text is not None:
            click.echo(_printable(text))
            return
    call = read_words(words)
    out = sys.stdout
    is_terminal = _is_terminal(sys.stdin) and _is_terminal(out)
    with redirect_stdout(sys.stderr):  # stdout is the result's alone
        agent = load_agent(call.target)
        found = agent.catalog.find(call.name)
        raw = read_input(call.rest, found.allowed_types if found is not None else {})
        desk = _Desk(agent, ask=is_terminal)
        settled = desk.dispatch(call, raw)
    if settled.is_success:
        _print_result(settled, out)
    elif settled.failure is not None and settled.failure.code in UNAPPROVED:
        _print_refusal(call, settled, was_asked=desk.has_asked)
        ctx.exit(NOT_APPROVED)
    else:
        _print_failure(settled)
        if found is None or found.ui_only:
            click.echo(_printable(list_actions(agent)), err=True)
        ctx.exit(FAILED)


class _Desk:
    """Dispatches a call while the main thread waits, asks, and runs what wants the main thread.

    Args:
        agent: The agent.
        ask: Somebody is there to be asked.
    """

    def __init__(self, agent: Agent, *, ask: bool) -> None:
        self._agent = agent
        self._composition = agent.composition()
        self._runtime = self._composition.runtime
        self._ask = ask
        self._question: concurrent.futures.Future[PreparedCall | None] = concurrent.futures.Future()
        self._answer: concurrent.futures.Future[bool] = concurrent.futures.Future()
        self.has_asked = False

    def dispatch(self, call: Words, raw: dict[str, Any]) -> Settled:
        """Dispatch one call. Ctrl-C stops it, and how it ended is still told."""
        host = "terminal" if _is_terminal(sys.stdin) else self._composition.host.kind
        dispatcher = Dispatcher(
            self._agent.catalog,
            replace(
                self._agent.environment,
                identity=find_identity(self._agent.identity, host=host),
                tracer=self._composition.tracer,
            ),
            calls=self._runtime.calls,
            clock=self._composition.clock,
            new_id=self._composition.new_id,
        )
        stop = asyncio.Event()
        done: concurrent.futures.Future[Settled] = concurrent.futures.Future()

        async def work() -> None:
            try:
                settled = await dispatcher.dispatch(
                    call.name,
                    raw,
                    site="cli",
                    approved_hash=call.approved,
                    confirm=self._confirm if self._ask else None,
                    stop=stop,
                    show=_Progress(sys.stderr).show,
                )
            except BaseException as error:  # noqa: BLE001 - raised to the main thread
                done.set_exception(error)
            else:
                done.set_result(settled)
            if not self._question.done():
                self._question.set_result(None)

        with self._main_thread_comes():
            self._runtime.spawn(work(), name=f"cli call of {call.name}")
            try:
                asked = self._runtime.wait(self._question)
                if asked is not None:
                    self.has_asked = True
                    self._answer.set_result(_ask_person(asked))
                return self._settled(done)
            except KeyboardInterrupt:
                if not self._answer.done():
                    self._answer.set_result(False)
                self._runtime.post(stop.set)
                return self._settled(done)

    def _main_thread_comes(self) -> AbstractContextManager[object]:
        """Say that the main thread serves calls, also while it does not wait: no call goes elsewhere meanwhile."""
        main = self._runtime.main
        guard = main.guard_here()
        return nullcontext() if guard is None else main.pumping(guard, lambda: None)

    async def _confirm(self, prepared: PreparedCall) -> bool:
        """Have the main thread ask: the loop goes on, and Ctrl-C means no."""
        self._question.set_result(prepared)
        return await asyncio.wrap_future(self._answer)

    def _settled(self, done: concurrent.futures.Future[Settled]) -> Settled:
        return self._runtime.wait(done)


class _Progress:
    """Shows progress and lines of a running action; called on the runtime's loop, one after the other."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines = 0
        self._progress: Line | None = None

    def show(self, progress: Line | None, lines: tuple[Line, ...]) -> None:
        """Print what is new."""
        for line in lines[self._lines :]:
            self._print(f"{line['level']}: {line['text']}")
        self._lines = len(lines)
        if progress is not None and progress != self._progress:
            self._progress = progress
            total = f"/{progress['total']:g}" if "total" in progress else ""
            self._print(f"{progress['done']:g}{total} {progress.get('text', '')}".rstrip())

    def _print(self, text: str) -> None:
        click.echo(_printable(text), file=self._stream)


# --- what a person sees -----------------------------------------------------------------------------------------


def _ask_person(prepared: PreparedCall) -> bool:
    """Ask on the terminal; only `y` and `yes` are a yes."""
    _print_call(prepared)
    click.echo("Run it? [y/N] ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print_call(prepared: PreparedCall) -> None:
    title = prepared.action.title
    click.echo(f"Action: {prepared.action.name}{f' ({title})' if title else ''}", err=True)
    click.echo(f"Arguments: {_shown(prepared.shown)}", err=True)


def _print_refusal(call: Words, settled: Settled, *, was_asked: bool) -> None:
    failure, prepared = settled.failure, settled.prepared
    if failure is None or prepared is None:
        raise AssertionError("a call that was refused for want of approval was prepared")
    if was_asked:
        click.echo("Not run: you did not say yes.", err=True)
        return
    _print_call(prepared)
    click.echo(f"Hash: {prepared.hash}", err=True)
    click.echo(f"Not run: {failure.text} ({failure.code})", err=True)
    command = ["chatnb", "action", call.target, call.name, *call.rest, APPROVED, prepared.hash]
    click.echo(f"After a person has said yes to these arguments:\n  {_printable(shlex.join(command))}", err=True)


def _print_failure(settled: Settled) -> None:
    if settled.failure is None:
        raise AssertionError("a call that did not succeed has a failure")
    click.echo(f"Error: {_printable(settled.failure.text)}", err=True)
    effect = f", effect: {settled.effect}" if settled.prepared is not None else ""
    click.echo(f"code: {settled.failure.code}{effect}", err=True)


def _print_result(settled: Settled, out: TextIO) -> None:
    try:
        result = to_jsonable_python(settled.value, inf_nan_mode="null", serialize_unknown=False)
        notes = settled.image_notes
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        # A result that is no JSON (a frame, a figure): what a model would get of it, notes and all.
        result, notes = settled.output, ()
    for note in notes:
        click.echo(_printable(note), err=True)
    text = json.dumps(result, indent=2, ensure_ascii=False)
    try:
        text.encode(getattr(out, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        text = json.dumps(result, indent=2)
    click.echo(text, file=out)


def _shown(arguments: dict[str, JsonValue]) -> str:
    return _printable(json.dumps(arguments, indent=2, ensure_ascii=False))


def _printable(text: str) -> str:
    """Escape what could move the cursor or turn the text round: a person has to see what is there."""
    return "".join(char if char.isprintable() or char in "\n\t" else f"\\u{ord(char):04x}" for char in text)


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False
