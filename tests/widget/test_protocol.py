"""The protocol's classes and the TypeScript made from them (spec/widget.md, section 3)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
from pydantic import ValidationError

from chatnb.widget import protocol, tool_part_state

ROOT = Path(__file__).resolve().parents[2]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_protocol", ROOT / "widgets" / "generate_protocol.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestTypeScript:
    def test_it_is_fresh(self) -> None:
        """Section 3: `protocol.ts` is generated from the classes, and this test fails when it is stale."""
        written = (ROOT / "widgets" / "src" / "protocol.ts").read_text("utf-8")
        assert written == generator().generate(), "run `python widgets/generate_protocol.py`"


class TestClasses:
    def test_every_type_of_the_tables_is_there(self) -> None:
        """3.1, 3.2: one class per `type`, with a literal discriminator."""
        commands = (
            "hello bye send act call cancel stop regenerate edit rollback switch remove undo redo clear continue "
            "discard approve reject toolStarted toolOutput toolError complete preview restore cellInserted takeOver "
            "loadEarlier loadPart getAsset getExtra export"
        )
        assert set(commands.split()) == protocol.COMMAND_TYPES
        frames = "ops reset mark ack secret unsupported page run insertCell asset"
        members = get_args(get_args(protocol.Frame)[0])
        assert {get_args(member.model_fields["type"].annotation)[0] for member in members} == set(frames.split())

    def test_unknown_fields_are_ignored(self) -> None:
        """3.4: unknown fields are ignored."""
        command = {"v": 1, "epoch": "", "view": "v", "id": "i", "type": "stop", "later": 1}
        assert protocol.COMMAND.validate_python(command).type == "stop"

    def test_a_command_needs_its_fields(self) -> None:
        """3.2: a command without a field it needs is invalid."""
        with pytest.raises(ValidationError):
            protocol.COMMAND.validate_python({"v": 1, "epoch": "", "view": "v", "id": "i", "type": "edit"})


class TestToolPartState:
    @pytest.mark.parametrize(
        ("state", "more", "wanted"),
        [
            ("input-streaming", {}, "streaming"),
            ("input-available", {}, "loading"),
            ("approval-requested", {}, "waiting-approval"),
            ("approval-responded", {"approval": {"id": "a", "approved": True}}, "approved"),
            ("approval-responded", {"approval": {"id": "a", "approved": False}}, "denied"),
            ("output-available", {}, "complete"),
            ("output-available", {"preliminary": True}, "loading"),
            ("output-error", {}, "error"),
            ("output-denied", {}, "denied"),
        ],
    )
    def test_words(self, state: str, more: dict[str, object], wanted: str) -> None:
        """Section 1: `tool_part_state(part)`."""
        assert tool_part_state({"type": "tool-x", "toolCallId": "c", "state": state, **more}) == wanted

    def test_no_call(self) -> None:
        """A part that is no call has no such state."""
        with pytest.raises(TypeError):
            tool_part_state({"type": "text", "text": "x"})
