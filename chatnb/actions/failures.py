"""How a failed call reads to models, people and machines (spec/actions.md, section 6)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from pydantic_core import PydanticSerializationError, to_jsonable_python

from .._json import JsonValue
from ..errors import ActionError, ActionOutputContractError, StopTurn
from .definition import Action
from .hidden import hide_secrets

STATUS_CODES = {
    "action_failed": 500,
    "approval_mismatch": 409,
    "approval_required": 409,
    "body_too_large": 413,
    "cancelled": 499,
    "connection_needed": 409,
    "forbidden": 403,
    "interrupted": 499,
    "interrupted_write": 409,
    "invalid_arguments": 400,
    "invalid_body": 400,
    "method_not_allowed": 405,
    "not_executed": 409,
    "output_contract_violation": 500,
    "permanent_precondition": 409,
    "plan_mode_blocked": 409,
    "repeated_identical_tool_error": 409,
    "repeated_tool_call": 409,
    "repeated_tool_error_across_arguments": 409,
    "stopped": 409,
    "timeout": 504,
    "ui_capability_required": 403,
    "ui_only_action": 403,
    "unauthenticated": 401,
    "unknown_action": 404,
    "unknown_variable": 409,
    "variable_changed": 409,
    "wrong_type": 409,
}
HIDDEN_TEXT = "The action failed."
"""What HTTP, MCP and A2A say of a plain exception."""

_MAX_TEXT = 2000
_log = logging.getLogger("chatnb")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFailure:
    """Why a call did not succeed.

    Attributes:
        code: One of the closed set, or a declared code.
        text: For the model and the command line.
        public_text: For HTTP, MCP and A2A: no text of plain exceptions.
        status_code: What the HTTP site answers.
        details: JSON for the caller, or None.
        exception: What was raised, live, or None.
    """

    code: str
    text: str
    public_text: str
    status_code: int
    details: JsonValue = None
    exception: BaseException | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, JsonValue]:
        """Return what the ledger keeps."""
        return {"code": self.code, "text": self.text, "status": self.status_code, "details": self.details}

    @classmethod
    def from_json(cls, data: dict[str, JsonValue]) -> CallFailure:
        """Read what the ledger keeps."""
        return failure(data["code"], data["text"], details=data.get("details"), status_code=data.get("status"))


def failure(
    code: str, text: str, *, details: JsonValue = None, status_code: int | None = None, hidden: bool = False
) -> CallFailure:
    """Make a failure that chatnb itself states; `hidden` where the text is a plain exception's."""
    return CallFailure(
        code=code,
        text=text,
        public_text=HIDDEN_TEXT if hidden else text,
        status_code=status_code or STATUS_CODES.get(code, 409),
        details=details,
    )


def is_declared(error: ActionError, action: Action) -> bool:
    """Tell whether an action may fail with an error's code: it declares it, or has no closed set."""
    declared = action.options.errors
    return declared is None or isinstance(error, StopTurn | ActionOutputContractError) or error.code in declared


def failure_of(error: BaseException, action: Action | None = None) -> CallFailure:
    """Return how an exception of a call reads.

    Args:
        error: What was raised by chatnb's own checks, or by the handler.
        action: The action whose handler raised it: codes that it does not declare become `action_failed`. None for
            chatnb's own checks.
    """
    if isinstance(error, ActionError):
        code = error.code if action is None or is_declared(error, action) else "action_failed"
        known = code == error.code
        text = hide_secrets(str(error))[:_MAX_TEXT] or type(error).__name__
        return CallFailure(
            code=code,
            text=text,
            public_text=text if known and code != "action_failed" else HIDDEN_TEXT,
            status_code=_status(error.status_code, code) if known else STATUS_CODES["action_failed"],
            details=_plain(error.details) if known else None,
            exception=error,
        )
    if isinstance(error, KeyboardInterrupt):
        return CallFailure(
            code="interrupted",
            text="Interrupted by the user.",
            public_text="Interrupted by the user.",
            status_code=STATUS_CODES["interrupted"],
            exception=error,
        )
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an exception whose text can't be made
        said = ""
    text = hide_secrets(f"{type(error).__name__}: {said}") if said else type(error).__name__
    return CallFailure(
        code="action_failed", text=text[:_MAX_TEXT], public_text=HIDDEN_TEXT, status_code=500, exception=error
    )


def _status(given: object, code: str) -> int:
    """Return a status that says no: a success, or what is no status at all, can't be answered for a failure."""
    if type(given) is int and 400 <= given <= 599:
        return given
    return STATUS_CODES.get(code, 409)


def _plain(details: JsonValue) -> JsonValue:
    """Return details as JSON; of a value that is none its type, never its text. The ledger and the sites hold them."""
    if details is None:
        return None
    try:
        return to_jsonable_python(details, inf_nan_mode="null", fallback=lambda value: f"<{type(value).__name__}>")
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        _log.warning("the details of a failure are no JSON; they are left out")
        return None
