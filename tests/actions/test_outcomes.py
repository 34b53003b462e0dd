from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

from chatnb.actions import Action, ActionContext, action
from chatnb.actions.effects import current_call
from chatnb.actions.guards import start_worker
from chatnb.errors import (
    ActionOutputContractError,
    ForbiddenError,
    StopTurn,
)

from .agents import calls, chat_of, parts
from .fakes import ANN, bench


class TestAuthorize:
    @pytest.mark.parametrize(
        ("answer", "text"), [(None, None), (True, None), (0, None), (False, "Not allowed."), (ValueError("no!"), "no!")]
    )
    async def test_answers(self, answer: Any, text: str | None) -> None:
        """C10: only exactly False, or raising, denies; denials are audited."""

        def guard(args: dict[str, Any], ctx: ActionContext) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        @action(authorize=guard)
        def f() -> str:
            """Do."""
            return "ran"

        at = bench(f)
        settled = await at.dispatcher.dispatch("f", {}, site="http", identity=ANN)
        if text is None:
            assert settled.value == "ran"
        else:
            assert settled.failure is not None
            assert (settled.status, settled.failure.code, settled.failure.text) == ("denied", "forbidden", text)
            assert [row.status for row in at.books.audits] == ["denied"]
        assert settled.effect == ("committed" if text is None else "none")

    async def test_it_gets_its_own_copy(self) -> None:
        """2.3: what a guard does to its arguments reaches nobody."""

        @action(authorize=lambda args: args["items"].clear())
        def f(items: list[int]) -> int:
            """Count."""
            return len(items)

        settled = await bench(f).dispatcher.dispatch("f", {"items": [1, 2]}, site="http", identity=ANN)
        assert settled.value == 2

    async def test_without_identity_it_is_denied_before_the_guard(self) -> None:
        """C11: no terminal, no identity: denied before the guard runs, and audited."""
        asked: list[Any] = []

        @action(authorize=asked.append)
        def f() -> str:
            """Do."""
            return "ran"

        at = bench(f, identity=None)
        settled = await at.dispatcher.dispatch("f", {}, site="cli")
        assert (settled.status, asked, len(at.books.audits)) == ("denied", [], 1)

    async def test_invalid_input_runs_nothing(self) -> None:
        """C1: a missing argument at any site leaves handler, guard and predicate alone; the error names it."""
        touched: list[str] = []

        @action(authorize=lambda args: touched.append("guard"), needs_approval=lambda args: touched.append("predicate"))
        def f(region: str) -> None:
            """Do."""
            touched.append("handler")

        at = bench(f)
        for site in ("widget", "http", "mcp", "a2a", "cli"):
            settled = await at.dispatcher.dispatch("f", {}, site=site)  # type: ignore[arg-type]
            assert settled.failure is not None
            assert (settled.failure.code, settled.failure.status_code) == ("invalid_arguments", 400)
            assert "region" in settled.failure.text
        async with chat_of([f], calls(("f", {}))) as mock:
            await mock.chat.send("go")
            assert "missing: region" in (parts(mock)[0].error_text or "")
        assert touched == []
        assert [row.status for row in at.books.audits] == ["error"] * 5


class Contact(BaseModel):
    age: int


class TestOutputContract:
    def test_no_values_anywhere(self) -> None:
        """C27: paths walk the schema, keys of dicts are `*`; no value in message, chain or traceback."""

        @action(read_only=True)
        def f() -> dict[str, Contact]:
            """Look."""
            return {"ann@example.org": {"age": "hunter2"}}  # type: ignore[dict-item]

        with pytest.raises(ActionOutputContractError) as caught:
            f()
        error = caught.value
        assert error.issues == (("*.age", "int_parsing"),)
        assert (error.code, error.action, error.contract, error.effect) == (
            "output_contract_violation",
            "f",
            "output",
            "none",
        )
        try:
            f()
        except ActionOutputContractError:
            shown = traceback.format_exc()
        for text in (str(error), repr(error), shown):
            assert "int_parsing" in text
            assert "hunter2" not in text
            assert "example" not in text
        assert error.__cause__ is None
        assert error.__context__ is None

    def test_codes_beyond_pydantics_are_invalid(self) -> None:
        """5.2: no validator's text; an unknown code is `invalid`; a validator that fails is `validator_threw`."""
        from pydantic_core import PydanticCustomError

        class Odd(BaseModel):
            n: int

            @field_validator("n")
            @classmethod
            def check(cls, n: int) -> int:
                if n == 1:
                    raise PydanticCustomError("secret_code", "text {n}", {"n": n})
                raise KeyError(n)

        @action(read_only=True)
        def f(n: int) -> Odd:
            """Look."""
            return {"n": n}  # type: ignore[return-value]

        with pytest.raises(ActionOutputContractError) as one:
            f(1)
        assert one.value.issues == (("n", "invalid"),)
        with pytest.raises(ActionOutputContractError) as two:
            f(2)
        assert two.value.issues == (("(root)", "validator_threw"),)

    async def test_a_write_with_a_bad_result(self) -> None:
        """C28: effect committed, the text says not to retry, one Change."""

        @action
        def f() -> int:
            """Write."""
            return "text"  # type: ignore[return-value]

        at = bench(f)
        settled = await at.dispatcher.dispatch("f", {}, site="http")
        assert settled.failure is not None
        assert (settled.effect, settled.failure.code) == ("committed", "output_contract_violation")
        assert "do not retry" in settled.failure.text
        assert len(at.changes) == 1
        with pytest.raises(ActionOutputContractError, match="do not retry"):
            f()

    async def test_warn_returns_the_very_object(self, caplog: pytest.LogCaptureFixture) -> None:
        """C30: the identical object, and a log line without values."""
        result = {"n": "hunter2"}

        @action(output="warn", read_only=True)
        def f() -> dict[str, int]:
            """Look."""
            return result  # type: ignore[return-value]

        with caplog.at_level(logging.WARNING, "chatnb"):
            assert f() is result
        assert "int_parsing" in caplog.text
        assert "hunter2" not in caplog.text

    def test_success_returns_the_validated_value(self) -> None:
        """5.1: coercions and defaults apply; without a schema it is the very object."""

        class Row(BaseModel):
            n: int
            tags: list[str] = Field(default_factory=list)

        marker = object()

        @action(read_only=True)
        def typed() -> Row:
            """Look."""
            return {"n": "5"}  # type: ignore[return-value]

        @action(read_only=True)
        def free():  # type: ignore[no-untyped-def]
            """Look."""
            return marker

        assert typed() == Row(n=5, tags=[])
        assert free() is marker

    def test_a_signal_during_the_check(self) -> None:
        """5.4: raised while the output is checked, also under warn, it ends the call in chatnb's own words."""

        class Stops(BaseModel):
            n: int

            @field_validator("n")
            @classmethod
            def check(cls, n: int) -> int:
                raise StopTurn(f"secret {n}", code="enough")

        @action(output="warn")
        def f() -> Stops:
            """Do."""
            return {"n": 1}  # type: ignore[return-value]

        with pytest.raises(StopTurn) as caught:
            f()
        assert "secret" not in str(caught.value)
        assert (caught.value.code, caught.value.effect) == ("enough", "committed")


