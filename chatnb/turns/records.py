"""The small public records of a chat, and the policies that an agent takes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from .._clock import is_duration
from .._json import JsonValue
from ..actions.hidden import hide_secrets
from ..errors import ConfigError
from ..messages import FoldChange, UIMessage
from ..models import Usage
from ..runtime.contain import EscapedError
from .wire import WireChunk

OutcomeStatus = Literal["completed", "applied", "awaiting", "stopped", "skipped", "error"]
CallPhase = Literal["waiting", "busy", "running", "done"]
ChatStatus = Literal["ready", "submitted", "streaming", "error"]

MAX_REPR_TEXT = 300
_TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class TurnError:
    """Why a turn or an input failed.

    Attributes:
        stage: Where: `input`, a hook's name, `run`, `model`, `calls`, `action`, `store`, `closed`, `interrupted`.
        message: "TypeName: first line", at most 500 characters.
        cause: The exception, live; None after a reopening. Not in the repr: its text may hold secrets.
        code: A code of a closed set where there is one.
    """

    stage: str
    message: str
    cause: BaseException | None = field(default=None, compare=False, repr=False)
    code: str | None = None

    @classmethod
    def of(cls, stage: str, cause: BaseException, code: str | None = None) -> TurnError:
        """Make the record of an exception."""
        if isinstance(cause, EscapedError):
            cause = cause.raw
        if type(cause) is RuntimeError and isinstance(cause.__cause__, StopIteration | StopAsyncIteration):
            cause = cause.__cause__  # Python's way to let it out of a coroutine
        first = next(iter(_text_of(cause).splitlines()), "")
        text = hide_secrets(f"{type(cause).__name__}: {first}") if first else type(cause).__name__
        return cls(stage, text[:500], cause, code if code is not None else getattr(cause, "code", None))

    def to_json(self) -> JsonValue:
        """Return what is stored: all but the cause."""
        return {"stage": self.stage, "message": self.message, "code": self.code}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TurnError:
        """Read what `to_json` has made."""
        return cls(value["stage"], value["message"], None, value.get("code"))

    def to_terminal(self, turn_id: str, at: datetime, reason: str | None = None) -> JsonValue:
        """Return the terminal record of a chat whose last turn ended so.

        Args:
            turn_id: The turn.
            at: When it ended.
            reason: Why recovery gave it up, if it did.
        """
        return {
            "turn_id": turn_id,
            "stage": self.stage,
            "text": self.message,
            "code": self.code,
            "reason": reason,
            "at": at.isoformat(),
        }

    @classmethod
    def from_terminal(cls, value: Mapping[str, Any]) -> TurnError:
        """Read the terminal record of a chat."""
        return cls(str(value.get("stage")), str(value.get("text")), None, value.get("code"))


CHAT_CLOSED = TurnError("closed", "ChatClosedError: the chat was closed")
"""Why an input ends whose chat is closed; the next opening takes it up."""


def _text_of(cause: BaseException) -> str:
    try:
        return str(cause).strip()
    except Exception:  # noqa: BLE001 - a user's exception may fail to tell what it is
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """One call that waits for a person.

    Attributes:
        kind: `"approval"` or `"client-tool"`.
        id: The approval id; for a client tool the tool call id.
        args: All arguments, as they are bound to the hash.
        hash: The hash of the prepared call (spec/actions.md, 3.5); None for a client tool.
    """

    kind: Literal["approval", "client-tool"]
    id: str
    tool_call_id: str
    action: str
    title: str
    args: JsonValue
    hash: str | None
    message_id: str
    asked_at: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One input that waits for its slot. `text` is cut at 80 characters."""

    id: str
    kind: str
    text: str
    arrival: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of an input (spec/turns.md, section 1).

    Example:
        outcome = await chat.send("Hello")
        if outcome.status == "error":
            print(outcome.error.message)
    """

    status: OutcomeStatus
    message: UIMessage | None = None
    pending: tuple[Pending, ...] = ()
    usage: Usage | None = None
    error: TurnError | None = None
    turn: int | None = None
    finish_reason: str | None = None
    steps: int = 0

    @property
    def text(self) -> str:
        """The answer's text; empty when there is none."""
        return self.message.text if self.message is not None else ""

    def __repr__(self) -> str:
        """Show what is there in one line; the whole message is in `message`."""
        text = self.text if len(self.text) <= MAX_REPR_TEXT else self.text[: MAX_REPR_TEXT - 1] + "…"
        shown = [repr(self.status), *([f"text={text!r}"] if text else [])]
        if self.pending:
            shown.append(f"pending=[{', '.join(call.action for call in self.pending)}]")
        if self.error is not None:
            shown.append(f"error={self.error!r}")
        if self.turn is not None:
            shown.append(f"turn={self.turn}, steps={self.steps}, finish_reason={self.finish_reason!r}")
        if self.usage is not None and self.usage.is_known:
            shown.append(f"usage={self.usage!r}")
        return f"Outcome({', '.join(shown)})"


