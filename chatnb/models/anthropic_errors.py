"""Failures of Anthropic's API as `ModelError`s (spec/notebook.md, section 8)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from chatnb.errors import (
    ModelAuthError,
    ModelError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelStreamError,
)

MAX_RETRY_AFTER = 60.0

_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_TRANSPORTS = frozenset({"anthropic", "anyio", "h11", "h2", "httpcore", "httpcore2", "httpx", "httpx2"})
_RETRIED = frozenset({408, 409, 429})


def error_class(status: int) -> type[ModelError]:
    """The error for an HTTP status."""
    if status in (401, 403):
        return ModelAuthError
    if status == 429:
        return ModelRateLimitError
    if status >= 500 or status == 408:
        return ModelOverloadedError
    return ModelRequestError


def is_retried(status: int) -> bool:
    """Whether a request that got this status, and nothing else, may be made again."""
    return status in _RETRIED or status >= 500


def status_error(status: int, body: Any, headers: Mapping[str, str], fallback: str) -> ModelError:
    """The error for a response that is no stream.

    Args:
        status: The HTTP status.
        body: The response's JSON, or anything else.
        headers: The response's headers.
        fallback: The text to use where the body has none.
    """
    _, text, body_id = _read_error(body)
    request_id = headers.get("request-id") or body_id
    said = f"The API refused with status {status}: {text or fallback}"
    hint = _hint(status, said, retry_after(headers))
    return error_class(status)(f"{said}{hint}", status=status, request_id=request_id)


def _hint(status: int, said: str, wait: float | None) -> str:
    """What to do about it, where that can be told."""
    if status == 401:
        return ". Check the key in ANTHROPIC_API_KEY."
    if status == 404:
        return ". Check the model's name."
    if status == 413 or "prompt is too long" in said:
        return ". Begin another chat, or give the agent a Compaction."
    if status == 429 and wait is not None and wait > MAX_RETRY_AFTER:
        return f". Try again in {wait:.0f} s."
    return ""


def event_error(data: Any, request_id: str | None) -> ModelError:
    """The error for an `error` event of a stream, by its type: the HTTP status was 200 long before."""
    kind, text, body_id = _read_error(data)
    status = _STATUS_OF_TYPE.get(kind or "")
    made = error_class(status) if status is not None else ModelError
    return made(
        f"The API ended the stream with {kind or 'an error'}: {text or 'no text'}",
        status=status,
        request_id=request_id or body_id,
    )


def is_connection_error(error: BaseException) -> bool:
    """Whether an exception comes from the connection, which the SDK gives raw once a stream has begun."""
    homes = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, OSError | EOFError) or not homes.isdisjoint(_TRANSPORTS)


def broken_stream(error: BaseException, request_id: str | None = None) -> ModelStreamError:
    """The error for a connection that was lost, or an event that can't be read."""
    return ModelStreamError(
        f"The connection to the model broke off ({type(error).__name__}).",
        kind="connection_lost",
        request_id=request_id,
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a response asks to wait, or None if it does not say."""
    raw = headers.get("retry-after")
    if raw is None:
        return None
    try:
        return max(0.0, float(raw))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(raw)
    except ValueError:
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _read_error(body: Any) -> tuple[str | None, str | None, str | None]:
    if not isinstance(body, Mapping):
        return None, None, None
    inner = body.get("error")
    inner = inner if isinstance(inner, Mapping) else body
    kind, text, request_id = inner.get("type"), inner.get("message"), body.get("request_id")
    return (
        kind if isinstance(kind, str) else None,
        text if isinstance(text, str) else None,
        request_id if isinstance(request_id, str) else None,
    )