class TestEffects:
    async def test_a_nested_write_counts(self) -> None:
        """C29: a read that calls a write, then returns a bad result, is committed; a denied nested write is none."""

        @action
        def write() -> str:
            """Write."""
            return "ok"

        @action(authorize=lambda args: False)
        def forbidden() -> str:
            """Write."""
            return "ok"

        def make(inner: Action) -> Action:
            @action(read_only=True)
            def outer() -> int:
                """Read."""
                inner()
                return "bad"  # type: ignore[return-value]

            return outer

        settled = await bench(make(write)).dispatcher.dispatch("outer", {}, site="http")
        assert settled.effect == "committed"
        settled = await bench(make(forbidden)).dispatcher.dispatch("outer", {}, site="http")
        assert settled.effect == "none"

    async def test_through_tasks_and_threads(self) -> None:
        """2.2: a nested call inherits identity and effect tracking across tasks and threads."""
        seen: list[Any] = []

        @action
        def write() -> str:
            """Write."""
            scope = current_call()
            assert scope is not None
            seen.append((scope.identity, scope.site, threading.current_thread().name))
            return "ok"

        @action(read_only=True)
        async def in_task() -> str:
            """Read."""
            return str(await asyncio.create_task(asyncio.to_thread(write)))

        @action(read_only=True)
        def in_thread() -> str:
            """Read."""
            return str(start_worker(write).result())

        for outer in (in_task, in_thread):
            settled = await bench(outer).dispatcher.dispatch(outer.name, {}, site="http", identity=ANN)
            assert (settled.value, settled.effect) == ("ok", "committed")
        assert [entry[:2] for entry in seen] == [(ANN, "http"), (ANN, "http")]

    async def test_through_a_pool_of_threads(self) -> None:
        """5.3, 4.8: a handler on an executor of threads is inside its call: nested writes count, it never approves."""
        seen: list[Any] = []
        box: dict[str, Any] = {}

        @action(needs_approval=True)
        def pay() -> str:
            """Pay."""
            return "paid"

        @action
        def write(ctx: ActionContext) -> str:
            """Write."""
            seen.append((ctx.site, ctx.chat_id))
            return "written"

        with ThreadPoolExecutor(1) as pool:

            @action(read_only=True, run_in=pool)
            def look() -> int:
                """Look."""
                write()
                with pytest.raises(ForbiddenError):
                    box["chat"].approve()
                return "no number"  # type: ignore[return-value]

            async with chat_of([look, write, pay], calls(("look", {}), ("pay", {}))) as mock:
                box["chat"] = mock.chat
                assert (await mock.chat.send("go")).status == "awaiting"
                assert seen == [("agent", "chat-1")]
                own = parts(mock)[0].tool_metadata["chatnb"]  # type: ignore[index]
                assert own == {"errorCode": "output_contract_violation", "effect": "committed"}

    async def test_in_a_thread_of_its_own(self) -> None:
        """5.3, 4.8: a thread that a handler starts is inside the call if it is given the context (docs/recipes.md)."""
        box: dict[str, Any] = {}

        @action(needs_approval=True)
        def pay() -> str:
            """Pay."""
            return "paid"

        @action
        def write() -> str:
            """Write."""
            return "written"

        def in_thread() -> None:
            write()
            with pytest.raises(ForbiddenError):
                box["chat"].approve()
            box["refused"] = True

        @action(read_only=True)
        def look() -> int:
            """Look."""
            worker = threading.Thread(target=contextvars.copy_context().run, args=(in_thread,))
            worker.start()
            worker.join()
            return "no number"  # type: ignore[return-value]

        async with chat_of([look, write, pay], calls(("look", {}), ("pay", {}))) as mock:
            box["chat"] = mock.chat
            assert (await mock.chat.send("go")).status == "awaiting"
            assert box["refused"]
            own = parts(mock)[0].tool_metadata["chatnb"]  # type: ignore[index]
            assert own == {"errorCode": "output_contract_violation", "effect": "committed"}

    async def test_it_raised_at_once(self) -> None:
        """5.3: entering is what counts, even when the handler raised at once."""

        @action
        def f() -> None:
            """Write."""
            raise RuntimeError("x")

        assert (await bench(f).dispatcher.dispatch("f", {}, site="http")).effect == "committed"
