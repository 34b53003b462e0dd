"""What page and kernel say to each other (spec/widget.md, section 3): one class per `type`, literally named.

Frames go from the kernel to the page, commands from the page to the kernel. `widgets/src/protocol.ts` is generated from
these classes and those of `operations.py` by `widgets/generate_protocol.py`; a test fails when it is stale. Frames are
built as plain dicts on the hot path; tests hold every one against these classes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, TypeAdapter

from .._json import JsonValue
from .operations import AckError, Entry, JsonObject, Op, Record, Snapshot

VERSION = 1


# --- frames, kernel to page ---------------------------------------------------------------------------------------


class BaseFrame(Record):
    """What every frame has. Those with `to` are for that view alone."""

    v: int
    epoch: str


class OpsFrame(BaseFrame):
    """The next change; `seq` rises by one for each."""

    type: Literal["ops"]
    seq: int
    ops: list[Op]


class ResetFrame(BaseFrame):
    """Everything as of `seq`, in `count` frames."""

    type: Literal["reset"]
    to: str
    seq: int
    snapshot: Snapshot
    reason: str
    index: int
    count: int


class MarkFrame(BaseFrame):
    """Nothing new; the last `seq` was this."""

    type: Literal["mark"]
    seq: int


class AckFrame(BaseFrame):
    """The answer to one command."""

    type: Literal["ack"]
    to: str
    id: str
    ok: bool
    result: JsonObject | None = None
    error: AckError | None = None


class SecretFrame(BaseFrame):
    """The nonce with which this view decides."""

    type: Literal["secret"]
    to: str
    nonce: str


class UnsupportedFrame(BaseFrame):
    """There is no common version; the page must be loaded again."""

    type: Literal["unsupported"]
    to: str
    versions: list[int]
    package: str


class PageFrame(BaseFrame):
    """Older messages, in `count` frames."""

    type: Literal["page"]
    to: str
    before: str
    messages: list[Entry]
    has_earlier: bool
    seq: int
    index: int
    count: int


class RunFrame(BaseFrame):
    """Run a `js` client tool."""

    type: Literal["run"]
    to: str
    tool_call_id: str
    name: str
    input: JsonValue


class InsertCellFrame(BaseFrame):
    """Insert a cell below the view's own."""

    type: Literal["insertCell"]
    to: str
    id: str
    source: str
    kind: Literal["code", "markdown"]
    position: str


class AssetFrame(BaseFrame):
    """A piece of an asset or an extra; the bytes are the one buffer. `name`: of an extra."""

    type: Literal["asset"]
    hash: str
    media_type: str
    index: int
    count: int
    name: str | None = None


Frame = Annotated[
    OpsFrame
    | ResetFrame
    | MarkFrame
    | AckFrame
    | SecretFrame
    | UnsupportedFrame
    | PageFrame
    | RunFrame
    | InsertCellFrame
    | AssetFrame,
    Field(discriminator="type"),
]
FRAME: TypeAdapter[Any] = TypeAdapter(Frame)


# --- commands, page to kernel -------------------------------------------------------------------------------------


class BaseCommand(Record):
    """What every command has: which view sends it, an id of its own, and the epoch that the page knows."""

    v: int
    epoch: str
    view: Annotated[str, Field(min_length=1, max_length=100)]
    id: Annotated[str, Field(min_length=1, max_length=100)]


class Last(Record):
    """The last `ops` frame that a view has applied."""

    epoch: str
    seq: int


class HelloCommand(BaseCommand):
    """A view is there, or has lost track.

    `have`: hashes of the assets that it holds. `resume`: show a running reply that was held back (`state.held`).
    """

    type: Literal["hello"]
    versions: list[int]
    last: Last | None = None
    have: list[str] = Field(default_factory=list)
    locale: str | None = None
    dark: bool = False
    can_insert: bool = False
    resume: bool = False


class ByeCommand(BaseCommand):
    """A view is gone."""

    type: Literal["bye"]


class FileInfo(Record):
    """One attached file; its bytes are the buffer of the same place."""

    name: str
    media_type: str
    size: Annotated[int, Field(ge=0)]


class SendCommand(BaseCommand):
    """Send a message. `ack.result`: `{inputId}`."""

    type: Literal["send"]
    text: str
    files: Annotated[list[FileInfo], Field(max_length=10)] = Field(default_factory=list)


