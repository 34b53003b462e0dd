"""`compare`: one prompt, several models, side by side (spec/notebook.md, section 9)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from . import _copies
from ._composition import Composition
from .actions import Catalog
from .agent import Agent
from .chat import Chat
from .errors import ChatnbError, ConfigError
from .models import Model, resolve_model
from .runtime import Runtime
from .store import memory_store
from .turns import Outcome, Submission

__all__ = ["Comparison", "compare"]

COLUMNS = (
    "model",
    "run",
    "text",
    "status",
    "error",
    "first_token_s",
    "latency_s",
    "input_tokens",
    "output_tokens",
    "cost",
)
CONTENT = frozenset({"text-delta", "reasoning-delta", "tool-input-start"})


@dataclass(eq=False)
class Run:
    """One model's run: its chat, and what came of it."""

    model: str
    number: int
    chat: Chat | None = None
    submission: Submission | None = None
    began: float = 0.0
    failure: str | None = None
    outcome: Outcome | None = None
    first_token: float | None = None
    latency: float | None = None

    def row(self) -> dict[str, Any]:
        """Return the run's line; what is not known is None."""
        outcome = self.outcome
        usage = outcome.usage if outcome is not None else None
        error = outcome.error.message if outcome is not None and outcome.error is not None else self.failure
        return {
            "model": self.model,
            "run": self.number,
            "text": outcome.text if outcome is not None else "",
            "status": outcome.status if outcome is not None else "error",
            "error": error,
            "first_token_s": self.first_token,
            "latency_s": self.latency,
            "input_tokens": usage.input_tokens if usage is not None else None,
            "output_tokens": usage.output_tokens if usage is not None else None,
            "cost": usage.cost if usage is not None else None,
        }


@dataclass(eq=False)
class Comparison:
    """A running comparison: shows columns in a notebook; awaiting it, or `.result()`, gives the frame.

    Attributes:
        runs: One for each model and repetition, in the order of `models`.
    """

    runtime: Runtime
    agent: Agent
    runs: list[Run]
    _done: concurrent.futures.Future[None] = field(default_factory=concurrent.futures.Future)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dict for each run, in order; runs that go on are there with what is known."""
        return [run.row() for run in self.runs]

    def result(self, timeout: float | None = None) -> Any:
        """Wait until all runs are over; return a DataFrame, or the rows where pandas is missing.

        Raises:
            TimeoutError: The time is over; the runs go on.
        """
        self.runtime.wait(self._done, timeout)
        return self._frame()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        self._done.add_done_callback(lambda _: loop.call_soon_threadsafe(arrived.set))
        with self.runtime.waiting():
            await arrived.wait()
        return self._frame()

    def _frame(self) -> Any:
        try:
            import pandas
        except ImportError:
            return self.rows
        return pandas.DataFrame(self.rows, columns=list(COLUMNS))

    def stop(self) -> None:
        """Stop all runs."""
        for run in self.runs:
            if run.submission is not None:
                run.submission.stop()

    def keep(self, index: int, id: str | None = None) -> Chat:
        """Return one column as a stored chat of the agent.

        Raises:
            IndexError: There is no such column.
            ConfigError: Its run never began.
        """
        chat = self.runs[index].chat
        if chat is None:
            raise ConfigError(f"run {index} never began: {self.runs[index].failure}")
        text = _copies.export(chat, "json", None, branches=False)
        return self.agent.load(text, id)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        from ipywidgets import HBox, Layout

        columns = [
            run.chat.view(height="420px", title=_title(run, self.runs), transcript=False)
            for run in self.runs
            if run.chat is not None
        ]
        for column in columns:
            column.layout = Layout(flex="1 1 240px", min_width="220px")
        box = HBox(columns, layout=Layout(flex_flow="row wrap", width="100%"))
        return dict(box._repr_mimebundle_())

    def __repr__(self) -> str:
        return f"Comparison({len(self.runs)} runs)"


def _title(run: Run, runs: Sequence[Run]) -> str:
    return f"{run.model} ({run.number})" if any(r.number > 1 for r in runs) else run.model


def compare(
    prompt: str,
    models: Sequence[Model | str],
    *,
    agent: Agent | None = None,
    chat: Chat | None = None,
    repeat: int = 1,
) -> Comparison:
    """Ask several models the same thing, side by side, each in a copy of the conversation that is kept in memory.

    Only actions that change nothing and need no approval are offered. One model's failure is its row; the given chat is
    not changed.

    Args:
        prompt: What to ask.
        models: Models or their names.
        agent: Gives instructions and actions; default: the chat's, or a bare one.
        chat: The conversation that each run continues.
        repeat: Runs of each model.

    Raises:
        ConfigError: No model, or a repeat below 1.

    Example:
        comparison = compare("A name for a café?", models=["offline", ScriptedModel(["Blue Cup."])])
        await comparison
        [row["text"] for row in comparison.rows]
    """
    if not isinstance(models, Sequence) or isinstance(models, str) or not models:
        raise ConfigError("compare(models=[...]) takes a list of at least one model")
    if agent is not None and not isinstance(agent, Agent):
        raise ConfigError("compare(agent=...) takes an Agent")
    if chat is not None and not isinstance(chat, Chat):
        raise ConfigError("compare(chat=...) takes a Chat")
    if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
        raise ConfigError("repeat is a whole number, at least 1")
    base = agent or (chat.agent if chat is not None else Agent("offline", name="compare"))
    composition = base.composition()
    runtime = composition.runtime
    store = memory_store()
    runs: list[Run] = []
    for model in models:
        for number in range(1, repeat + 1):
            runs.append(_begin(base, composition, store, model, number, chat, f"run-{len(runs) + 1}"))
    comparison = Comparison(runtime, base, runs)
    for run in runs:
        if run.chat is not None:
            run.began = runtime.loop.time()
            run.submission = run.chat.send(prompt)
    runtime.spawn(_work(comparison), name="chatnb compare")
    return comparison


def _begin(
    base: Agent, composition: Composition, store: Any, model: Model | str, number: int, chat: Chat | None, id: str
) -> Run:
    name = model if isinstance(model, str) else model.name
    try:
        tested = copy.copy(base)
        tested.model = resolve_model(model)
    except ChatnbError as error:
        return Run(name, number, failure=f"{type(error).__name__}: {error}")
    tested.catalog = Catalog(a for a in base.actions if a.read_only is True and a.needs_approval is False)
    made = _copies.new_chat(composition, tested, store, id, kept=chat.objects.fork() if chat is not None else None)
    if chat is not None:
        composition.runtime.call(made._engine.apply_list, _copies.settled_chain(chat))
    return Run(tested.model.name, number, chat=made)


async def _work(comparison: Comparison) -> None:
    try:
        await asyncio.gather(*(_follow(run, run.submission) for run in comparison.runs if run.submission is not None))
    finally:
        comparison._done.set_result(None)


async def _follow(run: Run, submission: Submission) -> None:
    clock = asyncio.get_running_loop().time
    async for chunk in submission:
        if run.first_token is None and chunk["type"] in CONTENT:
            run.first_token = clock() - run.began
    run.outcome = await submission
    run.latency = clock() - run.began


class _CallableModule(ModuleType):
    """`import chatnb.compare` puts this module in the place of the function of the same name; both are to work."""

    def __call__(self, *args: Any, **options: Any) -> Comparison:
        return compare(*args, **options)


sys.modules[__name__].__class__ = _CallableModule