@dataclass(frozen=True, slots=True)
class Debounce:
    """Wait until a chat is quiet for `seconds` before an overlapping send runs.

    Example:
        agent = Agent("offline", concurrency=Debounce(1.5))
    """

    seconds: float = 0.75

    def __post_init__(self) -> None:
        if not is_duration(self.seconds):
            raise ConfigError("Debounce(seconds): seconds must be a finite number above 0")


@dataclass(frozen=True, slots=True)
class Steering:
    """Take messages that arrive while a turn runs into that turn (spec/turns.md, section 8).

    Example:
        agent = Agent("offline", steering=Steering(should_inject=lambda event: True))
    """

    should_inject: Callable[[Any], bool | Awaitable[bool]]
    prepare: Callable[[Any], Any] | None = None
    on_received: Callable[[Any], Any] | None = None
    on_injected: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        _check_functions(self, "should_inject", "prepare", "on_received", "on_injected")


@dataclass(frozen=True, slots=True)
class Compaction:
    """Replace the older part of the model's view by a summary (spec/turns.md, section 8).

    Example:
        agent = Agent("offline", compaction=Compaction(should_compact=lambda event: len(event.messages) > 200))
    """

    should_compact: Callable[[Any], bool | Awaitable[bool]]
    summarize: Callable[[Any], str | Awaitable[str]] | None = None

    def __post_init__(self) -> None:
        _check_functions(self, "should_compact", "summarize")


def _check_functions(policy: object, needed: str, *optional: str) -> None:
    for name in (needed, *optional):
        value = getattr(policy, name)
        if not callable(value) and (value is not None or name == needed):
            raise ConfigError(f"{type(policy).__name__}({name}): a function{' or None' if name in optional else ''}")


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool that runs in the page or is answered by a person (spec/widget.md, 5.5)."""

    name: str
    description: str
    parameters: dict[str, Any]
    js: str | None = None
    form: bool | dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _TOOL_NAME.fullmatch(self.name):
            raise ConfigError("ClientTool(name): a letter, then at most 63 letters, digits, underscores or dashes")
        if not isinstance(self.description, str):
            raise ConfigError("ClientTool(description): a text")
        if not isinstance(self.parameters, dict):
            raise ConfigError(
                "ClientTool(parameters): a JSON Schema object, as in {'type': 'object', 'properties': {}}"
            )
        if self.js is not None and not isinstance(self.js, str):
            raise ConfigError("ClientTool(js): the source of a module, as text, or None")
        if self.form is not None and not isinstance(self.form, bool | dict):
            raise ConfigError("ClientTool(form): True, a JSON Schema object of the answer, or None")

    def to_json(self) -> JsonValue:
        """Return what is stored with an input: never the `js`."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """The transient state of a running call, for views."""

    tool_call_id: str
    phase: CallPhase
    progress: Mapping[str, JsonValue] | None = None
    log: tuple[Mapping[str, JsonValue], ...] = ()
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatState:
    """Everything a view shows, as of one moment; made on the runtime between two chunks.

    Attributes:
        messages: The chain with the unfinished message; unchanged messages are the same objects as before.
        streaming_id: The id of the message that is being written, or None.
        own: The id of the origin (a widget) whose input the running turn answers; `"chat"` for Python, None when idle.
        branches: Per message id its sibling index (from 0) and count, where there is more than one.
        tool_phase: Call ids of client tools that are being worked on.
    """

    messages: tuple[UIMessage, ...] = ()
    status: ChatStatus = "ready"
    is_tool_continuation: bool = False
    is_recovering: bool = False
    error: TurnError | None = None
    pending: tuple[Pending, ...] = ()
    queue: tuple[Waiting, ...] = ()
    usage: Mapping[str, JsonValue] | None = None
    interruption: Any = None
    restorable: tuple[Any, ...] = ()
    can_undo: bool = False
    can_redo: bool = False
    streaming_id: str | None = None
    own: str | None = None
    branches: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    calls: Mapping[str, CallView] = field(default_factory=dict)
    tool_phase: frozenset[str] = frozenset()
    closed: str | None = None
    unsaved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One published change. Listeners get them on the runtime, in order, and take the rest from `ChatState`.

    Attributes:
        kind: `"chunk"`: `change` happened to message `message_id` (`chunk` is what was sent; for transient data
            `change` is None). `"history"`: the chain changed otherwise. `"state"`: status, flags, error, usage.
            `"pending"`, `"queue"`: those lists. `"call"`: `tool_call_id`'s CallView. `"change"`: kernel
            data changed, `data` is a `Change` as JSON. `"settled"`: a turn or chat action ended.
    """

    kind: Literal["chunk", "history", "state", "pending", "queue", "call", "change", "settled", "closed"]
    message_id: str | None = None
    change: FoldChange | None = None
    chunk: WireChunk | None = None
    tool_call_id: str | None = None
    data: JsonValue = None