class ActCommand(BaseCommand):
    """Do a chat action."""

    type: Literal["act"]
    action: JsonObject


class CallCommand(BaseCommand):
    """Call an action at the widget site. `ack.result`: `{toolCallId}`; what comes of it are `call` ops with `part`."""

    type: Literal["call"]
    name: str
    args: JsonObject
    nonce: str


class CancelCommand(BaseCommand):
    """Take a waiting input back, by its id or by the command that sent it. `ack.result`: `{text}`."""

    type: Literal["cancel"]
    command_id: str | None = None
    input_id: str | None = None


class PlainCommand(BaseCommand):
    """A command without fields."""

    type: Literal["stop", "undo", "redo", "clear", "continue", "discard", "takeOver"]


class MessageCommand(BaseCommand):
    """A chat action on one message. `regenerate` without an id answers again at the end.

    `index`: of `switch`, the version of the message that is wanted; pages know their number, not their ids.
    """

    type: Literal["regenerate", "rollback", "switch", "remove"]
    message_id: str | None = None
    index: Annotated[int, Field(ge=0)] | None = None


class EditCommand(BaseCommand):
    """Replace the text of a message, on a new branch."""

    type: Literal["edit"]
    message_id: str
    text: str


class DecisionCommand(BaseCommand):
    """Decide on a prepared call."""

    type: Literal["approve", "reject"]
    approval_id: str
    hash: str
    nonce: str
    args: JsonObject | None = None
    reason: str | None = None


class ToolStartedCommand(BaseCommand):
    """The page has begun to run a client tool."""

    type: Literal["toolStarted"]
    tool_call_id: str


class ToolOutputCommand(BaseCommand):
    """What a client tool or a form gave."""

    type: Literal["toolOutput"]
    tool_call_id: str
    output: JsonValue


class ToolErrorCommand(BaseCommand):
    """A client tool threw, or a person refused."""

    type: Literal["toolError"]
    tool_call_id: str
    text: str


class CompleteCommand(BaseCommand):
    """Complete a mention. `ack.result`: `{items: [{name, type}], stale}`."""

    type: Literal["complete"]
    prefix: str


class PreviewCommand(BaseCommand):
    """Show what a mention sends. `ack.result`: `{text, tokens}`."""

    type: Literal["preview"]
    name: str


class RestoreCommand(BaseCommand):
    """Put the names back that a call had bound anew. `ack.result`: `{restored, skipped}`."""

    type: Literal["restore"]
    tool_call_id: str
    force: bool = False


class CellInsertedCommand(BaseCommand):
    """Answers an `insertCell` frame. Its `id` is that frame's."""

    type: Literal["cellInserted"]
    ok: bool


class LoadEarlierCommand(BaseCommand):
    """Send the 50 messages before this one, as `page` frames."""

    type: Literal["loadEarlier"]
    before: str


class LoadPartCommand(BaseCommand):
    """Send a cut part in full, as `ops`."""

    type: Literal["loadPart"]
    message_id: str
    index: Annotated[int, Field(ge=0)]


class GetAssetCommand(BaseCommand):
    """Send an asset again."""

    type: Literal["getAsset"]
    hash: str


class GetExtraCommand(BaseCommand):
    """Send the source of an extra, as `asset` frames with its name. `ack.result`: `{hash}`."""

    type: Literal["getExtra"]
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,40}$")]


class ExportCommand(BaseCommand):
    """Export the chat. `ack.result`: `{hash, filename, mediaType}`; the text comes as an asset."""

    type: Literal["export"]
    format: Literal["md", "html", "json", "ipynb"]


Command = Annotated[
    HelloCommand
    | ByeCommand
    | SendCommand
    | ActCommand
    | CallCommand
    | CancelCommand
    | PlainCommand
    | MessageCommand
    | EditCommand
    | DecisionCommand
    | ToolStartedCommand
    | ToolOutputCommand
    | ToolErrorCommand
    | CompleteCommand
    | PreviewCommand
    | RestoreCommand
    | CellInsertedCommand
    | LoadEarlierCommand
    | LoadPartCommand
    | GetAssetCommand
    | GetExtraCommand
    | ExportCommand,
    Field(discriminator="type"),
]
COMMAND: TypeAdapter[Command] = TypeAdapter(Command)
COMMAND_TYPES = frozenset(
    name for model in get_args(get_args(Command)[0]) for name in get_args(model.model_fields["type"].annotation)
)
