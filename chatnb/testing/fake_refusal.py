"""What the fake Anthropic server says when it refuses, in the API's shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


@dataclass(frozen=True)
class Refusal:
    """Why a request is refused.

    Attributes:
        rule: The rule of spec/notebook.md, section 8, such as `"R5"`.
        message: The API's text.
        status: The HTTP status.
    """

    rule: str
    message: str
    status: int = 400

    @property
    def error_type(self) -> str:
        """The API's name of the kind of error."""
        return error_type_of(self.status)

    def to_body(self, request_id: str | None = None) -> dict[str, Any]:
        """The JSON of the response."""
        return error_body(self.error_type, self.message, request_id)


def refuse(rule: str, message: str, status: int = 400) -> Refusal:
    """A refusal whose text begins with its rule, so that a failing test says what it broke."""
    return Refusal(rule, f"[{rule}] {message}", status)


def error_type_of(status: int) -> str:
    """The API's name of the kind of error that a status stands for."""
    return ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")


def error_body(error_type: str, message: str, request_id: str | None = None) -> dict[str, Any]:
    """The JSON of any error of the API."""
    body: dict[str, Any] = {"type": "error", "error": {"type": error_type, "message": message}}
    return {**body, "request_id": request_id} if request_id else body
