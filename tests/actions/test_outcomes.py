from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

from chatnb.actions import Action, ActionContext, action, action_errors
from chatnb.actions.effects import current_call
from chatnb.actions.guards import start_worker
from chatnb.errors import (
    ActionError,
    ActionOutputContractError,
    ConnectionNeeded,
    ForbiddenError,
    StopTurn,
    StoreFullError,
)

from .agents import audits, calls, chat_of, last_results, ledger, parts
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

    async def test_it_raised_at_once(self) -> None:
        """5.3: entering is what counts, even when the handler raised at once."""

        @action
        def f() -> None:
            """Write."""
            raise RuntimeError("x")

        assert (await bench(f).dispatcher.dispatch("f", {}, site="http")).effect == "committed"


class TestErrors:
    async def test_declared_codes(self) -> None:
        """C31: an undeclared code is a TypeError there; a declared one keeps its status, and no_write means none."""
        errors = action_errors("not_found", "locked")
        with pytest.raises(TypeError, match="typo"):
            errors.no_write("x", "typo")

        @action(errors=errors)
        def f() -> None:
            """Write."""
            errors.no_write("nothing there", "not_found", status_code=404, details={"id": 7})

        settled = await bench(f).dispatcher.dispatch("f", {}, site="http")
        assert settled.failure is not None
        assert (settled.failure.code, settled.failure.status_code, settled.effect) == ("not_found", 404, "none")
        assert (settled.failure.public_text, settled.failure.details) == ("nothing there", {"id": 7})

    async def test_no_write_around_a_nested_write(self, caplog: pytest.LogCaptureFixture) -> None:
        """Section 6: if a nested write entered it stays committed, with a warning."""
        errors = action_errors("gone")

        @action
        def inner() -> None:
            """Write."""

        @action(errors=errors)
        def outer() -> None:
            """Write."""
            inner()
            errors.no_write("gone", "gone")

        with caplog.at_level(logging.WARNING, "chatnb"):
            settled = await bench(outer).dispatcher.dispatch("outer", {}, site="http")
        assert settled.effect == "committed"
        assert "outer" in caplog.text

    async def test_an_undeclared_code_is_action_failed(self) -> None:
        """Section 6: a code that the outer action does not declare; without `errors` any code passes."""
        inner = action_errors("odd")

        def fail() -> None:
            """Do."""
            inner.fail("strange", "odd")

        for options, code in (({"errors": action_errors("other")}, "action_failed"), ({}, "odd")):
            at = bench(Action(fail, **options))
            settled = await at.dispatcher.dispatch("fail", {}, site="http")
            assert settled.failure is not None
            assert settled.failure.code == code

    async def test_a_plain_exception_is_hidden_from_machines(self) -> None:
        """C32: HTTP gets a fixed text and 500; the model and the command line get type and message."""

        @action
        def f() -> None:
            """Do."""
            raise RuntimeError("password hunter2")

        settled = await bench(f).dispatcher.dispatch("f", {}, site="http")
        assert settled.failure is not None
        assert (settled.failure.public_text, settled.failure.status_code) == ("The action failed.", 500)
        assert settled.failure.text == "RuntimeError: password hunter2"
        assert settled.failure.exception is not None

    async def test_stop_turn_ends_the_turn(self) -> None:
        """5.4: the call settles as an error and the turn completes without a further model step."""

        @action
        def f() -> None:
            """Do."""
            raise ConnectionNeeded("github", "no token", "repo")

        async with chat_of([f], calls(("f", {}))) as mock:
            outcome = await mock.chat.send("go")
            assert outcome.status == "completed"
            assert len(mock.requests) == 1
            (part,) = parts(mock)
            assert (part.state, part.error_text) == ("output-error", "Connection needed: github (for repo). no token")

    async def test_the_ledger_cannot_be_written(self) -> None:
        """7.5: then a write does not run; a read does."""
        ran: list[str] = []

        @action
        def write() -> None:
            """Write."""
            ran.append("write")

        @action(read_only=True)
        def read() -> None:
            """Read."""
            ran.append("read")

        at = bench(write, read)
        at.books.fail_with = StoreFullError("full")
        settled = await at.dispatcher.dispatch("write", {}, site="http")
        assert settled.failure is not None
        assert (settled.failure.code, settled.effect) == ("action_failed", "none")
        assert (await at.dispatcher.dispatch("read", {}, site="http")).is_success
        assert ran == ["read"]


