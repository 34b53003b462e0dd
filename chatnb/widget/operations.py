"""What frames are made of: the records and the operations (spec/widget.md, 3.1). `protocol.py` has the frames.

How the view's form of a message differs from the wire form of spec/messages.md:

- Text and reasoning parts have no `state`. A part is being written when its message is `state.streamingId` and it is
  the last one. So the end of a text costs nothing, and text never travels twice.
- A call in `input-streaming` has `rawInput` and no `input`.
- Provider metadata is left out; of the message's metadata only `chatnb` is kept.
- A large value, wherever it stands, may be an `AssetRef`: an image, a data URL, a text (`text/*`) or JSON
  (`application/json`), whose bytes come in `asset` frames.
- A text that was cut has `cut`, see `Cut`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from .._json import JsonValue

ErrorCode = Literal[
    "stale_epoch",
    "approval_mismatch",
    "bad_nonce",
    "unknown_command",
    "invalid",
    "busy",
    "not_found",
    "already_decided",
    "expired",
    "too_large",
    "closed",
    "store",
    "failed",
]
JsonObject = dict[str, Any]


class Record(BaseModel):
    """Any object of the protocol: camelCase outside, snake_case inside; unknown fields are ignored."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)


# --- records inside frames ----------------------------------------------------------------------------------------


class AssetRef(Record):
    """Stands for content that travels in `asset` frames. `asset` is null for content that is too large to be sent."""

    asset: str | None
    media_type: str
    bytes: int
    object: str | None = None
    """The entry of `chat.objects` that still has it, where one is known."""


class Cut(Record):
    """What a cut text lacks, in characters: `before` it (a text that is being written) or `after` it."""

    before: int = 0
    after: int = 0


class Branch(Record):
    """Which of its siblings a message is; `index` counts from 0."""

    index: int
    count: int


class ViewMessage(Record):
    """A message in the view's form."""

    id: str
    role: Literal["system", "user", "assistant"]
    parts: list[JsonObject]
    metadata: JsonObject | None = None


class Entry(Record):
    """A message of a `reset` or a `page`. `more`: its parts go behind those of the entry before, of the same id."""

    message: ViewMessage
    branch: Branch | None = None
    more: bool = False


class ErrorInfo(Record):
    """Why the last turn failed. `retry`: regenerating can answer it."""

    stage: str
    message: str
    code: str | None = None
    retry: bool = True


class ActionInfo(Record):
    """An action that "Run an action" offers. `gated`: it needs a person's blessing; the click on Run is it."""

    name: str
    title: str
    description: str
    parameters: JsonObject = Field(alias="schema")
    gated: bool = False


class ClientToolInfo(Record):
    """A client tool of this widget; `js` runs in the page, `form` is drawn there."""

    name: str
    description: str
    parameters: JsonObject
    js: str | AssetRef | None = None
    form: bool | JsonObject | None = None


class Options(Record):
    """How a panel looks and what it offers."""

    chat_id: str
    title: str
    help: str
    height: str
    theme: Literal["auto", "light", "dark"]
    placeholder: str | None
    locale: str | None
    suggestions: list[str]
    model_note: str | None
    allow_attachments: bool
    max_attachment_bytes: int
    auto_continue: bool
    transcript: bool
    actions: list[ActionInfo]
    client_tools: list[ClientToolInfo]
    mentions: bool
    extras: dict[str, str]
    """The extras that there are, by name, with a hash of their source."""


class Interruption(Record):
    """A turn that was broken off. `offered`: a person decides, with "Continue" and "Discard"."""

    message_id: str | None = None
    cause: str
    offered: bool
    text: str | None = None


class Closed(Record):
    """Why nothing can be done here any more. `by`: who has taken the chat over."""

    reason: Literal["lease-lost", "closed"]
    by: str | None = None


class UsageInfo(Record):
    """Tokens and cost: in all, and by assistant message. An unknown cost is absent, never 0."""

    total: JsonObject | None = None
    messages: dict[str, JsonObject] = Field(default_factory=dict)


class Restorable(Record):
    """A call whose names can be put back."""

    tool_call_id: str
    names: list[str] = Field(default_factory=list)


