from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatnb.actions import Action, action
from chatnb.actions.batches import find_held, split_batches
from chatnb.actions.change import Change

from .agents import calls, chat_of, ledger, part, parts
from .fakes import bench


class Diary(list[str]):
    """What handlers did, in order."""

    def read(self, name: str = "read", gate: asyncio.Event | None = None) -> Action:
        async def run(key: str = "") -> str:
            """Read."""
            self.append(f"{name}{key}>")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.append(f"<{name}{key}")
            return f"{len([e for e in self if e.startswith('write')])} writes"

        return Action(run, name=name, read_only=True)

    def write(self, name: str = "write", **options: Any) -> Action:
        async def run(key: str = "") -> str:
            """Write."""
            self.append(f"{name}{key}>")
            await asyncio.sleep(0)
            self.append(f"<{name}{key}")
            return "written"

        return Action(run, name=name, **options)


@pytest.fixture
def diary() -> Diary:
    return Diary()


class TestBatches:
    async def test_reads_overlap_and_writes_stand_alone(self, diary: Diary) -> None:
        """C37: the first two reads overlap, the write is alone, the last read sees it; results in model order."""
        step = calls(("read", {"key": "1"}), ("read", {"key": "2"}), ("write", {}), ("read", {"key": "3"}))
        async with chat_of([diary.read(), diary.write()], step) as mock:
            await mock.chat.send("go")
            assert diary == [
                "read1>", "read2>", "<read1", "<read2", "write>", "<write", "read3>", "<read3",
            ]  # fmt: skip
            results = [str(p.output) for p in parts(mock)]
            assert results[:3] == ["0 writes", "0 writes", "written"]
            assert results[3] != "0 writes"

    async def test_identical_reads_run_once(self, diary: Diary) -> None:
        """7.4: identical reads of one batch run once and share the result."""
        step = calls(("read", {}), ("read", {"key": ""}), ("read", {"key": "2"}))
        async with chat_of([diary.read()], step) as mock:
            await mock.chat.send("go")
            assert diary == ["read>", "read2>", "<read", "<read2"]
            assert all(p.state == "output-available" for p in parts(mock))

    async def test_every_call_gets_one_result_whatever_fails(self, diary: Diary) -> None:
        """8.1: invalid input, an exception, a success: one result each."""

        @action(parallel_safe=True)
        async def fails() -> None:
            """Fail."""
            raise RuntimeError("x")

        step = calls(("fails", {}), ("read", {"key": 1}), ("fails", {"odd": 1}), ("write", {}))
        async with chat_of([fails, diary.read(), diary.write()], step) as mock:
            assert (await mock.chat.send("go")).status == "completed"
            assert [p.state for p in parts(mock)] == [
                "output-error",
                "output-error",
                "output-error",
                "output-available",
            ]
            results = [c["toolCallId"] for c in mock.chunks if c["type"].startswith("tool-output")]
            assert sorted(results) == sorted({p.tool_call_id for p in parts(mock)})

    @given(st.lists(st.sampled_from(["read", "parallel", "serial"]), max_size=12))
    def test_order_law(self, kinds: list[Any]) -> None:
        """8.1 as a property: batches keep the order, neighbours of one class are together, serial calls alone."""
        batches = split_batches(list(enumerate(kinds)))
        assert [n for batch in batches for n in batch] == list(range(len(kinds)))
        for batch in batches:
            assert len({kinds[n] for n in batch}) == 1
            assert len(batch) == 1 or kinds[batch[0]] != "serial"
        for one, other in itertools.pairwise(batches):
            assert kinds[one[0]] != kinds[other[0]] or kinds[one[0]] == "serial"

    @given(st.lists(st.tuples(st.sampled_from(["read", "parallel", "serial"]), st.booleans()), max_size=12))
    def test_held_law(self, made: list[Any]) -> None:
        """8.2 as a property: exactly the serial calls behind a gated one are held."""
        gated = [n for n, (_, is_gated) in enumerate(made) if is_gated]
        expected = {
            n for n, (kind, is_gated) in enumerate(made) if not is_gated and kind == "serial" and gated and gated[0] < n
        }
        assert find_held(made) == expected

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(st.sampled_from(["read", "parallel", "serial", "gated"]), min_size=1, max_size=6),
        st.booleans(),
    )
    def test_any_mixture(self, kinds: list[str], approve: bool) -> None:
        """8.1, 8.2 as a property: any mixture, approved or rejected: one result each, and the order law holds."""
        asyncio.run(_play(kinds, approve))


