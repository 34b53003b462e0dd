"""Running a model's code as a cell runs, without being one (spec/notebook.md, section 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from chatnb._json import JsonValue, dumps
from chatnb.actions.environment import naming
from chatnb.actions.results import is_json
from chatnb.kernel.host import running_shell
from chatnb.kernel.notebook import ChatNotebook
from chatnb.kernel.run_code_compile import Compiled, compile_cell
from chatnb.kernel.run_code_errors import describe_error
from chatnb.kernel.run_code_names import NamesBefore
from chatnb.kernel.run_code_shield import shielded
from chatnb.kernel.run_code_streams import LIMIT, Tee, teeing
from chatnb.kernel.summaries import present

Result = dict[str, JsonValue]


@dataclass(slots=True)
class _Run:
    """What came of the code so far."""

    tee: Tee
    value: object = None
    error: BaseException | None = None


def run_cell(
    code: str, notebook: ChatNotebook, *, tool_call_id: str | None = None, snapshot: bool = False
) -> Result | Coroutine[Any, Any, Result]:
    """Run code in the user's namespace. Call it on the main thread.

    Args:
        code: The cell.
        notebook: Whose namespace, and what it hides.
        tool_call_id: The call, for the snapshot.
        snapshot: Hold the former bindings.

    Returns:
        `{stdout, stderr, result, figures, error, added, changed, deleted}`, without what is empty. Code that awaits at
        the top level gives a coroutine of it.
    """
    shell = running_shell()
    try:
        compiled = compile_cell(code, shell)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return {"error": describe_error(error, "")}
    work = _Work(compiled, shell, notebook, tool_call_id, snapshot)
    return work.run_async() if compiled.is_async else work.run()


class _Work:
    def __init__(
        self, compiled: Compiled, shell: Any, notebook: ChatNotebook, tool_call_id: str | None, snapshot: bool
    ) -> None:
        self._compiled = compiled
        self._shell = shell
        self._notebook = notebook
        self._call_id = tool_call_id
        self._snapshot = snapshot and tool_call_id is not None
        self._namespace: dict[str, Any] = notebook.namespace()
        self._result: Result = {}

    def run(self) -> Result:
        """Run code that does not await."""
        with self._around() as run:
            try:
                if self._compiled.body is not None:
                    exec(self._compiled.body, self._namespace)
                if self._compiled.last is not None:
                    run.value = eval(self._compiled.last, self._namespace)
            except KeyboardInterrupt:
                raise  # of the person, of Stop or of the timeout: the call's end
            except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
                run.error = error
        return self._result

    async def run_async(self) -> Result:
        """Run code that awaits."""
        with self._around() as run:
            try:
                if self._compiled.body is not None:
                    await _awaited(eval(self._compiled.body, self._namespace))
                if self._compiled.last is not None:
                    made = eval(self._compiled.last, self._namespace)
                    run.value = await made if _is_of(made, self._compiled.last) else made
            except (KeyboardInterrupt, asyncio.CancelledError):
                raise
            except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
                run.error = error
        return self._result

    @contextmanager
    def _around(self) -> Iterator[_Run]:
        """What is the same before and after both. An interrupt passes, and the names are noted all the same."""
        watch = self._notebook.watch
        before = NamesBefore(self._namespace, self._notebook.policy, watch.hidden(), keep=self._snapshot)
        try:
            with teeing() as tee, shielded(self._shell, tee.show):
                run = _Run(tee)
                yield run
                if run.error is None and run.value is not None and not self._compiled.is_quiet:
                    self._show_result(run)
            self._fill(run, tee)
        finally:
            diff = before.compare(self._namespace)
            watch.observe()
            for key in ("added", "changed", "deleted"):
                if getattr(diff, key):
                    self._result[key] = list(getattr(diff, key))
            if self._snapshot and self._call_id is not None:
                self._notebook.snapshots.record(self._call_id, before.values, diff, self._namespace)

    def _show_result(self, run: _Run) -> None:
        presented = present(run.value)
        if presented.bundle:
            run.tee.show(naming(presented.bundle, None))  # the value itself is kept nowhere
        if is_json(run.value) and len(dumps(run.value)) <= LIMIT:
            self._result["result"] = run.value
        else:
            self._result["result"] = {"type": presented.type, "summary": presented.summary}

    def _fill(self, run: _Run, tee: Tee) -> None:
        made: Result = {}
        for stream in ("stdout", "stderr"):
            if text := tee.printed(stream):
                made[stream] = text
        if tee.figure_count:
            made["figures"] = tee.figure_count
        if run.error is not None:
            made["error"] = describe_error(run.error, self._compiled.filename)
        self._result = {**made, **self._result}


async def _awaited(made: Any) -> None:
    if made is not None:
        await made


def _is_of(made: Any, code: Any) -> bool:
    """Whether an evaluated expression is the coroutine of its own top-level await, and not a value of the user's."""
    return getattr(made, "cr_code", None) is code
