"""What an A2A task is: one message of a caller in a chat, and the turns that answer it.

Nothing of a task is kept beside the chat. Its state is read from the chat's turns, so a restart loses nothing, and two
processes never disagree: the chat's lease is the task's (`a2a_replay.py`).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from a2a.helpers.proto_helpers import new_data_part, new_text_part
from a2a.types.a2a_pb2 import Artifact, Message, Part, Role, Task, TaskState, TaskStatus

from .._json import JsonValue
from ..actions.redaction import mask_secrets
from ..messages import TextPart, UIMessage
from ..store.records import TurnRow
from ..turns.records import Pending
from ..turns.wire import WireChunk
from .a2a_replay import LOST, find_lost_calls

if TYPE_CHECKING:
    from ..chat import Chat

PREFIX = "a2a-"
ARTIFACT = "answer"
BETWEEN = "\n\n"
"""What stands between two texts of an answer."""
WAITS = "A person has to approve this call. The owner of the task decides on the page of this server."
FAILED = "The agent could not finish this task."

_STATES = {
    "completed": TaskState.TASK_STATE_COMPLETED,
    "awaiting": TaskState.TASK_STATE_INPUT_REQUIRED,
    "stopped": TaskState.TASK_STATE_CANCELED,
    "error": TaskState.TASK_STATE_FAILED,
}
ENDED = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_REJECTED,
    }
)


def new_context_id() -> str:
    """Return the id of a new conversation."""
    return secrets.token_hex(12)


def new_task_id(context_id: str) -> str:
    """Return the id of a new task: it names its conversation, so that it can be found by its id alone."""
    return f"{context_id}:{secrets.token_hex(8)}"


def context_of(task_id: str) -> str:
    """Return the conversation of a task."""
    return task_id.rpartition(":")[0]


def chat_id_of(context_id: str) -> str:
    """Return the chat of a conversation."""
    return PREFIX + context_id


def read_task(chat: Chat, task_id: str) -> Task | None:
    """Return a task as it is now, or None when the chat has no such message; on the runtime."""
    engine = chat._engine
    node = engine.tree.newest(task_id)
    waiting = any(_brings(input_.row.payload, task_id) for input_ in engine.queue)
    if node is None:
        running = engine.queue.running
        if waiting or (running is not None and _brings(running.row.payload, task_id)):
            return _task(task_id, TaskState.TASK_STATE_SUBMITTED)
        return None
    known = engine.store.load_turns(chat.id)
    rows = [row for row in known if row.leaf_id == node]
    if not rows:
        return _task(task_id, TaskState.TASK_STATE_SUBMITTED if waiting else TaskState.TASK_STATE_CANCELED)
    answer_id = rows[-1].assistant_id
    turns = [row for row in known if answer_id and row.assistant_id == answer_id]
    answer = next((m for m in engine.shown_messages() if m.id == answer_id), None)
    asks = [p for p in engine.pending() if p.kind == "approval" and p.message_id == answer_id]
    goes_on = any(i.kind == "continuation" for i in engine.queue) or engine.queue.running is not None
    state = _state_of(turns or rows, asks, goes_on=goes_on)
    parts = answer.parts if answer is not None else ()
    if state == TaskState.TASK_STATE_CANCELED and find_lost_calls(parts, chat, [row.id for row in turns]):
        return _task(task_id, TaskState.TASK_STATE_FAILED, answer, why=LOST)
    return _task(task_id, state, answer, asks)


def _state_of(turns: Sequence[TurnRow], asks: Sequence[Pending], *, goes_on: bool) -> TaskState:
    last = max(turns, key=lambda row: row.number)
    if last.state != "awaiting":
        return _STATES.get(last.state, TaskState.TASK_STATE_WORKING)
    if asks:
        return TaskState.TASK_STATE_INPUT_REQUIRED
    return TaskState.TASK_STATE_WORKING if goes_on else TaskState.TASK_STATE_CANCELED


def _brings(payload: JsonValue, task_id: str) -> bool:
    message = payload.get("message") if isinstance(payload, dict) else None
    return isinstance(message, dict) and message.get("id") == task_id


def _task(
    task_id: str,
    state: TaskState,
    answer: UIMessage | None = None,
    asks: Sequence[Pending] = (),
    why: str = FAILED,
) -> Task:
    context_id = context_of(task_id)
    task = Task(id=task_id, context_id=context_id, status=status_of(task_id, state, asks, why))
    text = answer_text(answer)
    if text:
        task.artifacts.append(Artifact(artifact_id=ARTIFACT, name="answer", parts=[new_text_part(text)]))
    return task


def status_of(task_id: str, state: TaskState, asks: Sequence[Pending] = (), why: str = FAILED) -> TaskStatus:
    """Return a task's status; while it waits with what is asked, once it failed with a fixed text."""
    status = TaskStatus(state=state)
    status.timestamp.GetCurrentTime()
    if state == TaskState.TASK_STATE_INPUT_REQUIRED:
        status.message.CopyFrom(_said(task_id, [new_text_part(WAITS), new_data_part(_asked(task_id, asks))]))
    elif state == TaskState.TASK_STATE_FAILED:
        status.message.CopyFrom(_said(task_id, [new_text_part(why)]))
    return status


def _asked(task_id: str, asks: Sequence[Pending]) -> dict[str, JsonValue]:
    return {
        "page": f"/?chat={quote(chat_id_of(context_of(task_id)), safe='')}",
        "approvals": [
            {
                "id": ask.id,
                "action": ask.action,
                "title": ask.title,
                "arguments": mask_secrets(ask.args),
                "hash": ask.hash,
                "expiresAt": ask.expires_at.isoformat() if ask.expires_at is not None else None,
            }
            for ask in asks
        ],
    }


def _said(task_id: str, parts: list[Part]) -> Message:
    return Message(
        message_id=secrets.token_hex(8),
        role=Role.ROLE_AGENT,
        parts=parts,
        task_id=task_id,
        context_id=context_of(task_id),
    )


def answer_text(answer: UIMessage | None) -> str:
    """Return the text of an answer."""
    if answer is None:
        return ""
    return BETWEEN.join(p.text for p in answer.parts if isinstance(p, TextPart) and p.text)


class Writer:
    """Makes the text of an answer from its chunks, as `answer_text` makes it from its parts.

    Args:
        before: The answer's text before; the first piece repeats it.
    """

    def __init__(self, before: str) -> None:
        self._before = before
        self._is_new = False
        self.has_written = False

    def take(self, chunk: WireChunk) -> str:
        """Return the text that a chunk adds."""
        if chunk["type"] == "text-start":
            self._is_new = True
        if chunk["type"] != "text-delta" or not chunk["delta"]:
            return ""
        between = BETWEEN if self._is_new and (self.has_written or self._before) else ""
        piece = f"{'' if self.has_written else self._before}{between}{chunk['delta']}"
        self._is_new, self.has_written = False, True
        return piece