async def _play(kinds: list[str], approve: bool) -> None:
    diary = Diary()
    actions = [
        diary.read(),
        diary.write("parallel", parallel_safe=True),
        diary.write("serial"),
        diary.write("gated", needs_approval=True),
    ]
    step = calls(*((kind, {"key": f"-{n}"}) for n, kind in enumerate(kinds)))
    async with chat_of(actions, step) as mock:
        await mock.chat.send("go")
        gated = [n for n, kind in enumerate(kinds) if kind == "gated"]
        held = [n for n, kind in enumerate(kinds) if kind == "serial" and gated and n > gated[0]]
        started = [int(entry.rstrip(">").rpartition("-")[2]) for entry in diary if entry.endswith(">")]
        assert sorted(started) == [n for n in range(len(kinds)) if n not in gated and n not in held]
        for asked in mock.chat.pending:
            await (mock.chat.approve(asked.id) if approve else mock.chat.reject(asked.id))
        done = [int(entry.rstrip(">").rpartition("-")[2]) for entry in diary if entry.endswith(">")]
        assert done[len(started) :] == ([n for n in range(len(kinds)) if n in gated or n in held] if approve else [])
        final = {"output-available", "output-error", "output-denied"}
        assert len(parts(mock)) == len(kinds)
        assert {p.state for p in parts(mock)} <= final
        results = [c["toolCallId"] for c in mock.chunks if c["type"].startswith("tool-output")]
        assert len(results) == len(set(results)) == len(kinds)
        serial = [entry for entry in diary if entry.lstrip("<").startswith(("serial", "gated"))]
        assert all(one == f"<{other[:-1]}" for other, one in zip(serial[::2], serial[1::2], strict=True))


class TestHeldCalls:
    @pytest.fixture
    def actions(self, diary: Diary) -> list[Action]:
        return [diary.write("gated", needs_approval=True), diary.write("serial"), diary.read()]

    STEP = calls(("gated", {}), ("serial", {}), ("read", {}))

    async def test_approved(self, diary: Diary, actions: list[Action]) -> None:
        """C38: the read runs now, the serial write waits; after approval gated, then held."""
        async with chat_of(actions, self.STEP) as mock:
            assert (await mock.chat.send("go")).status == "awaiting"
            assert diary == ["read>", "<read"]
            assert [p.action for p in mock.chat.pending] == ["gated"]
            assert (await mock.chat.approve()).status == "completed"
            assert diary[2:] == ["gated>", "<gated", "serial>", "<serial"]
            assert [p.state for p in parts(mock)] == ["output-available"] * 3

    async def test_rejected(self, diary: Diary, actions: list[Action]) -> None:
        """C39: the held call settles as not executed, handler 0; every call has a result."""
        async with chat_of(actions, self.STEP) as mock:
            await mock.chat.send("go")
            assert (await mock.chat.reject()).status == "completed"
            assert diary == ["read>", "<read"]
            assert [p.state for p in parts(mock)] == ["output-denied", "output-error", "output-available"]
            assert "not_executed" in (parts(mock)[1].error_text or "")

    async def test_it_survives_a_restart(self, diary: Diary, actions: list[Action]) -> None:
        """8.2: a held call is durable as its part."""
        async with chat_of(actions, self.STEP) as mock:
            await mock.chat.send("go")
            await mock.restart(kill=True)
            assert (await mock.chat.approve()).status == "completed"
            assert diary[2:] == ["gated>", "<gated", "serial>", "<serial"]

    async def test_three_asks_in_any_order(self, diary: Diary) -> None:
        """8.2: a gated call that was itself approved runs, whatever became of the one before it."""
        step = calls(("gated", {"key": "1"}), ("gated", {"key": "2"}), ("serial", {}))
        actions = [diary.write("gated", needs_approval=True), diary.write("serial")]
        async with chat_of(actions, step) as mock:
            await mock.chat.send("go")
            one, two = mock.chat.pending
            await mock.chat.approve(two.id)
            assert (await mock.chat.reject(one.id)).status == "completed"
            assert diary == ["gated2>", "<gated2"]
            assert [p.state for p in parts(mock)] == ["output-denied", "output-available", "output-error"]


