"""RecordedModel: recorded once, replayed ever after, without secrets (spec/notebook.md, section 8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatnb.errors import ConfigError, ModelError, RecordingDriftError, RecordingFormatError
from chatnb.models import EPHEMERAL_OPTIONS, AnthropicModel, RecordedModel, Reply, ScriptedModel, Usage
from chatnb.models.redaction import Redactor
from chatnb.testing.fake_anthropic import FakeAnthropic
from tests.models.build import Waits, ask, assistant, call, chunks_until_error, collect, results, text_of, user

SECRET = "topsecret-value-123"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lesson.jsonl"


def lines_of(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines() if path.exists() else []


def write(path: Path, *lines: str) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


async def record(path: Path, *steps: Any, **more: Any) -> RecordedModel:
    model = RecordedModel(path, ScriptedModel(list(steps)), mode="record")
    for index in range(len(steps)):
        await collect(model, ask(f"prompt {index + 1}", chat_id="c", **more))
    return model


class TestReplay:
    async def test_what_was_recorded_comes_back(self, path: Path) -> None:
        """`replay` never asks: the same chunks, usage and end."""
        step = Reply("a b", reasoning="r", calls=[("f", {"x": 1})], usage=Usage(1, 2, 3, 4, 5, 0.5))
        live = await collect(RecordedModel(path, ScriptedModel([step])), ask("hi", chat_id="one"))
        replayed = await collect(RecordedModel(path, mode="replay"), ask("hi", chat_id="another"))
        assert replayed == live

    async def test_the_file(self, path: Path) -> None:
        """JSON lines: a head, then per request its canonical form and chunks with milliseconds."""
        await record(path, "a")
        head, line = [json.loads(text) for text in lines_of(path)]
        assert head == {"format": "chatnb-recording", "version": 1, "model": "scripted"}
        assert line["request"]["messages"][0]["role"] == "user"
        assert all(at >= 0 for at, _ in line["chunks"])

    async def test_timing(self, path: Path) -> None:
        """Timing is replayed, faster by `speed`; `speed=None` drops waiting."""
        await record(path, "a b c")
        lines = lines_of(path)
        entry = json.loads(lines[1])
        entry["chunks"] = [[100 * (n + 1), item] for n, (_, item) in enumerate(entry["chunks"])]
        write(path, lines[0], json.dumps(entry))
        for speed, expected in ((1.0, 0.1), (2.0, 0.05), (None, 0)):
            waits = Waits()
            await collect(RecordedModel(path, speed=speed), ask("prompt 1", sleep=waits))
            assert sum(waits.seconds) == pytest.approx(expected * len(entry["chunks"]))

    async def test_auto_records_the_rest(self, path: Path) -> None:
        """`auto` replays what the file has and records the rest if there is a model."""
        await record(path, "one")
        live = ScriptedModel(["two"])
        model = RecordedModel(path, live)
        assert text_of(await collect(model, ask("prompt 1", chat_id="x"))) == "one"
        assert text_of(await collect(model, ask("next", chat_id="x"))) == "two"
        assert len(live.requests) == 1
        again = RecordedModel(path)
        for prompt, text in (("prompt 1", "one"), ("next", "two")):
            assert text_of(await collect(again, ask(prompt, chat_id="y"))) == text

    async def test_chats_are_matched_on_their_own(self, path: Path) -> None:
        """Requests are matched in order per chat, whatever the order between chats."""
        model = RecordedModel(path, ScriptedModel(["a1", "b1", "a2"]))
        for prompt, chat in (("a", "A"), ("b", "B"), ("aa", "A")):
            await collect(model, ask(prompt, chat_id=chat))
        again = RecordedModel(path)
        told = [text_of(await collect(again, ask(p, chat_id=c))) for p, c in (("b", "1"), ("a", "2"), ("aa", "2"))]
        assert told == ["b1", "a1", "a2"]

    async def test_ids_and_ephemeral_text_take_no_part(self, path: Path) -> None:
        """Ids, times, the kernel note and the variable list do not take part."""

        def history(call_id: str, note: str) -> Any:
            last = {"type": "text", "text": note, "providerOptions": EPHEMERAL_OPTIONS}
            return (user("a"), assistant(call(call_id)), results((call_id, 1)), {"role": "user", "content": [last]})

        await collect(RecordedModel(path, ScriptedModel(["x"])), ask(*history("c1", "df: 3 rows"), turn_number=1))
        replay = RecordedModel(path, mode="replay")
        assert text_of(await collect(replay, ask(*history("zz", "df: 4 rows"), turn_number=9))) == "x"

    async def test_stopped_and_failed_requests_are_not_written(self, path: Path) -> None:
        """A request is written whole when its stream ended; a stopped or failed one is not."""
        model = RecordedModel(path, ScriptedModel([Reply("a", fail=ModelError("x")), "b c d"]))
        await chunks_until_error(model, ask("hi"))
        stream: Any = model.stream(ask("hi"))
        await anext(stream)
        await stream.aclose()
        assert lines_of(path) == []


class TestDrift:
    async def test_another_prompt(self, path: Path) -> None:
        """C34: RecordingDriftError naming request 1 and the path; the prompt is not in the text."""
        await record(path, "a")
        _, error = await chunks_until_error(RecordedModel(path), ask("private words"))
        assert isinstance(error, RecordingDriftError)
        for part in ("Request 1", "messages[0].content[0].text", "text", "record"):
            assert part in str(error)
        assert "private words" not in str(error)
        assert "prompt 1" not in str(error)

    async def test_off_the_end(self, path: Path) -> None:
        """Off the end without a model: the same error."""
        await record(path, "a")
        model = RecordedModel(path)
        await collect(model, ask("prompt 1"))
        _, error = await chunks_until_error(model, ask("prompt 2"))
        assert isinstance(error, RecordingDriftError)
        assert "request 2" in str(error)

    @pytest.mark.parametrize(
        "text", ["hello", '{"format": "other"}', '{"format": "chatnb-recording", "version": 2}', "[]"]
    )
    def test_other_files(self, path: Path, text: str) -> None:
        """Foreign or newer format: RecordingFormatError; the file is not touched."""
        path.write_text(text, "utf-8")
        with pytest.raises(RecordingFormatError):
            RecordedModel(path, ScriptedModel(["x"]))
        assert path.read_text("utf-8") == text

    def test_wrong_use(self, path: Path) -> None:
        """Options that can't work raise at once."""
        for more in ({"mode": "wat"}, {"mode": "record"}, {"speed": 0}):
            with pytest.raises(ConfigError):
                RecordedModel(path, **more)


