from __future__ import annotations

import asyncio
import base64
import io
import threading
from typing import Any

import pytest

from chatnb._ports import FunctionCall, FunctionResult
from chatnb.actions import Action, ActionContext, Identity, action, find_identity
from chatnb.actions.environment import Presented
from chatnb.actions.results import truncate
from chatnb.errors import ActionError
from chatnb.testing import check_annotations

from .agents import calls, chat_of, last_results, parts
from .fakes import ANN, FakeTurn, InlineCalls, bench

PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f0005000"
        "1ff5c75cb0e0000000049454e44ae426082"
    )
).decode()


class Shelf:
    """The `Objects` port, in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def keep(self, value: object, *, action: str, tool_call_id: str | None) -> str | None:
        name = f"{action.replace('-', '_')}_{len(self.kept) + 1}"
        self.kept[name] = value
        return name

    def present(self, value: object) -> Presented:
        return Presented(type=type(value).__name__, summary="said", bundle={"text/plain": "shown"})


async def output_of(made: Action, raw: Any = None, **fields: Any) -> Any:
    settled = await bench(made, **fields).dispatcher.dispatch(made.name, raw or {}, site="widget")
    assert settled.is_success, settled.failure
    return settled.output


class TestModelOutput:
    async def test_json_stays_and_none_is_null(self) -> None:
        """9.2; C26 of messages.md: plain JSON as it is; None is null."""

        @action(read_only=True)
        def f(value: Any = None) -> Any:
            """Echo."""
            return value

        for value in ({"a": [1, 2.5, None]}, "text", 3, None):
            assert await output_of(f, {"value": value}) == value
        async with chat_of([f], calls(("f", {}))) as mock:
            await mock.chat.send("go")
            sent = [c for c in mock.chunks if c["type"] == "tool-output-available"]
            assert sent[0]["output"] is None

    async def test_objects_are_named_and_described(self) -> None:
        """9.1, 9.2: the very object is kept by name; the model gets name, type and summary."""
        marker = object()

        @action(read_only=True, name="make-it")
        def f():  # type: ignore[no-untyped-def]
            """Make."""
            return marker

        shelf = Shelf()
        assert await output_of(f, objects=shelf) == {"object": "make_it_1", "type": "object", "summary": "said"}
        assert shelf.kept["make_it_1"] is marker

    async def test_frames_without_a_port(self) -> None:
        """9.2: frames as type, shape, columns with dtypes and the first five rows."""
        import pandas

        @action(read_only=True)
        def f():  # type: ignore[no-untyped-def]
            """Make."""
            return pandas.DataFrame({"n": range(100), "s": ["secret row"] * 100})

        said = await output_of(f)
        assert said["type"] == "DataFrame"
        assert "(100, 2)" in said["summary"]
        assert "n: int64" in said["summary"]
        assert said["summary"].count("secret row") == 5

    async def test_a_long_text_is_cut(self) -> None:
        """9.2: over `max_result_chars` it is cut, says so, and is a string."""

        @action(read_only=True, max_result_chars=200)
        def f() -> list[int]:
            """Make."""
            return list(range(1000))

        said = await output_of(f, objects=Shelf())
        assert isinstance(said, str)
        assert len(said) <= 200
        assert said.endswith("of 4890 characters; object f_1]") or "characters; object f_1]" in said
        text = "x" * 300
        assert truncate(text, 300, None) is text

    async def test_to_model_output(self, caplog: pytest.LogCaptureFixture) -> None:
        """9.2: `to_model_output` decides; when it raises, the ordinary output stands and a line is logged."""

        def make(**options: Any) -> Action:
            @action(read_only=True, **options)
            def f() -> dict[str, int]:
                """Make."""
                return {"n": 1}

            return f

        assert await output_of(make(to_model_output=lambda result: f"n is {result['n']}")) == "n is 1"
        assert await output_of(make(to_model_output=lambda result: result["x"])) == {"n": 1}
        assert "to_model_output" in caplog.text


class TestImages:
    async def test_limits_and_notes(self) -> None:
        """C43: five valid images and an http URL first: four attached, two dropped notes; the store holds no base64."""

        @action(read_only=True)
        def f() -> dict[str, Any]:
            """Draw."""
            good = {"data": PIXEL, "media_type": "image/png", "label": "dot"}
            return {"n": 1, "_agent_images": [{"url": "http://x/y.png"}, *[good] * 5]}

        turn = FakeTurn([f], accepts_images=True)
        ended = await turn.step(("f", {}))
        assert ended.images is not None
        ((items),) = ended.images.values()
        assert len(items) == 4
        output = turn.parts()[0].output
        assert output.startswith('{"n":1}\n[image dropped: ')
        assert output.count("[image dropped: ") == 2
        assert output.count("[image: image/png, ") == 4
        assert "dot]" in output
        assert PIXEL not in str(turn.message.to_wire())
        blind = FakeTurn([f])
        assert (await blind.step(("f", {}))).images is None

    async def test_a_figure(self) -> None:
        """C44: the model gets one PNG and a note; the object is the figure itself."""
        import matplotlib

        matplotlib.use("agg")
        from matplotlib.figure import Figure

        figure = Figure(figsize=(30, 2))
        figure.subplots().plot([1, 2])

        @action(read_only=True)
        def plot():  # type: ignore[no-untyped-def]
            """Draw."""
            return figure

        shelf = Shelf()
        turn = FakeTurn([plot], accepts_images=True, objects=shelf)
        ended = await turn.step(("plot", {}))
        assert ended.images is not None
        ((item,),) = ended.images.values()
        assert item["mediaType"] == "image/png"
        assert shelf.kept["plot_1"] is figure
        assert "[image: image/png" in turn.parts()[0].output
        from PIL import Image

        data = base64.b64decode(item["data"]["url"].partition(",")[2])
        assert max(Image.open(io.BytesIO(data)).size) <= 1568

    async def test_bad_entries_are_notes(self) -> None:
        """9.4: bad entries never fail a call; a field that is no list is ignored."""
        bad = [3, {"data": "!!"}, {"data": "aaaa"}, {"url": "https://x/y.svg", "media_type": "image/svg+xml"}, {}]

        @action(read_only=True)
        def f(listed: bool) -> dict[str, Any]:
            """Draw."""
            return {"_agent_images": bad if listed else "nothing"}

        assert (await output_of(f, {"listed": True})).count("[image dropped: ") == len(bad)
        assert await output_of(f, {"listed": False}) == {}


class TestWhileRunning:
    async def test_progress_and_lines(self) -> None:
        """9.5: from any thread; the last progress and all lines arrive."""
        shown: list[Any] = []

        @action(read_only=True)
        def f(ctx: ActionContext) -> str:
            """Work."""

            def work() -> None:
                for n in range(500):
                    ctx.progress(n + 1, 500, "counting")
                    ctx.log(f"line {n}")

            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            return "ok"

        at = bench(f)
        await at.dispatcher.dispatch(
            "f", {}, site="cli", show=lambda progress, lines: shown.append((progress, len(lines)))
        )
        assert shown[-1] == ({"done": 500, "total": 500, "text": "counting"}, 200)
        assert len(shown) < 20

    async def test_timeout_stop_and_ctrl_c(self) -> None:
        """C45 and section 10: the call settles with its code, a write stays committed, the turn goes on."""

        class Ends(InlineCalls):
            def __init__(self, reason: Any) -> None:
                self.reason = reason

            async def run(self, call: FunctionCall) -> FunctionResult:
                assert call.enter is not None
                call.enter()
                return FunctionResult(error=KeyboardInterrupt(), reason=self.reason)

        @action(timeout=2)
        def write() -> None:
            """Write."""

        for reason, code, text in (
            ("timeout", "timeout", "timed out after 2 s"),
            ("interrupted", "interrupted", "Interrupted by the user."),
            ("raised", "interrupted", "Interrupted by the user."),
        ):
            turn = FakeTurn([write])
            turn.calls = Ends(reason)
            ended = await turn.step(("write", {}))
            (part,) = turn.parts()
            assert (part.error_text, ended.ends_turn) == (text, False)
            assert part.tool_metadata == {"chatnb": {"errorCode": code, "effect": "committed"}}

    async def test_a_guard_that_is_too_slow_asks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """2.4, 4.1: too slow counts as raising, and raising asks."""
        monkeypatch.setattr("chatnb.actions.guards.LIMIT_SECONDS", 0.05)
        gate = threading.Event()

        @action(needs_approval=lambda args: not gate.wait(5))
        def f() -> None:
            """Do."""

        settled = await bench(f).dispatcher.dispatch("f", {}, site="http")
        gate.set()
        assert settled.failure is not None
        assert settled.failure.code == "approval_required"


class Frame:
    """A class without JSON Schema."""


class Names:
    """A `Resolve` over a dict."""

    def __init__(self, **names: object) -> None:
        self.names = names

    def __call__(self, name: str, wanted: Any) -> object:
        if name not in self.names:
            raise ActionError(f"no {name}", code="unknown_variable")
        return self.names[name]

    def remember(self, name: str) -> object:
        return id(self.names[name]) if name in self.names else None


class TestVariables:
    async def test_only_the_handler_gets_the_object(self) -> None:
        """C46: guard, ask, hash and audit have the name; the handler the object, never a copy."""
        frame = Frame()
        seen: list[Any] = []

        @action(authorize=lambda args: seen.append(args["df"]), needs_approval=True)
        def f(df: Frame) -> str:
            """Use."""
            seen.append(df)
            return "ok"

        at = bench(f, resolve=Names(orders=frame))
        settled = await at.dispatcher.dispatch("f", {"df": "orders"}, site="widget", identity=ANN, proof=True)
        assert settled.is_success
        assert seen == ["orders", frame]
        assert at.books.audits[0].input == {"df": "orders"}

    async def test_an_unknown_name_enters_nothing(self) -> None:
        """Notebook.md 5: a failure that the model can act on; the write entered nothing."""

        @action
        def f(df: Frame) -> None:
            """Use."""

        at = bench(f, resolve=Names())
        settled = await at.dispatcher.dispatch("f", {"df": "orders"}, site="http")
        assert settled.failure is not None
        assert (settled.failure.code, settled.effect, at.books.calls) == ("unknown_variable", "none", {})

    @pytest.mark.parametrize("rebind", [False, True])
    async def test_a_gated_call_remembers_what_its_names_meant(self, rebind: bool) -> None:
        """Notebook.md 5: a name that means another object when the approved call is due: `variable_changed`."""
        from chatnb.messages import decide_call

        @action(needs_approval=True)
        def f(df: Frame) -> str:
            """Use."""
            return "ok"

        names = Names(orders=Frame())
        turn = FakeTurn([f], resolve=names)
        await turn.step(("f", {"df": "orders"}))
        (grant,) = turn.books.grants.values()
        turn.books.move_grant(grant.id, {"pending"}, "approved")
        turn.edit(lambda message: decide_call(message, grant.id, True))
        if rebind:
            names.names["orders"] = Frame()
        await turn.site.resume_calls(turn)  # type: ignore[arg-type]
        (part,) = turn.parts()
        if rebind:
            assert part.tool_metadata is not None
            assert part.tool_metadata["chatnb"]["errorCode"] == "variable_changed"
        else:
            assert part.output == "ok"


class TestIdentity:
    def test_sources(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """2.7: the agent's, else the environment's, else the login user of a kernel or terminal, else nobody."""
        monkeypatch.setattr("getpass.getuser", lambda: "ann")
        assert find_identity(ANN, host="kernel") is ANN
        assert find_identity("bob") == Identity("bob")
        assert find_identity(None, host="script", environment={"CHATNB_IDENTITY": "ci"}) == Identity("ci")
        assert find_identity(None, host="terminal", environment={}) == Identity("local:ann", name="ann")
        assert find_identity(None, host="script", environment={}) is None

    async def test_it_reaches_the_handler(self) -> None:
        """2.6: the context is set by the dispatcher, never from input."""

        @action(read_only=True)
        async def f(ctx: ActionContext) -> str:
            """Say."""
            await asyncio.sleep(0)
            assert ctx.identity is not None
            return f"{ctx.site} {ctx.identity.id}"

        assert await output_of(f, identity=ANN) == "widget ann"
        settled = await bench(f).dispatcher.dispatch("f", {}, site="cli", identity=ANN)
        assert settled.value == "cli ann"


class TestCheckAnnotations:
    def test_exposed_writes_declare_destructive(self) -> None:
        """11.2: every exposed write needs a declared `destructiveHint`."""
        from chatnb import Agent

        def read() -> None:
            """Read."""

        def write() -> None:
            """Write."""

        declared = Action(write, mcp_annotations={"destructiveHint": False})
        good = [Action(read, read_only=True), declared, Action(read, name="hidden", agent_tool=False)]
        check_annotations(Agent("offline", actions=good))
        with pytest.raises(AssertionError, match="undeclared"):
            check_annotations(Agent("offline", actions=[*good, Action(write, name="undeclared")]))


async def test_the_model_request_has_the_result() -> None:
    """9.2: the part's output is exactly what the model gets."""

    @action(read_only=True)
    def f() -> dict[str, int]:
        """Look."""
        return {"n": 41}

    async with chat_of([f], calls(("f", {}))) as mock:
        await mock.chat.send("go")
        assert parts(mock)[0].output == {"n": 41}
        assert '{"n": 41}' in last_results(mock)


@pytest.mark.parametrize("kind", ["deep", "deeper", "circle", "long number"])
async def test_what_no_message_can_hold_is_an_object(kind: str) -> None:
    """9.1: a JSON value goes to the model as it is; all else, too deep and too large ones too, by name and summary."""

    @action(read_only=True)
    def f() -> Any:
        """Look."""
        made: Any = []
        if kind == "circle":
            made.append(made)
        for _ in range({"deep": 300, "deeper": 5000}.get(kind, 0)):
            made = {"in": made}
        return {"n": 10**5000} if kind == "long number" else made

    async with chat_of([f], calls(("f", {}))) as mock:
        assert (await mock.chat.send("go")).status == "completed"
        part = parts(mock)[0]
        assert (part.state, part.output["object"]) == ("output-available", "f_1")
        assert (await mock.chat.send("and?")).error is None
