"""What the pieces of a scenario find: an agent whose model and actions leave marks in files (see `processes.py`)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chatnb import Agent, Recovery, RecoveryDecision, action
from chatnb.models import Reply, ScriptedModel
from chatnb.testing import kill_points


def warm_up() -> None:
    """Load what is loaded on first use, without a thread: the nursery forks."""
    from chatnb.store import memory_store

    store = memory_store()
    store.find_chat("nobody")
    store.close()


def note(path: Path, line: str) -> None:
    """Append a line so that it is there whatever happens next."""
    with path.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def die() -> None:
    """Die like a killed process."""
    os.kill(os.getpid(), signal.SIGKILL)


class MarkingModel(ScriptedModel):
    """A scripted model that notes each request in a file."""

    path: Path

    def _take(self, request: Any) -> Any:
        note(self.path, json.dumps([m["role"] for m in request.messages]))
        return super()._take(request)


def names(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Return the names that a piece sees."""

    def mark(line: str) -> None:
        note(folder / "calls", line)

    @action(run_in="thread")
    def pay(order: str) -> str:
        """Pay an order."""
        mark(f"pay {order}")
        if order == "die":
            die()
        if order == "slow":
            import time

            time.sleep(30)
        return f"paid {order}"

    @action(run_in="thread", needs_approval=True)
    def refund(order: str) -> str:
        """Refund an order."""
        mark(f"refund {order}")
        return f"refunded {order}"

    @action(run_in="thread", idempotent=True)
    def put(order: str) -> str:
        """Put an order; may be repeated."""
        mark(f"put {order}")
        if order == "die":
            die()
        return f"put {order}"

    @action(read_only=True, run_in="thread")
    def look(order: str) -> str:
        """Look an order up."""
        mark(f"look {order}")
        if order == "die":
            die()
        return f"saw {order}"

    def make_pay(mark_call: Any) -> Any:
        def pay(order: str) -> str:
            """Pay an order."""
            mark_call(f"pay {order}")
            if order == "slow":
                import time

                time.sleep(30)
            elif order == "7":
                import time

                time.sleep(0.2)  # the other one has begun by then
            return f"paid {order}"

        return pay

    def make_model(*steps: Any, **options: Any) -> MarkingModel:
        model = MarkingModel(list(steps), **options)
        model.path = folder / "models"
        return model

    def make_agent(*steps: Any, hook: Any = None, model: Any = None, **options: Any) -> Agent:
        options.setdefault("actions", [pay, refund, look, put])
        options.setdefault("store", str(folder / "chats.db"))
        continuation = options.pop("continuation", "user-message")
        agent = Agent(model or make_model(*steps, continuation=continuation), **options)

        @agent.on_turn_complete
        def on_turn_complete(event: Any) -> None:
            note(
                folder / "hooks",
                json.dumps({"hook": "on_turn_complete", "status": event.status, "replayed": event.replayed}),
            )

        @agent.on_chat_recovery
        def on_chat_recovery(event: Any) -> Any:
            note(
                folder / "hooks",
                json.dumps(
                    {
                        "hook": "on_chat_recovery",
                        "attempt": event.attempt,
                        "kind": event.kind,
                        "cause": event.cause,
                        "offered": event.offered,
                        "incident": event.incident_id,
                        "trigger": event.trigger,
                        "partial": event.partial_text,
                        "data": event.recovery_data,
                        "pending": [[c.tool_name, c.ledger] for c in event.pending_tool_calls],
                        "in_flight": [i.text for i in event.in_flight_inputs],
                    }
                ),
            )
            return hook(event) if hook is not None else None

        return agent

    def shown(chat: Any) -> dict[str, Any]:
        """Return what can be seen of a chat, as JSON."""
        interruption = chat.interruption
        return {
            "messages": [[m.role, m.text] for m in chat.messages],
            "ids": [m.id for m in chat.messages],
            "parts": [[_part(p) for p in m.parts] for m in chat.messages],
            "pending": [p.action for p in chat.pending],
            "queue": [w.text for w in chat.queue],
            "status": chat.status,
            "recovering": chat.is_recovering,
            "offered": interruption.offered if interruption is not None else None,
            "reason": interruption.reason if interruption is not None else None,
            "cause": interruption.cause if interruption is not None else None,
            "held": interruption.inputs if interruption is not None else None,
            "error": chat.error.code or chat.error.message if chat.error is not None else None,
        }

    async def until(is_so: Callable[[], Any]) -> None:
        """Wait for something that another thread or process does."""
        while not is_so():  # noqa: ASYNC110 - what it waits for has no event here
            await asyncio.sleep(0.005)

    def is_logged(chat: Any) -> bool:
        """Tell whether the running turn has said something, and all of it is in the store."""
        turn = chat._engine.turn
        return turn is not None and turn.live.has_content and not turn.live._batch

    return {
        "Agent": Agent,
        "Recovery": Recovery,
        "RecoveryDecision": RecoveryDecision,
        "Reply": Reply,
        "action": action,
        "asyncio": asyncio,
        "die": die,
        "folder": folder,
        "is_logged": is_logged,
        "job": job,
        "kill_points": kill_points,
        "make_agent": make_agent,
        "make_model": make_model,
        "make_pay": make_pay,
        "mark": mark,
        "os": os,
        "shown": shown,
        "until": until,
    }


def _part(part: Any) -> Any:
    wire = part.to_wire()
    kind = wire["type"]
    if kind == "text":
        return wire["text"]
    if kind.startswith("tool-"):
        return [kind[5:], wire["state"], wire.get("output", wire.get("errorText"))]
    return kind