class TestSecrets:
    async def test_a_key_that_is_echoed(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """C35: the key, echoed by the model in pieces, is not in the file, and replay works with no key set."""
        monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
        reply = Reply(f"Your key is {SECRET}.", chunk_size=5, calls=[("f", {"key": SECRET})])
        with FakeAnthropic([reply]) as server:
            live = RecordedModel(path, AnthropicModel("claude-x", base_url=server.url))
            await collect(live, ask(f"say {SECRET}"))
        written = "\n".join(lines_of(path))
        assert SECRET not in written
        assert "topse" not in written
        assert server.url not in written
        monkeypatch.delenv("ANTHROPIC_API_KEY")
        replay = RecordedModel(path)
        assert replay.name == "claude-x"
        assert text_of(await collect(replay, ask("say [redacted]"))) == "Your key is [redacted]."

    @pytest.mark.parametrize(
        "key",
        ["sk-ant-api03-" + "a1" * 20, "ghp_" + "A1" * 18, "AKIA" + "ABCD" * 4, "AIza" + "x1" * 18, "hf_" + "a1" * 15],
    )
    def test_vendor_keys(self, key: str) -> None:
        """Strings in the form of known vendors' keys are redacted, in keys of objects too."""
        assert Redactor().redact({key: [f"a {key} b"]}) == {"[redacted]": ["a [redacted] b"]}

    def test_short_values_stay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Values of fewer than 8 characters are no secrets."""
        monkeypatch.setenv("MY_TOKEN", "short")
        assert Redactor().redact("a short text") == "a short text"

    @given(st.integers(0, 5), st.lists(st.integers(1, 9), max_size=12))
    def test_any_split(self, lead: int, sizes: list[int]) -> None:
        """A secret is found however its text was split, and the rest stays as it was."""
        key = "sk-ant-api03-" + "a1" * 10
        text = "x" * lead + f" {key} end"
        pieces, at = [], 0
        for size in sizes:
            pieces.append(text[at : at + size])
            at += size
        pieces.append(text[at:])
        found = Redactor().redact_pieces(pieces)
        assert len(found) == len(pieces)
        assert "".join(found) == "x" * lead + " [redacted] end"
