"""The inputs of a chat: what a person, a cell or a view may ask of it, each a `Submission` at once.

The mixin of `Chat` that sends, commands and decides (spec/turns.md, section 1).
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ._json import JsonValue
from ._pending import as_json, json_or_none
from .actions import Identity
from .actions.effects import refuse_decision_inside_call
from .errors import ForbiddenError, InputError, InvalidArgumentsError
from .history.api import checked_messages
from .messages import UIMessage
from .runtime import Runtime
from .store import InputKind
from .turns import ChatEngine, ClientTool, Input, Submission, user_message
from .turns.decisions import Decision

__all__ = ["ChatInputs"]


class ChatInputs:
    """What a chat takes in, from any thread."""

    id: str
    _runtime: Runtime
    _engine: ChatEngine
    _client_data: Any
    _default_client_tools: tuple[ClientTool, ...]

    # --- input --------------------------------------------------------------------------------------------------

    def send(
        self,
        message: str | UIMessage | Mapping[str, Any] | Iterable[Any],
        *,
        files: Iterable[Any] = (),
        metadata: JsonValue = None,
        body: Mapping[str, JsonValue] | None = None,
        client_data: Any = None,
        client_tools: Sequence[ClientTool] = (),
        _origin: str = "chat",
    ) -> Submission:
        """Send a message of the user.

        Args:
            message: Text, a message, its wire dict, or a list of parts.
            files: Paths, http(s) links, `(name, bytes)` pairs, matplotlib figures, PIL images or file parts.
            metadata: The message's metadata.
            body: Extra request fields, for hooks and `run`.
            client_data: Client data for this input; default: the chat's.
            client_tools: Tools that the page runs or a person answers.

        Raises:
            InputError: No text and no part, or a role other than the user's.
            MessageTooLargeError: More than 16,000,000 bytes.
            ChatClosedError: The chat is closed.

        Example:
            outcome = await chat.send("What is in it?", files=["plot.png"])  # or .result() where nothing can be awaited
            print(outcome.text)
        """
        self._check_open()
        made = user_message(message, files=files, metadata=metadata, new_id=self._engine.new_id)
        return self._submit(
            "send",
            {"message": made.to_wire()},
            body=body,
            client_data=client_data,
            client_tools=client_tools,
            origin=_origin,
        )

    def act(
        self,
        chat_action: Mapping[str, Any] | Any,
        *,
        body: Mapping[str, JsonValue] | None = None,
        client_data: Any = None,
        client_tools: Sequence[ClientTool] = (),
        _origin: str = "chat",
    ) -> Submission:
        """Give the chat a command: a chat action of the app's own or a built-in one, as a model or a dict with `type`.

        Body, client data and client-side tools are those of its answer, if it has one.

        Raises:
            InputError: It has no `type`.

        Example:
            await chat.act({"type": "undo"})
        """
        live = None
        if hasattr(chat_action, "model_dump"):
            live, chat_action = chat_action, chat_action.model_dump(mode="json", by_alias=True)
        if not isinstance(chat_action, Mapping) or not isinstance(chat_action.get("type"), str):
            raise InputError("a chat action is a dict (or model) with a `type`, as in {'type': 'undo'}")
        payload = {"action": as_json(dict(chat_action), "the chat action")}
        return self._submit(
            "action",
            payload,
            body=body,
            client_data=client_data,
            client_tools=client_tools,
            origin=_origin,
            live=live,
        )

    def regenerate(
        self,
        message_id: str | None = None,
        *,
        body: Mapping[str, JsonValue] | None = None,
        client_tools: Sequence[ClientTool] = (),
        _origin: str = "chat",
    ) -> Submission:
        """Answer again; the former answer stays as a branch. Without an id: the last answer.

        Example:
            first = await chat.send("A line about autumn")
            second = await chat.regenerate()
            assert chat.history.branches(second.message.id)  # both are there
        """
        return self._submit(
            "regenerate", {"messageId": message_id}, body=body, client_tools=client_tools, origin=_origin
        )

    def continue_last_turn(
        self,
        body: Mapping[str, JsonValue] | None = None,
        *,
        client_tools: Sequence[ClientTool] = (),
        _origin: str = "chat",
    ) -> Submission:
        """Go on with the assistant message at the end, or accept an offered, interrupted turn."""
        return self._submit("continue", {}, body=body, client_tools=client_tools, origin=_origin)

    def save_messages(
        self, messages: Sequence[Any] | Callable[[list[UIMessage]], Any], *, _origin: str = "chat"
    ) -> Submission:
        """Make a list the history, and answer it if it ends in something to answer.

        Args:
            messages: The list, or a function (sync or async) of a copy of the history as it is at its turn.

        Example:
            await chat.save_messages(lambda messages: messages[:-1])
        """
        if callable(messages):
            return self._submit("save", {"function": True}, origin=_origin, live=messages)
        wires = as_json([m.to_wire() for m in checked_messages(messages)], "every message")
        return self._submit("save", {"messages": wires}, origin=_origin)

    def undo(self, *, _origin: str = "chat") -> Submission:
        """Take back the last message of the user and what followed it.

        Example:
            await chat.undo()
            await chat.redo()  # and it is there again
        """
        return self.act({"type": "undo"}, _origin=_origin)

    def redo(self, *, _origin: str = "chat") -> Submission:
        """Take back the latest undo, rollback or clear."""
        return self.act({"type": "redo"}, _origin=_origin)

    def rollback(self, message_id: str, *, _origin: str = "chat") -> Submission:
        """Keep the conversation up to and including a message."""
        return self.act({"type": "rollback", "messageId": message_id}, _origin=_origin)

    def edit(
        self,
        message_id: str,
        text: str,
        *,
        body: Mapping[str, JsonValue] | None = None,
        client_tools: Sequence[ClientTool] = (),
        _origin: str = "chat",
    ) -> Submission:
        """Put another version of a message beside it, and answer that if it is the user's.

        Example:
            question = chat.messages[0]
            outcome = await chat.edit(question.id, "Show the sales in the South")
        """
        action = {"type": "edit", "messageId": message_id, "text": text}
        return self.act(action, body=body, client_tools=client_tools, _origin=_origin)

    def switch(self, message_id: str, *, _origin: str = "chat") -> Submission:
        """Show another version of a message, and what followed it. Takes a message or node id."""
        return self.act({"type": "switch", "messageId": message_id}, _origin=_origin)

    def remove(self, message_id: str, *, _origin: str = "chat") -> Submission:
        """Drop a message from the conversation shown."""
        return self.act({"type": "remove", "messageId": message_id}, _origin=_origin)

    def clear(self, *, _origin: str = "chat") -> Submission:
        """Begin an empty conversation; stops the running turn and skips what waits. `redo()` takes it back."""
        return self.act({"type": "clear"}, _origin=_origin)

    # --- decisions ----------------------------------------------------------------------------------------------

    def approve(
        self,
        id: str | None = None,
        *,
        args: Mapping[str, Any] | None = None,
        reason: str | None = None,
        continue_: bool = True,
        _origin: str = "chat",
    ) -> Submission:
        """Bless one pending call; it runs once.

        Args:
            id: The approval id or tool call id; None: the only pending one.
            args: Edited arguments, merged over those shown.
            reason: Why, for the record.
            continue_: Go on answering when nothing is pending any more.

        Raises:
            PendingError: No such call, or not exactly one; the text lists them.
            InvalidArgumentsError: The edited arguments do not fit; the call is still pending.
            ApprovalExpiredError: It was asked too long ago.
            ForbiddenError: From inside an action, or where a service works: neither ever approves.

        Example:
            waiting = await gated.send("Refund order 7, 250 EUR")
            if waiting.status == "awaiting":
                outcome = await gated.approve(args={"amount": 200})
        """
        if args is not None and not isinstance(args, Mapping):
            raise InvalidArgumentsError("Invalid arguments: the edited arguments are a dict of those that differ")
        self._refuse_services()
        edited = dict(args) if args is not None else None
        return self._decide(
            Decision(kind="approve", id=id, args=edited, reason=reason, continue_=continue_), origin=_origin
        )

    def reject(
        self, id: str | None = None, *, reason: str | None = None, continue_: bool = True, _origin: str = "chat"
    ) -> Submission:
        """Refuse one pending call; the model hears the reason. Raises as `approve`.

        Example:
            await gated.send("Refund order 8, 900 EUR")
            outcome = await gated.reject(reason="Ask for the receipt first.")
        """
        return self._decide(Decision(kind="reject", id=id, reason=reason, continue_=continue_), origin=_origin)

    def add_tool_output(
        self, tool_call_id: str, output: JsonValue, *, continue_: bool = True, _origin: str = "chat"
    ) -> Submission:
        """Give the output of a client-side call."""
        value = as_json(output, "the output")
        return self._decide(Decision(kind="output", id=tool_call_id, output=value, continue_=continue_), origin=_origin)

    def add_tool_error(
        self, tool_call_id: str, text: str, *, continue_: bool = True, _origin: str = "chat"
    ) -> Submission:
        """Say that a client-side call failed."""
        return self._decide(Decision(kind="error", id=tool_call_id, text=text, continue_=continue_), origin=_origin)

    def add_tool_approval_response(
        self, id: str, approved: bool, reason: str | None = None, *, continue_: bool = True, _origin: str = "chat"
    ) -> Submission:
        """Decide by approval id, as the protocol names it."""
        if approved:
            return self.approve(id, reason=reason, continue_=continue_, _origin=_origin)
        return self.reject(id, reason=reason, continue_=continue_, _origin=_origin)

    # --- inside -------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        error = self._engine.closed_error()
        if error is not None:
            raise error

    def _submit(
        self,
        kind: InputKind,
        payload: JsonValue,
        *,
        body: Mapping[str, JsonValue] | None = None,
        client_data: Any = None,
        client_tools: Sequence[ClientTool] = (),
        origin: str = "chat",
        live: Any = None,
    ) -> Submission:
        self._check_open()
        engine, runtime = self._engine, self._runtime
        if body is not None and not isinstance(body, Mapping):
            raise InputError("body is a dict of extra request fields")
        offered = checked_tools(client_tools) or self._default_client_tools
        tools = [t.to_json() for t in offered] or None
        data = client_data if client_data is not None else self._client_data
        submission = Submission(runtime, self.id, engine.stop_submission)
        context = contextvars.copy_context()
        stored_body = as_json(dict(body), "body") if body is not None else None

        def admit() -> None:
            row = engine.new_row(kind, payload, body=stored_body, client_data=json_or_none(data), client_tools=tools)
            engine.admit(Input(row, [submission], origin=origin, context=context, client_data=data, live=live))

        if runtime.on_loop():
            admit()
        else:
            runtime.post(admit)
        return submission

    def _whose(self) -> Identity | None:
        """Return who works here."""
        raise NotImplementedError

    def _refuse_services(self) -> None:
        person = self._whose()
        if person is not None and person.kind == "service":
            raise ForbiddenError("A service may call, never approve.")

    def _decide(self, decision: Decision, *, origin: str) -> Submission:
        refuse_decision_inside_call()
        self._check_open()
        if decision.decided_by is None:
            person = self._whose()
            decision = replace(decision, decided_by=person.id if person is not None else None)
        submission = Submission(self._runtime, self.id, self._engine.stop_submission)
        self._runtime.call(self._engine.decide, submission, decision, origin)
        return submission


def checked_tools(client_tools: Any) -> tuple[ClientTool, ...]:
    """Return client-side tools.

    Raises:
        InputError: It is no list of `ClientTool`s.
    """
    if not isinstance(client_tools, Sequence) or not all(isinstance(tool, ClientTool) for tool in client_tools):
        raise InputError("client_tools is a list of chatnb.ClientTool(name, description, parameters)")
    return tuple(client_tools)
