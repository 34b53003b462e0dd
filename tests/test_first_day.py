"""What a newcomer meets on the first day: a slip is answered in one sentence that says what to write instead, and what
a cell shows of a value is short."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import chatnb
from chatnb import Agent, Chat, action
from chatnb.errors import ActionDefinitionError, ConfigError, InputError, PendingError
from chatnb.models import Reply, ScriptedModel, Usage
from chatnb.testing import mock_chat


def lookup(order: str, *, deep: bool = False) -> str:
    """Look up an order."""
    return order


def star(*names: str) -> str:
    """Take any number."""
    return ""


def rest(**options: str) -> str:
    """Take anything."""
    return ""


def counting(n: int) -> Any:
    """Count."""
    yield n


async def arriving(n: int) -> Any:
    """Count, later."""
    yield n


SLIPS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: Agent("offline", instruction="x"),
        TypeError,
        "no option 'instruction'; it is called instructions",
    ),
    (lambda: Agent("offline", tools=[lookup]), TypeError, "it is called actions here"),
    (lambda: Agent("offline", system_prompt="x"), TypeError, "it is called instructions here"),
    (lambda: Agent("offline", output_type=int), TypeError, "ends_turn=True"),
    (lambda: Agent("offline", max_step=3), TypeError, "did you mean 'max_steps'"),
    (lambda: Agent("offline", zzz=3), TypeError, "known: model, name"),
    (lambda: Agent("offline", instructions=lambda: "x"), ConfigError, "take one argument, the turn"),
    (lambda: Agent("offline").on_turn_start(lambda: None), ConfigError, "takes one argument, the event"),
    (lambda: Agent("offline").run(lambda turn, more: None), ConfigError, "takes one argument, the turn"),
    (lambda: Agent("gpt-5"), ConfigError, "PydanticAIModel('openai:gpt-5')"),
    (lambda: Agent("openai:gpt-5"), ConfigError, "PydanticAIModel('openai:gpt-5')"),
    (lambda: Agent("anthropic:claude-sonnet-4-5"), ConfigError, "Leave the vendor out: 'claude-sonnet-4-5'"),
    (lambda: Agent("claud-sonnet-4-5"), ConfigError, "Did you mean 'claude-sonnet-4-5'"),
    (lambda: Agent("Claude-sonnet-4-5"), ConfigError, "Did you mean 'claude-sonnet-4-5'"),
    (lambda: Agent("sonnet-4-5"), ConfigError, "Did you mean 'claude-sonnet-4-5'"),
    (lambda: Agent("offlin"), ConfigError, "Did you mean 'offline'"),
    (lambda: Agent("offline", actions=[lookup, lookup]), ActionDefinitionError, 'as in @action(name="other")'),
    (lambda: action(readonly=True)(lookup), ActionDefinitionError, "did you mean 'read_only'"),
    (lambda: action(zzz=True)(lookup), ActionDefinitionError, "known: name, title"),
    (lambda: action(star), ActionDefinitionError, "take one list"),
    (lambda: action(rest), ActionDefinitionError, "name each argument"),
    (lambda: action(counting), ActionDefinitionError, "ctx.progress"),
    (lambda: action(arriving), ActionDefinitionError, "ctx.progress"),
    (lambda: Chat(Agent("offline")), TypeError, r"agent.chat\(id\)"),
    (lambda: chatnb.Agnet, AttributeError, "did you mean 'Agent'"),
    (lambda: chatnb.tool, AttributeError, "did you mean 'action'"),
]


class TestSlips:
    """A mistake raises where it is made, and its text says what to do."""

    @pytest.mark.parametrize(("slip", "kind", "text"), SLIPS)
    def test_says_what_to_write(self, slip: Callable[[], Any], kind: type[Exception], text: str) -> None:
        """One sentence, at once, with the right name."""
        with pytest.raises(kind, match=text if "\\" in text else None) as raised:
            slip()
        assert "\\" in text or text in str(raised.value)
        assert "\n" not in str(raised.value)

    async def test_a_submission_is_no_outcome(self) -> None:
        """Reading the outcome's fields off a submission says that it is to be awaited; other names are just unknown."""
        async with mock_chat(Agent(ScriptedModel(["Hi."]))) as mock:
            submission = mock.chat.send("Hello")
            for name in ("text", "message", "status", "error", "usage"):
                with pytest.raises(AttributeError, match=r"await the submission, or call .result\(\)"):
                    getattr(submission, name)
            with pytest.raises(AttributeError, match="no attribute 'txt'"):
                getattr(submission, "txt")  # noqa: B009
            assert not hasattr(submission, "_repr_html_")
            assert (await submission).text == "Hi."

    async def test_a_text_stream_is_returned(self) -> None:
        """Awaiting `turn.stream_text()` fails the turn with a text that says to return it."""
        agent = Agent(ScriptedModel(["Hi."]))

        @agent.run
        async def answer(turn: Any) -> None:
            await turn.stream_text()

        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("Hello")
        assert outcome.error is not None
        assert "return turn.stream_text()" in outcome.error.message

    async def test_client_data_that_does_not_fit(self) -> None:
        """The error names the field and the fault, and no value."""

        class Person(BaseModel):
            name: str
            age: int

        async with mock_chat(Agent(ScriptedModel([]), client_data=Person)) as mock:
            outcome = await mock.chat.send("Hello", client_data={"name": "Ada", "age": "old-secret"})
        assert outcome.error is not None
        assert outcome.error.message == "InputError: client data: age: int_parsing"

    async def test_an_export_into_no_folder(self, tmp_path: Path) -> None:
        """The error names the folder that is missing, and not a temporary file."""
        async with mock_chat(Agent(ScriptedModel([]))) as mock:
            with pytest.raises(FileNotFoundError, match="There is no such folder; make it first") as raised:
                mock.chat.export("md", tmp_path / "none" / "chat.md")
        assert raised.value.filename == str(tmp_path / "none")

    async def test_a_reason_in_the_place_of_an_id(self) -> None:
        """`reject("too much")`: the reason is given by name."""

        @action(needs_approval=True)
        def refund(order: str) -> str:
            """Refund."""
            return order

        steps = [Reply(calls=[("refund", {"order": "7"})]), "Left."]
        async with mock_chat(Agent(ScriptedModel(steps), actions=[refund])) as mock:
            await mock.chat.send("Refund 7")
            with pytest.raises(PendingError, match=r"chat.reject\(reason=...\)"):
                mock.chat.reject("too much")
            assert len(mock.chat.pending) == 1

    async def test_a_double_of_something_else(self) -> None:
        """`mock_chat` says what it takes."""
        with pytest.raises(ConfigError, match="takes an Agent, not str"):
            async with mock_chat("offline"):  # type: ignore[arg-type]
                pass
        with pytest.raises(ConfigError, match="ScriptedModel"):
            async with mock_chat(Agent("offline"), model=["Hi."]):
                pass


