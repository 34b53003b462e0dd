"""Every error that chatnb raises, in one tree.

A developer's mistake raises one of these, with what to do about it. A turn that fails is an `Outcome`, not an
exception. No text here ever holds argument values, keys or message text.

    ChatnbError
    ├── MessageError      messages, chunks and streams that break the protocol (spec/messages.md)
    ├── ActionError       a call that may not, could not or did not work (spec/actions.md, section 6); has a `code`
    ├── StoreError        what is on disk (spec/recovery.md, section 9)
    ├── ModelError        a model that failed (spec/notebook.md, section 8)
    ├── InputError        an input that can't be taken (spec/turns.md, section 1)
    ├── ConfigError       options that can't work
    ├── ChatError         a chat that can't be used now
    ├── ExportError       exports and loads
    ├── TurnFailedError   ends a `%%chat` cell
    └── ObjectLostError   a result that is gone; also a KeyError
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from datetime import datetime

Effect = Literal["committed", "none"]
Path = tuple[str | int, ...]


class ChatnbError(Exception):
    """The root of all errors of chatnb."""


# --- messages ---------------------------------------------------------------------------------------------------


class MessageError(ChatnbError):
    """A message, chunk or stream breaks the protocol."""


class MessageValidationError(MessageError):
    """A value is not a valid message, part or chunk.

    Attributes:
        path: Keys and indexes that lead to the first bad element.
    """

    def __init__(self, message: str, *, path: Path = ()) -> None:
        super().__init__(message)
        self.path = path


class ChunkOrderError(MessageError):
    """A chunk needs something that did not come before it.

    Attributes:
        chunk_type: The type of the chunk, or `"tool-invocation"` for a call that is not there.
        chunk_id: The block's or the call's id.
    """

    def __init__(self, message: str, *, chunk_type: str, chunk_id: str) -> None:
        super().__init__(message)
        self.chunk_type = chunk_type
        self.chunk_id = chunk_id


class ChunkParseError(MessageError):
    """Bytes of a stream are not a chunk, or a chunk can't be written as bytes."""


class RemoteStreamError(MessageError):
    """The stream holds an `error` chunk; the text is its `errorText`."""


class MessageConversionError(MessageError):
    """A message can't be turned into a model message.

    Attributes:
        path: Keys and indexes that lead to the part.
    """

    def __init__(self, message: str, *, path: Path = ()) -> None:
        super().__init__(message)
        self.path = path


# --- actions ----------------------------------------------------------------------------------------------------


class ActionError(ChatnbError):
    """A call of an action did not succeed.

    Attributes:
        code: One of the closed set of spec/actions.md, section 6, or a declared code.
        status_code: What the HTTP site answers.
        details: JSON for the caller, or None.
        effect: `"committed"` once a write entered its handler, `"none"` before.
    """

    code: str = "action_failed"
    status_code: int = 500

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status_code: int | None = None,
        details: Any = None,
        effect: Effect = "none",
    ) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        if status_code is not None:
            self.status_code = status_code
        self.details = details
        self.effect: Effect = effect


class ActionDefinitionError(ActionError):
    """An action can't be defined so; the text names the action and the option."""

    code = "invalid_definition"


class InvalidArgumentsError(ActionError):
    """Arguments do not fit the action's schema (spec/actions.md, 1.5). Holds no values."""

    code = "invalid_arguments"
    status_code = 400


class ForbiddenError(ActionError):
    """The call is denied (spec/actions.md, 2.3)."""

    code = "forbidden"
    status_code = 403


class ActionOutputContractError(ActionError):
    """A result does not fit the output schema (spec/actions.md, section 5).

    Attributes:
        action: The action's name.
        contract: Which schema failed, `"output"` or `"mcp"`.
        issues: Pairs of path and code, without values.
    """

    code = "output_contract_violation"

    def __init__(
        self,
        message: str,
        *,
        action: str,
        contract: Literal["output", "mcp"] = "output",
        issues: tuple[tuple[str, str], ...] = (),
        effect: Effect = "none",
    ) -> None:
        super().__init__(message, effect=effect)
        self.action = action
        self.contract = contract
        self.issues = issues


class ApprovalExpiredError(ActionError):
    """The approval was asked for too long ago; the call has been settled as denied."""

    code = "expired"
    status_code = 409


class StopTurn(ActionError):  # noqa: N818 - a signal, named in the public interface
    """Raise it in an action to settle the call as an error and end the turn with this message."""

    code = "stopped"
    status_code = 409

    def __init__(self, message: str, code: str = "stopped") -> None:
        super().__init__(message, code=code)


class ConnectionNeeded(StopTurn):
    """An action can't go on until a person connects something.

    Attributes:
        provider: What has to be connected.
        reason: Why.
        source: Where the connection is missing, or None.
    """

    def __init__(self, provider: str, reason: str, source: str | None = None) -> None:
        place = f" (for {source})" if source else ""
        super().__init__(f"Connection needed: {provider}{place}. {reason}", code="connection_needed")
        self.provider = provider
        self.reason = reason
        self.source = source
        self.details = {"provider": provider, "reason": reason, "source": source}


