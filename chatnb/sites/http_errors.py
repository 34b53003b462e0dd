"""Answers of the HTTP site that say no: one form for all of them (spec/actions.md, 11.1)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from starlette.responses import JSONResponse, Response

from .._json import JsonValue, dumps
from ..errors import (
    ActionError,
    ApprovalExpiredError,
    ChatBusyError,
    ChatClosedError,
    ChatInUseError,
    ChatnbError,
    ForbiddenError,
    InputError,
    LeaseLostError,
    MessageError,
    MessageTooLargeError,
    PendingError,
    StoreError,
    UnknownMessageError,
)

log = logging.getLogger("chatnb")

NO_STORE = {"cache-control": "no-store"}

_KNOWN: tuple[tuple[type[ChatnbError], int, str], ...] = (
    (MessageTooLargeError, 413, "body_too_large"),
    (UnknownMessageError, 404, "unknown_message"),
    (PendingError, 409, "not_pending"),
    (ApprovalExpiredError, 409, "expired"),
    (ForbiddenError, 403, "forbidden"),
    (ChatClosedError, 409, "chat_closed"),
    (LeaseLostError, 409, "chat_in_use"),
    (ChatBusyError, 409, "chat_busy"),
    (InputError, 400, "invalid_input"),
    (MessageError, 400, "invalid_message"),
)


class HttpProblem(Exception):  # noqa: N818 - an answer, raised to leave a handler early
    """An answer that says no.

    Args:
        status: The status code.
        code: The error code.
        text: What is said; it holds no values and no secrets.
        details: JSON for the caller, or None.
        headers: Further headers.
    """

    def __init__(
        self,
        status: int,
        code: str,
        text: str,
        *,
        details: JsonValue = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.text = text
        self.details = details
        self.headers = headers or {}

    def response(self) -> Response:
        """Return the answer."""
        return answer_error(self.status, self.code, self.text, details=self.details, headers=self.headers)


class CompactJson(JSONResponse):
    """JSON as chatnb writes it; never kept by a browser or proxy."""

    def __init__(self, content: Any, status_code: int = 200, headers: dict[str, str] | None = None) -> None:
        super().__init__(content, status_code, {**NO_STORE, **(headers or {})})

    def render(self, content: Any) -> bytes:
        """Return compact JSON; lone surrogates become U+FFFD."""
        return dumps(content).encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()

    def redacted(self, redact: Callable[[str], str]) -> Response:
        """Return the answer without credentials."""
        text = self.body.decode() if isinstance(self.body, bytes) else bytes(self.body).decode()
        clean = redact(text)
        if clean == text:
            return self
        headers = {name: value for name, value in self.headers.items() if name != "content-length"}
        return Response(clean, self.status_code, headers)


def answer_error(
    status: int,
    code: str,
    text: str,
    *,
    details: JsonValue = None,
    effect: str | None = None,
    call_hash: str | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """Return the body of an error: `{"error", "errorCode", "details"?, "effect"?, "callHash"?}`."""
    body: dict[str, JsonValue] = {"error": text, "errorCode": code}
    if details is not None:
        body["details"] = details
    if effect is not None:
        body["effect"] = effect
    if call_hash is not None:
        body["callHash"] = call_hash
    return CompactJson(body, status, headers)


def problem_of(error: BaseException) -> HttpProblem:
    """Return what the caller is told of an exception; of an unknown one nothing but that it happened."""
    if isinstance(error, HttpProblem):
        return error
    if isinstance(error, ChatInUseError):
        details = {
            "chatId": error.chat_id,
            "host": error.host,
            "pid": error.pid,
            "kernelId": error.kernel_id,
            "label": error.label,
            "heartbeatAt": error.heartbeat_at.isoformat() if error.heartbeat_at is not None else None,
        }
        return HttpProblem(409, "chat_in_use", str(error), details=details)
    for kind, status, code in _KNOWN:
        if isinstance(error, kind):
            return HttpProblem(status, code, str(error))
    if isinstance(error, ActionError):
        return HttpProblem(error.status_code, error.code, str(error))
    log.error("a request failed", exc_info=error)
    if isinstance(error, StoreError):
        return HttpProblem(503, "store_unavailable", "The conversation can't be stored or read now.")
    return HttpProblem(500, "internal_error", "The server failed; its log says why.")