class TestPlainLoops:
    """A script that knows nothing of asyncio streams with `for`."""

    def test_chunks_come_as_they_are_made(self, tmp_path: Path) -> None:
        """The chunks of the turn, in order; actions run on this thread meanwhile; a second loop gets the same."""
        ran_on: list[threading.Thread] = []

        @action(read_only=True)
        def look(order: str) -> str:
            """Look up an order."""
            ran_on.append(threading.current_thread())
            return "open"

        steps = [Reply("One two", delay=0.01, calls=[("look", {"order": "7"})]), "Done."]
        chat = Agent(ScriptedModel(steps), actions=[look], store=f"sqlite:///{tmp_path / 'chats.db'}").chat()
        submission = chat.send("How is order 7?")
        chunks = list(submission)
        assert [chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta"] == ["One ", "two", "Done."]
        assert (chunks[0]["type"], chunks[-1]["type"]) == ("start", "finish")
        assert ran_on == [threading.main_thread()]
        assert list(submission) == chunks
        assert submission.result().text == "One two\n\nDone."
        assert list(chat.undo()) == []
        chat.close()


class TestShown:
    """What a cell shows of a value is one short line."""

    async def test_outcome(self) -> None:
        """An outcome shows status and text, what is pending, and why it failed; not the message's parts."""

        @action(needs_approval=True)
        def refund(order: str) -> str:
            """Refund."""
            return order

        steps = ["Hello. " * 200, Reply(calls=[("refund", {"order": "7"})])]
        async with mock_chat(Agent("offline", actions=[refund]), model=ScriptedModel(steps)) as mock:
            first, second = await mock.chat.send("Hi"), await mock.chat.send("Refund 7")
            third = await mock.chat.send("Again")
        assert repr(first).startswith("Outcome('completed', text='Hello. Hello.")
        assert repr(first).endswith("turn=0, steps=1, finish_reason='stop')")
        assert len(repr(first)) < 400
        assert repr(second) == "Outcome('awaiting', pending=[refund], turn=1, steps=1, finish_reason='tool-calls')"
        assert "ScriptExhaustedError" in repr(third)
        assert "Part(" not in repr(first) + repr(second) + repr(third)

    def test_usage(self) -> None:
        """Usage shows the numbers that are known."""
        assert repr(Usage()) == "Usage()"
        assert repr(Usage(input_tokens=3, output_tokens=0, cost=0.0000125)) == (
            "Usage(input_tokens=3, output_tokens=0, cost=1.3e-05)"
        )
        assert repr(Usage(complete=False)) == "Usage(complete=False)"

    def test_definitions(self) -> None:
        """An action shows what it takes, an agent how many actions it has."""
        assert repr(action(lookup)) == "<Action lookup(order: string, deep?: boolean)>"
        assert repr(Agent("offline", actions=[lookup])) == "Agent('offline', name='agent', 1 action)"
        assert repr(Agent("offline")).endswith("0 actions)")

    def test_signatures(self) -> None:
        """What an editor and `help()` show: the function's own signature, and all options of an agent."""
        assert list(inspect.signature(action(lookup)).parameters) == ["order", "deep"]
        assert "instructions" in inspect.signature(Agent).parameters
        assert inspect.getdoc(action(lookup)) == "Look up an order."


class TestFiles:
    """`send(files=)` takes what a notebook has at hand."""

    async def test_pictures_and_links(self) -> None:
        """Figures, axes and images go as PNG, links as links; the part says its type."""
        pyplot = pytest.importorskip("matplotlib.pyplot")
        image = pytest.importorskip("PIL.Image").new("RGB", (3000, 2))
        figure, axes = pyplot.subplots()
        link = "https://example.org/a/plot.PNG?size=2"
        try:
            async with mock_chat(Agent(ScriptedModel(["Nice."]))) as mock:
                await mock.chat.send("Look", files=[image, figure, axes, link])
                parts = [part.to_wire() for part in mock.chat.messages[0].parts[1:]]
        finally:
            pyplot.close(figure)
        assert [part["mediaType"] for part in parts] == ["image/png"] * 4
        assert all(part["url"].startswith("data:image/png;base64,iVBOR") for part in parts[:3])
        assert (parts[3]["url"], parts[3]["filename"]) == (link, "plot.PNG")

    @pytest.mark.parametrize("file", [b"raw", 5, object(), "https://example.org/", ("a", "text")])
    async def test_what_is_none(self, file: Any) -> None:
        """Anything else: InputError that names the forms, and nothing is written."""
        async with mock_chat(Agent(ScriptedModel([]))) as mock:
            with pytest.raises(InputError, match=r"a file is a path, a link|ends in a file's name"):
                mock.chat.send("Look", files=[file])
            assert mock.chat.messages == ()

    async def test_text_in_a_list(self) -> None:
        """A list of parts that holds text or a picture says where they go."""
        async with mock_chat(Agent(ScriptedModel([]))) as mock:
            with pytest.raises(InputError, match=r"text goes into send\(text\)"):
                mock.chat.send(["Look", 5])
