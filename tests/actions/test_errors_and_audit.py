"""Errors, plan mode and audit (spec/actions.md, sections 2.5, 6 and 12)."""

from __future__ import annotations

import logging
from datetime import date
from typing import Any

import pytest

from chatnb.actions import Action, action, action_errors
from chatnb.errors import (
    ActionError,
    ConnectionNeeded,
    ForbiddenError,
    InvalidArgumentsError,
    StoreFullError,
)

from .agents import audits, calls, chat_of, last_results, ledger, parts
from .fakes import ANN, bench


class _Secret:
    def __repr__(self) -> str:
        return "hunter2"


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

    @pytest.mark.parametrize("status", [42, 200, 204, 302, 700, True, "404"])
    async def test_details_and_status_of_any_kind(self, status: Any) -> None:
        """Section 6: details become JSON, without the text of what is none; a status that says no is kept alone."""
        errors = action_errors("odd")
        cycle: list[Any] = []
        cycle.append(cycle)

        @action(errors=errors)
        def details() -> None:
            """Fail."""
            given = {"nan": float("nan"), "object": _Secret(), "set": {1}, (1, 2): b"x", "when": date(2026, 1, 1)}
            errors.fail("x", "odd", details=given, status_code=status)

        @action(errors=errors)
        def endless() -> None:
            """Fail."""
            errors.fail("x", "odd", details=cycle)

        dispatch = bench(details, endless).dispatcher.dispatch
        failed = (await dispatch("details", {}, site="http")).failure
        assert failed is not None
        assert (failed.code, failed.status_code) == ("odd", 409)
        found = {"nan": None, "object": "<_Secret>", "set": [1], "1,2": "x", "when": "2026-01-01"}
        assert failed.details == found
        failed = (await dispatch("endless", {}, site="http")).failure
        assert failed is not None
        assert (failed.code, failed.details) == ("odd", None)

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

    def test_a_direct_call_keeps_the_set_closed(self) -> None:
        """Section 6: what the action does not declare is `action_failed` in Python too; its own denials keep theirs."""

        @action(errors=action_errors("known"))
        def f(code: str) -> None:
            """Fail."""
            raise ActionError("No.", code=code)

        for code, seen in (("known", "known"), ("other", "action_failed")):
            with pytest.raises(ActionError) as raised:
                f(code)
            assert raised.value.code == seen
        with pytest.raises(InvalidArgumentsError) as invalid:
            f(5)
        assert invalid.value.code == "invalid_arguments"

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