class TestEndsTurn:
    async def test_success_ends_it(self, diary: Diary) -> None:
        """C40: after a successful `ends_turn` later calls are not executed, without error, and no step follows."""
        actions = [diary.write("finish", ends_turn=True), diary.write()]
        async with chat_of(actions, calls(("finish", {}), ("write", {}))) as mock:
            outcome = await mock.chat.send("go")
            assert (outcome.status, len(mock.requests)) == ("completed", 1)
            assert diary == ["finish>", "<finish"]
            late = parts(mock)[1]
            assert late.state == "output-available"
            assert str(late.output).startswith("Not executed")

    async def test_failure_ends_nothing(self, diary: Diary) -> None:
        """C40: a failed one ends nothing."""

        @action(ends_turn=True)
        def finish() -> None:
            """Fail."""
            raise RuntimeError("x")

        async with chat_of([finish, diary.write()], calls(("finish", {}), ("write", {}))) as mock:
            await mock.chat.send("go")
            assert diary == ["write>", "<write"]
            assert len(mock.requests) == 2


class TestBreakers:
    async def test_the_same_result_eight_times(self) -> None:
        """C41: the same read eight times with the same result ends the turn; a changing result goes on."""

        @action(read_only=True)
        def same() -> str:
            """Read."""
            return "same"

        count = [0]

        @action(read_only=True)
        def poll() -> int:
            """Read."""
            count[0] += 1
            return count[0]

        async with chat_of([same], *[calls(("same", {})) for _ in range(9)]) as mock:
            outcome = await mock.chat.send("go")
            assert outcome.status == "error"
            assert outcome.error is not None
            assert (outcome.error.stage, outcome.error.code) == ("calls", "repeated_tool_call")
            assert len(mock.requests) == 8
        async with chat_of([poll], *[calls(("poll", {})) for _ in range(12)]) as mock:
            assert (await mock.chat.send("go")).status == "completed"

    @pytest.mark.parametrize(
        ("arguments", "limit", "code"),
        [
            (lambda n: {"n": 1}, 3, "repeated_identical_tool_error"),
            (lambda n: {"n": n}, 6, "repeated_tool_error_across_arguments"),
        ],
    )
    async def test_calls_that_can_not_be_read(self, arguments: Any, limit: int, code: str) -> None:
        """8.4: calls of an action that is not there, or without whole arguments, are a loop like any other."""
        for name, said in (("gone", arguments), ("f", lambda n: "{" + str(arguments(n)))):

            @action
            def f(n: int) -> None:
                """Never run."""

            async with chat_of([f], *[calls((name, said(n))) for n in range(9)]) as mock:
                outcome = await mock.chat.send("go")
                assert (outcome.status, outcome.error.code) == ("error", code)
                assert len(mock.requests) == limit

    @pytest.mark.parametrize(
        ("arguments", "limit", "code"),
        [
            (lambda n: {"n": 1}, 3, "repeated_identical_tool_error"),
            (lambda n: {"n": n}, 6, "repeated_tool_error_across_arguments"),
        ],
    )
    async def test_errors(self, arguments: Any, limit: int, code: str) -> None:
        """8.4: the identical error three times, or the same text six times across arguments."""

        @action
        def f(n: int) -> None:
            """Fail."""
            raise ValueError("always")

        async with chat_of([f], *[calls(("f", arguments(n))) for n in range(8)]) as mock:
            outcome = await mock.chat.send("go")
            assert outcome.error is not None
            assert outcome.error.code == code
            assert len(mock.requests) == limit

    async def test_forbidden_twice(self) -> None:
        """8.4: `forbidden` twice from one action; the calls after it are settled too."""

        @action(authorize=lambda args: False)
        def f(n: int) -> None:
            """Do."""

        async with chat_of([f], calls(*(("f", {"n": n}) for n in range(3)))) as mock:
            outcome = await mock.chat.send("go")
            assert outcome.error is not None
            assert outcome.error.code == "permanent_precondition"
            assert all(p.state in ("output-error", "output-available") for p in parts(mock))