class TestPlanMode:
    async def test_only_reads_go_on(self) -> None:
        """C14: a call classified as a read runs; others are `plan_mode_blocked`, not executed."""
        ran: list[str] = []

        @action(read_only=lambda args: args["mode"] == "peek")
        def f(mode: str = "peek") -> str:
            """Do."""
            ran.append(mode)
            return "ok"

        @action(read_only=lambda args: 1 / 0)
        def g() -> None:
            """Do."""
            ran.append("g")

        async with chat_of([f, g], calls(("f", {}), ("f", {"mode": "poke"}), ("g", {})), plan_mode=True) as mock:
            await mock.chat.send("go")
            assert ran == ["peek"]
            assert [p.state for p in parts(mock)] == ["output-available", "output-error", "output-error"]
            assert "plan_mode_blocked" in (parts(mock)[1].error_text or "")


class TestAudit:
    async def test_what_is_written(self) -> None:
        """Section 12: writes by default, reads only when asked for, denials always unless audit=False."""

        @action(read_only=True)
        def read() -> None:
            """Read."""

        @action(read_only=True, audit=True)
        def watched() -> None:
            """Read."""

        @action(audit=False, authorize=lambda args: False)
        def quiet() -> None:
            """Write."""

        @action(audit={"inputs": False, "summary": "paid", "target": lambda args: args["to"]})
        def pay(to: str) -> None:
            """Write."""

        at = bench(read, watched, quiet, pay)
        for name, raw in (("read", {}), ("watched", {}), ("quiet", {}), ("pay", {"to": "Bob"})):
            await at.dispatcher.dispatch(name, raw, site="http", identity=ANN)
        assert [row.action for row in at.books.audits] == ["watched", "pay"]
        row = at.books.audits[1]
        assert (row.input, row.summary, row.target, row.actor_kind, row.actor_id) == (
            None,
            "paid",
            "Bob",
            "user",
            "ann",
        )
        assert (row.effect_class, row.effect, row.status) == ("write", "committed", "success")

    async def test_redaction(self) -> None:
        """Section 12: secret-named keys and secret-looking values are redacted, sizes are cut, JSON stays valid."""
        import json

        @action
        def f(data: Any) -> None:
            """Do."""

        at = bench(f)
        data = {
            "api_key": "x",
            "nested": {"Authorization": "y", "text": "Bearer abcdefghijklmnop"},
            "key": "ghp_" + "a" * 36,
            "long": "l" * 3000,
            "many": list(range(500)),
            "deep": [[[[[[[[1]]]]]]]],
        }
        await at.dispatcher.dispatch("f", {"data": data}, site="http")
        kept = at.books.audits[0].input["data"]
        assert (kept["api_key"], kept["nested"]["Authorization"], kept["nested"]["text"], kept["key"]) == (
            "[redacted]",
        ) * 4
        assert len(json.dumps(at.books.audits[0].input)) <= 8200

    async def test_direct_calls_inside_a_chat_are_audited(self) -> None:
        """2.2: a nested call is audited with identity and site of the call around it."""

        @action
        def inner() -> None:
            """Write."""

        @action(read_only=True)
        def outer() -> str:
            """Read."""
            inner()
            return "ok"

        async with chat_of([outer], calls(("outer", {}))) as mock:
            await mock.chat.send("go")
            assert audits(mock) == [("inner", "success", None)]
            assert ledger(mock) == []
            assert "ok" in last_results(mock)


def test_forbidden_is_an_action_error() -> None:
    """2.3: denials are ForbiddenError, 403."""

    @action(authorize=lambda args: False)
    def f() -> None:
        """Do."""

    with pytest.raises(ForbiddenError) as caught:
        f()
    assert isinstance(caught.value, ActionError)
    assert (caught.value.code, caught.value.status_code) == ("forbidden", 403)
