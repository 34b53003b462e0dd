"""The hooks of an agent: decorators, one function each, sync or async (spec/turns.md, section 3).

The mixin of `Agent` that takes them. Each function gets one event; all events have `chat`, `chat_id`, `turn_number`,
`trigger`, `client_data`, `body` and `stop_requested`. The classes of the events are in `chatnb.turns.events`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ._options import takes_one
from .errors import ConfigError
from .turns import HookName

__all__ = ["AgentHooks"]

F = TypeVar("F", bound=Callable[..., Any])


class AgentHooks:
    """What an agent calls on the way of a turn. A second function of the same hook takes the place of the first.

    Raises:
        ConfigError: From each of them: what is decorated is no function of one argument.
    """

    _hooks: dict[HookName, Callable[..., Any]]

    def _register(self, name: HookName, function: F) -> F:
        if not callable(function):
            raise ConfigError(f"{name} decorates a function, which takes one argument: the event")
        if not takes_one(function):
            what = "the turn" if name == "run" else "the event"
            raise ConfigError(f"{name}: the function takes one argument, {what}; it is called with nothing else")
        self._hooks[name] = function
        return function

    def on_boot(self, function: F) -> F:
        """Once per opened chat, before its first input or recovery. `event.is_new`: it has never been opened before.

        Example:
            @agent.on_boot
            def connect(event):
                print(event.chat_id, "is open")
        """
        return self._register("on_boot", function)

    def on_chat_start(self, function: F) -> F:
        """Exactly once in a chat's life, before its first turn. `event.ui_messages`, `event.messages`, `event.write`.

        Example:
            @agent.on_chat_start
            def greet(event):
                event.chat.inject("It is the person's first question.")
        """
        return self._register("on_chat_start", function)

    def on_validate_messages(self, function: F) -> F:
        """For a turn with an incoming message, `event.messages`; raising refuses it, and nothing of it is kept.

        Example:
            @agent.on_validate_messages
            def within_budget(event):
                if (event.chat.usage.total.cost or 0) > 2:
                    raise ValueError("This chat has used up its two dollars.")
        """
        return self._register("on_validate_messages", function)

    def hydrate_messages(self, function: F) -> F:
        """Returns the whole chain, from the app's own storage. `event.incoming_messages`, `event.previous_messages`.

        Example:
            @agent.hydrate_messages
            def load(event):
                return [*event.previous_messages, *event.incoming_messages]
        """
        return self._register("hydrate_messages", function)

    def on_turn_start(self, function: F) -> F:
        """Every turn. `event.ui_messages`, `event.messages`, `event.total_usage`, `event.write`.

        Example:
            @agent.on_turn_start
            def add_context(event):
                event.chat.inject("The shop is closed on Mondays.")
        """
        return self._register("on_turn_start", function)

    def prepare_messages(self, function: F) -> F:
        """Changes what the model sees, `event.messages`, before `run`: returns another list, or None.

        Example:
            @agent.prepare_messages
            def only_the_latest(event):
                return event.messages[-20:]
        """
        return self._register("prepare_messages", function)

    def run(self, function: F) -> F:
        """Answers a turn instead of the default run; gets the `Turn`.

        It returns text, or `turn.stream_text()` for the model's answer, or it yields chunks.

        Example:
            @agent.run
            def answer(turn):
                if turn.ui_messages[-1].text == "ping":
                    return "pong"
                return turn.stream_text(max_steps=3)
        """
        return self._register("run", function)

    def on_before_turn_complete(self, function: F) -> F:
        """When a turn ended without error and its stream is still open: the last moment for `event.write`.

        Example:
            @agent.on_before_turn_complete
            def tell_tokens(event):
                event.write({"type": "data-tokens", "data": event.usage.output_tokens, "transient": True})
        """
        return self._register("on_before_turn_complete", function)

    def on_turn_complete(self, function: F) -> F:
        """Every started turn, once, when its outcome is stored: `event.status`, `event.usage`, `event.error`.

        Example:
            @agent.on_turn_complete
            def note(event):
                print(event.turn_number, event.status, event.usage.output_tokens)
        """
        return self._register("on_turn_complete", function)

    def on_action(self, function: F) -> F:
        """A chat action of the app's own schema, `event.action`. Returning `event.turn()` asks for an answer.

        Example:
            @agent.on_action
            def try_again(event):
                event.chat.history.slice(0, -1)
                return event.turn()
        """
        return self._register("on_action", function)

    def on_chat_recovery(self, function: F) -> F:
        """An interrupted turn is about to be taken up (spec/recovery.md, section 5); may return a `RecoveryDecision`.

        Example:
            from chatnb import RecoveryDecision

            @agent.on_chat_recovery
            def keep_it(event):
                return RecoveryDecision(continue_=False)
        """
        return self._register("on_chat_recovery", function)

    def on_compacted(self, function: F) -> F:
        """A compaction was stored: `event.summary` stands for what came before.

        Example:
            @agent.on_compacted
            def show(event):
                print(event.summary)
        """
        return self._register("on_compacted", function)

    def on_tool_repair(self, function: F) -> F:
        """A call without a result is about to be settled (spec/recovery.md, section 8)."""
        return self._register("on_tool_repair", function)
