"""The names and signatures that users, notebooks and outside checks rely on: they may grow, what is here stays."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import subprocess
import sys
import typing
from types import ModuleType
from typing import Any

import pytest

import chatnb
from chatnb import Agent, Chat, ChatWidget, Objects, Recovery, ScriptedModel, Variables, errors

AGENT = (
    "model=None, *, name='agent', instructions=None, actions=(), chat_actions=None, store=None, concurrency='queue', "
    "steering=None, compaction=None, recovery=Recovery(), max_steps=20, client_data=None, identity=None, "
    "plan_mode=False, approval_ttl=None, objects=Objects(), variables=Variables(), runtime='auto'"
)
# A name that begins with `_` may be called anything.
SIGNATURES = {
    "chatnb.Agent": AGENT,
    "chatnb.Agent.chat": "self, id=None, *, client_data=None, take_over=False",
    "chatnb.Agent.load": "self, _json, id=None",
    "chatnb.Agent.on_change": "self, _fn",
    "chatnb.Chat.send": "self, _message, *, files=(), metadata=None, body=None, client_data=None, client_tools=()",
    "chatnb.Chat.act": "self, _chat_action, *, body=None, client_data=None",
    "chatnb.Chat.regenerate": "self, message_id=None, *, body=None, client_tools=()",
    "chatnb.Chat.continue_last_turn": "self, body=None, *, client_tools=()",
    "chatnb.Chat.save_messages": "self, _messages",
    "chatnb.Chat.undo": "self",
    "chatnb.Chat.redo": "self",
    "chatnb.Chat.clear": "self",
    "chatnb.Chat.rollback": "self, message_id",
    "chatnb.Chat.edit": "self, message_id, text",
    "chatnb.Chat.switch": "self, message_id",
    "chatnb.Chat.remove": "self, message_id",
    "chatnb.Chat.approve": "self, id=None, *, args=None, reason=None, continue_=True",
    "chatnb.Chat.reject": "self, id=None, *, reason=None, continue_=True",
    "chatnb.Chat.add_tool_output": "self, tool_call_id, output, *, continue_=True",
    "chatnb.Chat.add_tool_error": "self, tool_call_id, text, *, continue_=True",
    "chatnb.Chat.add_tool_approval_response": "self, id, approved, reason=None, *, continue_=True",
    "chatnb.Chat.stop": "self",
    "chatnb.Chat.discard": "self",
    "chatnb.Chat.stable": "self, timeout=None",
    "chatnb.Chat.inject": "self, messages",
    "chatnb.Chat.defer": "self, _awaitable",
    "chatnb.Chat.stash": "self, data",
    "chatnb.Chat.set_messages": "self, messages",
    "chatnb.Chat.persist_messages": "self, messages",
    "chatnb.Chat.restore_variables": "self, tool_call_id=None, *, force=False",
    "chatnb.Chat.on_change": "self, _fn",
    "chatnb.Chat.fork": "self, message_id=None, id=None",
    "chatnb.Chat.export": "self, format, path=None, *, branches=False",
    "chatnb.Chat.view": "self, **options",
    "chatnb.Chat.close": "self",
    "chatnb.Submission.result": "self, timeout=None",
    "chatnb.Submission.stop": "self",
    "chatnb.ClientTool": "name, description, parameters, js=None, form=None",
    "chatnb.StepEnd": "finish_reason, usage=None",
    "chatnb.TurnError": "stage, message, cause, code=None",
    "chatnb.RecoveryDecision": "*, persist=True, continue_=True, chain=None, recovered_inputs=None",
    "chatnb.Steering": "should_inject, prepare=None, on_received=None, on_injected=None",
    "chatnb.Compaction": "should_compact, summarize=None",
    "chatnb.Debounce": "seconds=0.75",
    "chatnb.Objects": "max_items, max_bytes",
    "chatnb.Variables": "share='summary', hide=()",
    "chatnb.StopTurn": "message, code='stopped'",
    "chatnb.compare": "prompt, models, *, agent=None, chat=None, repeat=1",
    "chatnb.history.History.set": "self, _list",
    "chatnb.history.History.remove": "self, id",
    "chatnb.history.History.rollback_to": "self, id",
    "chatnb.history.History.replace": "self, id, message",
    "chatnb.history.History.slice": "self, start, end=None",
    "chatnb.history.History.find_message": "self, id",
    "chatnb.history.History.branches": "self, id",
    "chatnb.history.History.switch": "self, id",
    "chatnb.history.History.extract_new_tool_results": "self, message",
    "chatnb.turns.Turn.stream_text": (
        "self, messages=None, *, model=None, instructions=None, actions=None, max_steps=None, **settings"
    ),
    "chatnb.messages.validate_messages": "value, *, metadata=None, data=None, tools=None",
    "chatnb.messages.safe_validate_messages": "value, *, metadata=None, data=None, tools=None",
    "chatnb.messages.validate_chunk": "value",
    "chatnb.messages.check_emittable": "chunk",
    "chatnb.messages.Fold": "message=None, *, id='', on_data=None",
    "chatnb.messages.Fold.feed": "self, chunk",
    "chatnb.messages.fold": "chunks, message=None, *, validate=True, strict=True",
    "chatnb.messages.parse_partial_json": "text",
    "chatnb.messages.SseDecoder.feed": "self, _data",
    "chatnb.messages.encode_sse": "chunk",
    "chatnb.messages.to_model_messages": "messages, *, tools=None, ignore_incomplete=False, convert_data=None",
    "chatnb.messages.is_complete_with_tool_calls": "messages",
    "chatnb.messages.is_complete_with_approval_responses": "messages",
    "chatnb.messages.settle_call": "message, tool_call_id, text",
    "chatnb.messages.decide_call": "message, approval_id, approved, reason=None, *, input=ABSENT",
    "chatnb.models.OfflineModel": "rhythm=True, seed=0",
    "chatnb.models.ScriptedModel": (
        "steps, *, loop=False, name='scripted', continuation='user-message', accepts_images=False"
    ),
    "chatnb.models.Reply": (
        "text='', *, reasoning='', calls=(), delay=0.0, chunk_size=None, fail=None, fail_after=None, hang=False, "
        "usage=None, finish_reason=None"
    ),
    "chatnb.models.RecordedModel": "path, model=None, *, mode='auto', speed=1.0",
    "chatnb.models.AnthropicModel": (
        "name, *, max_tokens=8192, thinking=None, cache=True, api_key=None, base_url=None, client=None, "
        "max_retries=3, timeout=600, prices=None"
    ),
    "chatnb.models.PydanticAIModel": "model",
    "chatnb.models.anthropic_messages": "model_messages, *, cache=True",
    "chatnb.testing.mock_chat": "agent, id='chat-1', *, model=None, store=None, messages=(), client_tools=()",
    "chatnb.testing.FakeAnthropic": "replies, *, no_prefill=()",
    "chatnb.testing.FakeReply": (
        "kind='message', *, text='', thinking='', calls=(), after=None, status=529, error_type=None, message='', "
        "headers=None, split=None, delay=0.0, events=()"
    ),
    "chatnb.testing.MockChat.restart": "self, kill=False",
    "chatnb.testing.MockChat.done": "self",
    "chatnb.testing.nbval_sanitizer": "",
    "chatnb.testing.shift_clock": "seconds",
    "chatnb.ChatWidget": (
        "chat, *, height='560px', theme='auto', placeholder=None, title=None, locale=None, suggestions=(), "
        "transcript=True, client_tools=None, on_tool_call=None, on_data=None, auto_continue_after_tool_result=True, "
        "resume=True, cancel_on_client_abort=False, body=None, prepare_send_messages_request=None, "
        "get_initial_messages=None, sync_messages=False, max_attachment_bytes=5_000_000, allow_attachments=True"
    ),
    "chatnb.ChatWidget.send_message": "self, _message, *, files=(), metadata=None, body=None",
    "chatnb.ChatWidget.regenerate": "self, message_id=None, *, body=None",
    "chatnb.ChatWidget.stop": "self",
    "chatnb.ChatWidget.clear_history": "self",
    "chatnb.ChatWidget.add_tool_output": "self, tool_call_id, output=None, *, state=None, error_text=None",
    "chatnb.ChatWidget.add_tool_approval_response": "self, id, approved, reason=None",
    "chatnb.ChatWidget.set_messages": "self, _messages",
    "chatnb.ChatWidget.resume_stream": "self",
    "chatnb.ChatWidget.close": "self",
    "chatnb.widget.tool_part_state": "part",
    "chatnb.kernel.actions.notebook_actions": "*, snapshot=False, approve_code=True",
}
NAMES = """
Agent Chat ChatWidget Submission Outcome Action action action_errors ActionContext PreparedCall UIMessage Debounce
Steering Compaction Recovery RecoveryDecision Turn Branch Identity StopTurn ConnectionNeeded Objects Variables Variable
ClientTool Interruption Change Usage StepEnd Pending Waiting TurnError compare ActionSpec Model ModelRequest
AnthropicModel OfflineModel ScriptedModel Reply RecordedModel
""".split()
FIELDS = {
    "Outcome": "status message text pending usage error turn finish_reason steps",
    "Pending": "kind id tool_call_id action title args hash message_id asked_at expires_at",
    "Waiting": "id kind text arrival",
    "TurnError": "stage message cause code",
    "Branch": "node_id message index active",
    "Usage": "input_tokens output_tokens cache_read_tokens cache_write_tokens reasoning_tokens cost complete",
    "StepEnd": "finish_reason usage",
    "ModelRequest": "messages instructions actions settings variables chat_id turn_number step stash",
    "ActionSpec": "name description input_schema",
    "Interruption": "turn_id message_id kind cause incident_id created_at interrupted_at offered reason inputs",
    "ClientTool": "name description parameters js form",
}
CHAT_STATE = """
id agent messages history status is_streaming is_server_streaming is_tool_continuation is_recovering error pending queue
usage objects interruption restorable has_pending_interaction
""".split()
HOOKS = """
on_boot on_chat_start on_validate_messages hydrate_messages on_turn_start prepare_messages run on_before_turn_complete
on_turn_complete on_action on_chat_recovery on_compacted on_tool_repair
""".split()
WIDGET_TRAITS = """
messages status is_streaming is_server_streaming is_tool_continuation is_recovering error pending usage queue height
theme placeholder title suggestions
""".split()
WIDGET_OPTIONS: dict[str, Any] = {
    "height": "400px",
    "theme": "dark",
    "placeholder": "Ask",
    "title": "Sales",
    "locale": "de",
    "suggestions": ("Hello",),
    "transcript": False,
    "client_tools": None,
    "on_tool_call": None,
    "on_data": None,
    "auto_continue_after_tool_result": False,
    "resume": False,
    "cancel_on_client_abort": True,
    "body": {"a": 1},
    "prepare_send_messages_request": None,
    "get_initial_messages": None,
    "sync_messages": True,
    "max_attachment_bytes": 10,
    "allow_attachments": False,
}
ERRORS = {
    "MessageError": "MessageValidationError ChunkOrderError ChunkParseError RemoteStreamError MessageConversionError",
    "ActionError": (
        "ActionDefinitionError InvalidArgumentsError ForbiddenError ActionOutputContractError ApprovalExpiredError "
        "StopTurn ConnectionNeeded"
    ),
    "StoreError": (
        "StoreFullError StoreReadOnlyError StoreUnavailableError StoreCorruptError StoreMissingError StoreVersionError "
        "LeaseLostError"
    ),
    "ModelError": (
        "ModelAuthError ModelRequestError ModelRateLimitError ModelOverloadedError ModelStreamError "
        "RecordingDriftError RecordingFormatError ScriptExhaustedError"
    ),
    "InputError": "MessageTooLargeError PendingError UnknownMessageError NoActiveTurnError",
    "ConfigError": "MissingExtraError CannotBlockError",
    "ChatError": "ChatBusyError ChatClosedError ChatInUseError ChatExistsError",
    "ExportError": "ExportFormatError",
    "ChatnbError": "TurnFailedError ObjectLostError InputNotAvailableError",
}
MESSAGES = """
UIMessage validate_messages safe_validate_messages validate_chunk check_emittable Fold fold parse_partial_json ABSENT
SseDecoder encode_sse SSE_DONE SSE_HEADERS to_model_messages is_complete_with_tool_calls
is_complete_with_approval_responses settle_call decide_call Chunk
""".split()
PACKAGES = ("", ".actions", ".history", ".messages", ".models", ".recovery", ".store", ".testing", ".turns", ".widget")


def find(path: str) -> Any:
    """Return what a dotted path names: modules as far as there are any, then attributes."""
    words = path.split(".")
    found: Any = importlib.import_module(words[0])
    for word in words[1:]:
        try:
            found = getattr(found, word)
        except AttributeError:
            found = importlib.import_module(f"{found.__name__}.{word}")
    return found


def stated(text: str) -> inspect.Signature:
    from chatnb.messages import ABSENT

    names = {"Recovery": Recovery, "Objects": Objects, "Variables": Variables, "ABSENT": ABSENT}
    return inspect.signature(eval(f"lambda {text}: None", names))


def walked() -> list[str]:
    return [m.name for m in pkgutil.walk_packages(chatnb.__path__, "chatnb.") if ".migrations." not in m.name]


class TestNames:
    """Section 2 of the design page, and section 1 of messages.md."""

    @pytest.mark.parametrize("name", NAMES)
    def test_is_importable_from_chatnb(self, name: str) -> None:
        assert getattr(chatnb, name) is not None
        assert name in chatnb.__all__

    @pytest.mark.parametrize("name", MESSAGES)
    def test_is_importable_from_messages(self, name: str) -> None:
        assert hasattr(find("chatnb.messages"), name)

    def test_modules_need_no_second_import(self) -> None:
        """`import chatnb` alone gives `chatnb.errors` and the like, still loaded on use."""
        code = "import chatnb; chatnb.errors.InputError; chatnb.models.Reply; chatnb.testing.mock_chat; print('ok')"
        assert run_python(code) == "ok"

    def test_no_module_hides_a_function(self) -> None:
        """Whatever was imported before, a public name is what the package says it is, and no module."""
        code = (
            "import importlib, types, sys\n"
            f"for name in {walked()!r}:\n"
            "    try: importlib.import_module(name)\n"
            "    except ImportError as error: assert not str(error.name).startswith('chatnb'), error\n"
            f"for package in {PACKAGES!r}:\n"
            "    module = importlib.import_module('chatnb' + package)\n"
            "    for name in module.__all__:\n"
            "        value = getattr(module, name)\n"
            "        assert not isinstance(value, types.ModuleType) or callable(value), (package, name)\n"
            "print('ok')"
        )
        assert run_python(code) == "ok"


def run_python(code: str) -> str:
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


class TestSignatures:
    """What may be passed, under which name, with which default."""

    @pytest.mark.parametrize("path", SIGNATURES)
    def test_takes_what_the_design_says(self, path: str) -> None:
        there = inspect.signature(find(path)).parameters
        wanted = stated(SIGNATURES[path]).parameters
        by_place = [p for p in there.values() if p.kind == p.POSITIONAL_OR_KEYWORD]
        for index, parameter in enumerate(p for p in wanted.values() if p.kind == p.POSITIONAL_OR_KEYWORD):
            found = by_place[index]
            assert parameter.name.startswith("_") or found.name == parameter.name
            if parameter.default is not parameter.empty:
                assert found.default == parameter.default, parameter.name
        for parameter in wanted.values():
            if parameter.kind == parameter.KEYWORD_ONLY:
                assert there[parameter.name].default == parameter.default, parameter.name
        needed = {p.name for p in there.values() if p.default is p.empty and p.kind != p.VAR_KEYWORD}
        assert len(needed) <= sum(p.default is p.empty and p.kind != p.VAR_KEYWORD for p in wanted.values())

    @pytest.mark.parametrize("name", HOOKS)
    def test_hooks_are_decorators(self, name: str) -> None:
        def hook(event: Any) -> None: ...

        assert getattr(Agent("offline"), name)(hook) is hook

    def test_annotations_resolve(self) -> None:
        """The type hints of what is public can be read at run time."""
        for name in ("Action", "ActionContext", "Identity", "Outcome", "Pending", "Submission", "Usage"):
            assert typing.get_type_hints(getattr(chatnb, name)) is not None


class TestRecords:
    """The small records and their fields."""

    @pytest.mark.parametrize("name", FIELDS)
    def test_has_its_fields(self, name: str) -> None:
        cls = getattr(chatnb, name)
        fields = {field.name for field in dataclasses.fields(cls)} | {n for n in vars(cls) if not n.startswith("_")}
        assert set(FIELDS[name].split()) <= fields

    @pytest.mark.parametrize("name", FIELDS)
    def test_is_frozen(self, name: str) -> None:
        assert getattr(chatnb, name).__dataclass_params__.frozen

    def test_submission_has_its_members(self) -> None:
        members = "admitted done result stop __await__ __aiter__".split()
        assert all(hasattr(chatnb.Submission, member) for member in members)


class TestChat:
    """The state of a chat, and how it is shown."""

    @pytest.mark.parametrize("name", CHAT_STATE)
    def test_has_its_state(self, name: str) -> None:
        assert name in Chat.__annotations__ or isinstance(inspect.getattr_static(Chat, name), property)

    @pytest.mark.parametrize("cls", [Agent, Chat, ChatWidget, chatnb.Submission, chatnb.Turn], ids=lambda c: c.__name__)
    def test_everything_public_is_documented(self, cls: type) -> None:
        """STYLE: a docstring for everything public."""
        for name, member in vars(cls).items():
            if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                assert (member.__doc__ or "").strip(), f"{cls.__name__}.{name}"


class TestErrors:
    """The error tree."""

    @pytest.mark.parametrize("base", ERRORS)
    def test_members_derive_from_their_base(self, base: str) -> None:
        for name in ERRORS[base].split():
            assert issubclass(getattr(errors, name), getattr(errors, base)), name
            assert issubclass(getattr(errors, name), errors.ChatnbError)

    def test_further_bases(self) -> None:
        assert issubclass(errors.ObjectLostError, KeyError)
        assert (chatnb.StopTurn, chatnb.ConnectionNeeded) == (errors.StopTurn, errors.ConnectionNeeded)


class TestWidget:
    """`ChatWidget`: its options and traits."""

    def test_takes_its_options(self, tmp_path: Any) -> None:
        chat = Agent(ScriptedModel([]), store=tmp_path / "chats.db").chat("options")
        try:
            widget = ChatWidget(chat, **WIDGET_OPTIONS)
            assert (widget.height, widget.theme, widget.placeholder, widget.title) == ("400px", "dark", "Ask", "Sales")
            assert set(WIDGET_TRAITS) <= set(widget.trait_names())
            widget.close()
        finally:
            chat.close()

    def test_is_an_anywidget(self) -> None:
        import anywidget

        assert issubclass(ChatWidget, anywidget.AnyWidget)


def test_kernel_actions_are_four() -> None:
    """Section 6 of notebook.md: `chatnb.kernel.actions` has the four notebook actions."""
    from chatnb.kernel import actions

    assert isinstance(actions, ModuleType)
    names = ["run_code", "list_variables", "inspect_variable", "insert_cell"]
    assert [made.name for made in actions.notebook_actions()] == names
    assert all(hasattr(actions, name) for name in names)