class ViewState(Record):
    """The state of a widget; a `state` op has the keys that changed."""

    status: Literal["ready", "submitted", "streaming", "error"] | None = None
    is_streaming: bool | None = None
    is_server_streaming: bool | None = None
    is_tool_continuation: bool | None = None
    is_recovering: bool | None = None
    error: ErrorInfo | None = None
    streaming_id: str | None = None
    held: bool | None = None
    """`resume=False`: a turn runs that this widget does not show yet."""
    ready_to_continue: bool | None = None
    """Every call is decided and nothing goes on by itself: "Continue"."""
    interruption: Interruption | None = None
    usage: UsageInfo | None = None
    can_undo: bool | None = None
    can_redo: bool | None = None
    restorable: list[Restorable] | None = None
    unsaved: bool | None = None
    delivery: Literal["unknown", "parallel", "between-cells"] | None = None
    hello_every: int | None = None
    """Milliseconds after which a view says hello again: its host delivers nothing by itself."""
    closed: Closed | None = None
    options: Options | None = None


class PendingItem(Record):
    """What waits for a person. Times are ISO 8601. `schema`: of the arguments, or of a form's answer."""

    kind: Literal["approval", "client-tool"]
    id: str
    tool_call_id: str
    approval_id: str | None = None
    hash: str | None = None
    action: str
    title: str
    args: JsonValue = None
    message_id: str
    asked_at: str | None = None
    expires_at: str | None = None
    parameters: JsonObject | None = Field(default=None, alias="schema")
    form: bool | JsonObject | None = None


class QueueItem(Record):
    """An input that waits. `commandId` names the command that made it, if a view of this widget did."""

    id: str
    kind: str
    text: str
    command_id: str | None = None


class Progress(Record):
    """How far a call is."""

    done: float
    total: float | None = None
    text: str | None = None


class CallState(Record):
    """The transient state of a running call.

    `part` and `outputs` are those of a call that "Run an action" made, which is in no message: the call's part in the
    view's form, and what a `data-output` part would hold.
    """

    tool_call_id: str
    phase: Literal["waiting", "running", "done"]
    progress: Progress | None = None
    duration_ms: int | None = None
    log: list[JsonObject] | None = None
    part: JsonObject | None = None
    outputs: list[JsonObject] | None = None


class NoticeAction(Record):
    """A button of a notice, or what the page does with it.

    `restoreText` puts what command `commandId` sent back into the box, if this view sent it; it is no button.
    """

    kind: Literal["restoreText", "restoreVariables", "showReply", "takeOver", "copy", "command"]
    label: str | None = None
    command_id: str | None = None
    tool_call_id: str | None = None
    text: str | None = None
    command: JsonObject | None = None


class Notice(Record):
    """A line above the box; an empty text takes it away."""

    id: str
    level: Literal["info", "warning", "error"]
    text: str
    actions: list[NoticeAction] = Field(default_factory=list)


class Snapshot(Record):
    """Everything a view shows. Frames of a `reset` after the first have `messages` alone."""

    options: Options | None = None
    state: ViewState | None = None
    pending: list[PendingItem] | None = None
    queue: list[QueueItem] | None = None
    calls: list[CallState] | None = None
    notices: list[Notice] | None = None
    messages: list[Entry]
    has_earlier: bool | None = None


class AckError(Record):
    """Why a command was not done, in one sentence for people, without argument values."""

    code: ErrorCode
    message: str
    field: str | None = None


# --- operations ---------------------------------------------------------------------------------------------------


class TextOp(Record):
    """Appends `d` to a field of part `p` of message `m`."""

    op: Literal["text"]
    m: str
    p: int
    field: Literal["text", "rawInput"]
    d: str


class PartOp(Record):
    """Sets part `p`, or appends it."""

    op: Literal["part"]
    m: str
    p: int
    part: JsonObject


class MsgOp(Record):
    """Inserts a message behind `after` (null: first), or replaces the one of its id."""

    op: Literal["msg"]
    message: ViewMessage
    after: str | None
    branch: Branch | None = None


class MoveOp(Record):
    """Places a message behind another."""

    op: Literal["move"]
    m: str
    after: str | None


class DropOp(Record):
    """Removes messages."""

    op: Literal["drop"]
    ids: list[str]


class StateOp(Record):
    """Lays changed keys over the state; a key that is null is null now."""

    op: Literal["state"]
    state: ViewState


class PendingOp(Record):
    """All that waits for a person."""

    op: Literal["pending"]
    items: list[PendingItem]


class QueueOp(Record):
    """All inputs that wait."""

    op: Literal["queue"]
    items: list[QueueItem]


class CallOp(CallState):
    """The state of one call."""

    op: Literal["call"]


class NoticeOp(Notice):
    """A notice; the same id replaces."""

    op: Literal["notice"]


class ChangeOp(Record):
    """Kernel data changed (spec/actions.md, 8.5)."""

    op: Literal["change"]
    change: JsonObject


Op = Annotated[
    TextOp | PartOp | MsgOp | MoveOp | DropOp | StateOp | PendingOp | QueueOp | CallOp | NoticeOp | ChangeOp,
    Field(discriminator="op"),
]