class TestRefresh:
    async def test_one_change_from_each_site(self) -> None:
        """C42: a write emits one Change from widget, HTTP, agent and cell; a read or a failing write none."""

        @action
        def write(fail: bool = False) -> str:
            """Write."""
            if fail:
                raise RuntimeError("x")
            return "ok"

        @action(read_only=True)
        def read() -> str:
            """Read."""
            return "ok"

        at = bench(write, read)
        for site in ("widget", "http", "cli"):
            await at.dispatcher.dispatch("write", {}, site=site)  # type: ignore[arg-type]
        await at.dispatcher.dispatch("write", {"fail": True}, site="http")
        await at.dispatcher.dispatch("read", {}, site="http")
        assert [change.site for change in at.changes] == ["widget", "http", "cli"]
        assert [payload["site"] for payload in at.books.changes] == ["widget", "http", "cli"]

        heard: list[Change] = []
        async with chat_of([write, read], calls(("write", {}), ("read", {}), ("write", {"fail": True}))) as mock:
            mock.chat.on_change(heard.append)
            await mock.chat.send("go")
            await mock.done()
            assert [(c.action, c.site, c.chat_id) for c in heard] == [("write", "agent", "chat-1")]

    async def test_resources_of_nested_calls_belong_to_the_outermost(self) -> None:
        """8.5: one Change for the outermost call, with the resources that calls inside it named."""
        from chatnb.actions import ActionContext

        @action
        def inner(ctx: ActionContext) -> None:
            """Write."""
            ctx.changed("orders", "stock")

        @action
        def outer(ctx: ActionContext) -> str:
            """Write."""
            inner()
            ctx.changed("orders")
            return "ok"

        at = bench(outer)
        await at.dispatcher.dispatch("outer", {}, site="widget")
        (change,) = at.changes
        assert (change.action, change.resources) == ("outer", ("orders", "stock"))
        assert Change.from_json(change.to_json()) == change

    async def test_a_raising_observer_harms_nothing(self) -> None:
        """C42: the observer's error is logged; the call is unharmed."""

        @action
        def write() -> str:
            """Write."""
            return "ok"

        async with chat_of([write], calls(("write", {}))) as mock:

            @mock.chat.on_change
            def broken(change: Change) -> None:
                raise RuntimeError("x")

            assert (await mock.chat.send("go")).status == "completed"
            assert part(mock, parts(mock)[0].tool_call_id).output == "ok"
            assert ledger(mock) == [("write", "done", "committed")]


class TestDirectRefresh:
    async def test_a_call_from_a_cell_reaches_its_agents(self) -> None:
        """C42: a direct call emits one Change to each agent that has the action; a nested one none of its own."""
        from types import SimpleNamespace

        from chatnb.actions import Catalog
        from chatnb.actions.direct import add_python_site
        from chatnb.actions.environment import CallEnvironment

        from .fakes import ANN, MemoryBooks

        class Site(SimpleNamespace):
            __hash__ = object.__hash__

        @action
        def inner() -> None:
            """Write."""

        @action(authorize=lambda args, ctx: ctx.identity is not None)
        def outer() -> str:
            """Write."""
            inner()
            return "ok"

        heard: list[Change] = []
        books = MemoryBooks()
        site = Site(
            catalog=Catalog([outer]),
            environment=CallEnvironment(identity=ANN, books=books, publish_change=heard.append),
        )
        add_python_site(site)
        assert outer() == "ok"
        assert [(c.action, c.site, c.identity) for c in heard] == [("outer", "python", "ann")]
        assert [(row.action, row.status) for row in books.audits] == [("inner", "success"), ("outer", "success")]
        assert len(books.changes) == 1