# --- store ------------------------------------------------------------------------------------------------------


class StoreError(ChatnbError):
    """The store failed."""


class StoreFullError(StoreError):
    """No room is left on the disk."""


class StoreReadOnlyError(StoreError):
    """The store can't be written."""


class StoreUnavailableError(StoreError):
    """The database does not answer."""


class StoreCorruptError(StoreError):
    """The file is not a chatnb store, or is damaged. It has not been changed."""


class StoreMissingError(StoreError):
    """The store's file was deleted or replaced while it was open."""


class StoreVersionError(StoreError):
    """The store was made by another version of chatnb and can't be used now."""


class LeaseLostError(StoreError):
    """Another kernel has taken this chat over.

    Attributes:
        by: Who has it now, in words for people; None when nobody has.
    """

    def __init__(self, message: str, *, by: str | None = "another process") -> None:
        super().__init__(message)
        self.by = by


# --- models -----------------------------------------------------------------------------------------------------


class ModelError(ChatnbError):
    """A model failed.

    Attributes:
        status: The HTTP status, or None.
        request_id: The provider's id of the request, or None.
    """

    def __init__(self, message: str, *, status: int | None = None, request_id: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id


class ModelAuthError(ModelError):
    """No key, or one that the provider refuses."""


class ModelRequestError(ModelError):
    """The provider refuses the request."""


class ModelRateLimitError(ModelError):
    """Too many requests."""


class ModelOverloadedError(ModelError):
    """The provider is overloaded or failing."""


class ModelStreamError(ModelError):
    """The answer broke off.

    Attributes:
        kind: `"incomplete"` (the stream ended without its end), `"connection_lost"`, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: Literal["incomplete", "connection_lost"] | None = None,
        status: int | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, status=status, request_id=request_id)
        self.kind = kind


class RecordingDriftError(ModelError):
    """A request differs from the recorded one."""


class RecordingFormatError(ModelError):
    """The file is no recording, or one of a newer version. It has not been changed."""


class ScriptExhaustedError(ModelError):
    """A scripted model was asked more often than it has steps."""


# --- inputs, configuration, chats -------------------------------------------------------------------------------


class InputError(ChatnbError):
    """An input can't be taken. Nothing was written."""


class MessageTooLargeError(InputError):
    """A message or stashed value is larger than the limit (spec/recovery.md, section 11)."""


class PendingError(InputError):
    """No such pending call, or not exactly one. The text lists what is pending."""


class UnknownMessageError(InputError):
    """The chat has no message with this id."""


class NoActiveTurnError(InputError):
    """Only possible while a turn runs."""


class ConfigError(ChatnbError):
    """Options that can't work, with what to use instead."""


class MissingExtraError(ConfigError):
    """A feature needs an extra; the text names the install command."""


class CannotBlockError(ConfigError):
    """Waiting here would block forever; use `await`."""


class ChatError(ChatnbError):
    """A chat can't be used now."""


class ChatBusyError(ChatError):
    """The chat is at work, or waiting here could never end."""


class ChatClosedError(ChatError):
    """The chat is closed; open it again with `agent.chat(id)`."""


class ChatInUseError(ChatError):
    """Another living process owns the chat; `take_over=True` takes it.

    Attributes:
        chat_id: The chat.
        host: The owner's host name.
        pid: The owner's process id.
        kernel_id: The owner's kernel, or None.
        label: The owner's notebook or script, or None.
        heartbeat_at: The owner's last sign of life, an aware datetime or None.
    """

    def __init__(
        self,
        message: str,
        *,
        chat_id: str,
        host: str | None = None,
        pid: int | None = None,
        kernel_id: str | None = None,
        label: str | None = None,
        heartbeat_at: datetime | None = None,
    ) -> None:
        super().__init__(message)
        self.chat_id = chat_id
        self.host = host
        self.pid = pid
        self.kernel_id = kernel_id
        self.label = label
        self.heartbeat_at = heartbeat_at


class ChatExistsError(ChatError):
    """The store already holds a chat with this id."""


class ExportError(ChatnbError):
    """A chat can't be exported so."""


class ExportFormatError(ExportError):
    """The text is no export of chatnb, or one of a newer version."""


class TurnFailedError(ChatnbError):
    """A turn that a `%%chat` cell waited for has failed."""


class InputNotAvailableError(ChatnbError):
    """`input()` can't be used in an action; ask through the chat."""


class ObjectLostError(ChatnbError, KeyError):
    """A result is gone from memory.

    Attributes:
        reason: `"kernel_restarted"`, `"evicted"` or `"cleared"`.
    """

    def __init__(self, message: str, *, reason: Literal["kernel_restarted", "evicted", "cleared"]) -> None:
        super().__init__(message)
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[0])
