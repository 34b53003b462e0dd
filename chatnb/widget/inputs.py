"""What a widget adds to its inputs: the body, and the schemas of client tools (spec/widget.md, section 1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .._json import JsonValue
from ..errors import ConfigError, InputError
from ..messages import UIMessage

Body = Mapping[str, JsonValue]
BodyOption = Body | Callable[[], Any] | None
Ask = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRequest:
    """What `prepare_send_messages_request` gets.

    Attributes:
        trigger: `"submit-message"`, `"regenerate-message"`, `"action-turn"` or `"continuation"`.
        message_id: The message that is regenerated or edited, or None.
        messages: The history as the widget shows it.
        body: The body so far.
    """

    trigger: str
    message_id: str | None
    messages: tuple[UIMessage, ...]
    body: Mapping[str, JsonValue] | None


class BodyMaker:
    """Makes the body of each input of a widget.

    Args:
        body: A dict, or a sync or async function that returns one.
        prepare: Gets a `SendRequest`, returns None or `{"body": {...}}`.
        ask: Calls a person's function, sync or async, where their functions run.
        messages: Returns the history as shown.
    """

    def __init__(
        self,
        body: BodyOption,
        prepare: Callable[[SendRequest], Any] | None,
        ask: Ask,
        messages: Callable[[], tuple[UIMessage, ...]],
    ) -> None:
        self._body = body
        self._prepare = prepare
        self._ask = ask
        self._messages = messages

    def options(self, trigger: str, message_id: str | None, own: Body | None) -> dict[str, Any]:
        """Return the keywords for an input method of the chat.

        With functions it is `_body`, which the chat awaits before the input is written; one that raises is then the
        outcome `error`, stage `input`.

        Raises:
            InputError: The call's own body is no dict.
        """
        if own is not None and not isinstance(own, Mapping):
            raise InputError("body is a dict of extra request fields")
        if self._prepare is None and not callable(self._body):
            merged = {**(self._body or {}), **(own or {})}
            return {"body": merged} if self._body is not None or own is not None else {}

        async def make() -> dict[str, JsonValue] | None:
            return await self._make(trigger, message_id, own)

        return {"_body": make}

    async def _make(self, trigger: str, message_id: str | None, own: Body | None) -> dict[str, JsonValue] | None:
        merged: dict[str, JsonValue] | None = None
        if self._body is not None:
            given = await self._ask(self._body) if callable(self._body) else self._body
            if not isinstance(given, Mapping):
                raise ConfigError("body must be a dict, or a function that returns one")
            merged = dict(given)
        if self._prepare is not None:
            request = SendRequest(trigger=trigger, message_id=message_id, messages=self._messages(), body=merged)
            answer = await self._ask(self._prepare, request)
            merged = _laid_over(merged, answer)
        return merged if own is None else {**(merged or {}), **own}


def _laid_over(body: dict[str, JsonValue] | None, answer: object) -> dict[str, JsonValue] | None:
    if answer is None:
        return body
    if not isinstance(answer, Mapping) or set(answer) - {"body"}:
        raise ConfigError('prepare_send_messages_request must return None or {"body": {...}}; no other key is known')
    given = answer.get("body")
    if given is None:
        return body
    if not isinstance(given, Mapping):
        raise ConfigError('prepare_send_messages_request must return None or {"body": {...}}, with a dict inside')
    return {**(body or {}), **given}
