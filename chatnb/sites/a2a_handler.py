"""The A2A methods: send, stream, get, list, cancel, subscribe."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from functools import partial
from typing import TYPE_CHECKING, Any

from a2a.helpers.proto_helpers import get_data_parts, new_text_part
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types.a2a_pb2 import (
    Artifact,
    ListTasksResponse,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from .._json import JsonValue, dumps
from ..actions import Identity
from ..errors import ChatInUseError, ChatnbError, ForbiddenError, InputError, MessageError
from ..turns.decisions import Decision
from .a2a_tasks import (
    ARTIFACT,
    BETWEEN,
    ENDED,
    PREFIX,
    Writer,
    chat_id_of,
    context_of,
    new_context_id,
    new_task_id,
    read_task,
)
from .http_intake import running_submission
from .place import SitePlace

if TYPE_CHECKING:
    from ..chat import Chat
    from ..turns import Submission

ORIGIN = "http-a2a"
IDENTITY_KEY = "chatnb.identity"
MAX_PAGE = 100


class ChatTasks(RequestHandler):
    """Tasks that are turns of chats.

    Args:
        place: The agent, with the actions that A2A shows, and the way to the runtime.
    """

    def __init__(self, place: SitePlace) -> None:
        self._place = place

    # --- sending ------------------------------------------------------------------------------------------------

    async def on_message_send(self, params: Any, context: ServerCallContext) -> Task | Message:
        """Take a message; answer with the task as it ends, or at once if the caller does not want to wait."""
        chat, task_id, submission = await self._send(params, context)
        if not params.configuration.return_immediately:
            await asyncio.shield(_outcome(submission))
        return await self._read(chat, task_id)

    async def on_message_send_stream(self, params: Any, context: ServerCallContext) -> AsyncGenerator[Any]:
        """Take a message, and tell of its task as it goes."""
        chat, task_id, submission = await self._send(params, context)
        async for event in self._follow(chat, task_id, submission):
            yield event

    async def on_subscribe_to_task(self, params: Any, context: ServerCallContext) -> AsyncGenerator[Any]:
        """Tell of a task that runs, from its start."""
        chat = await self._find(params.id, context)
        task = await self._read(chat, params.id)
        submission = await self._place.on_runtime(lambda: running_submission(chat))
        if task.status.state in ENDED or submission is None:
            raise UnsupportedOperationError("The task does not run.")
        async for event in self._follow(chat, params.id, submission):
            yield event

    async def _send(self, params: Any, context: ServerCallContext) -> tuple[Chat, str, Submission]:
        message = params.message
        if message.task_id:
            await self._find(message.task_id, context)
            raise UnsupportedOperationError(
                "A task takes no further messages; send one in its context. Approvals are decided by its owner, on "
                "the page of this server."
            )
        context_id = message.context_id or new_context_id()
        task_id = new_task_id(context_id)
        parts = [part for given in message.parts if (part := _part(given)) is not None]
        wire: dict[str, JsonValue] = {"id": task_id, "role": "user", "parts": parts}
        try:
            chat = await self._open(context_id, context, create=True)
            submission = await self._place.on_runtime(lambda: chat.send(wire, _origin=ORIGIN))
        except (InputError, MessageError) as error:
            raise InvalidParamsError(str(error)) from error
        return chat, task_id, submission

    async def _follow(self, chat: Chat, task_id: str, submission: Submission) -> AsyncGenerator[Any]:
        task, before = await self._place.on_runtime(lambda: _begin(chat, task_id, submission))
        if task is None:
            raise TaskNotFoundError
        yield task
        context_id = context_of(task_id)
        writer = Writer(before)
        async for batch in submission._log.read_batches():
            append = writer.has_written
            text = "".join(map(writer.take, batch))
            if text:
                clean = text if self._place.redact is None else self._place.redact(text)
                artifact = Artifact(artifact_id=ARTIFACT, name="answer", parts=[new_text_part(clean)])
                yield TaskArtifactUpdateEvent(
                    task_id=task_id, context_id=context_id, artifact=artifact, append=append, last_chunk=False
                )
        await _outcome(submission)
        task = await self._read(chat, task_id)
        yield TaskStatusUpdateEvent(task_id=task_id, context_id=context_id, status=task.status)

    # --- reading ------------------------------------------------------------------------------------------------

    async def on_get_task(self, params: Any, context: ServerCallContext) -> Task | None:
        """Return a task of the caller."""
        return await self._read(await self._find(params.id, context), params.id)

    async def on_list_tasks(self, params: Any, context: ServerCallContext) -> ListTasksResponse:
        """Return the caller's tasks, the newest chats first."""
        identity = identity_of(context)
        owner = identity.id if identity is not None else None
        store = self._place.store
        rows = await asyncio.to_thread(lambda: store.list_chats() if store.exists() else [])
        found: list[Task] = []
        for row in rows:
            if row.identity != owner or not row.id.startswith(PREFIX):
                continue
            if params.context_id and row.id != chat_id_of(params.context_id):
                continue
            try:
                chat = await self._open(row.id.removeprefix(PREFIX), context, create=False)
            except A2AError:
                continue  # open in another process
            found += await self._place.on_runtime(partial(_tasks_of, chat))
        if params.status:
            found = [task for task in found if task.status.state == params.status]
        size = min(params.page_size, MAX_PAGE) if params.page_size > 0 else MAX_PAGE
        first = int(params.page_token) if params.page_token.isdigit() else 0
        following = str(first + size) if first + size < len(found) else ""
        return ListTasksResponse(
            tasks=found[first : first + size], next_page_token=following, page_size=size, total_size=len(found)
        )

    async def on_cancel_task(self, params: Any, context: ServerCallContext) -> Task | None:
        """Stop a task that runs, or refuse what it asks."""
        chat = await self._find(params.id, context)
        task = await self._read(chat, params.id)
        if task.status.state in ENDED:
            raise TaskNotCancelableError
        if task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED:
            await self._place.on_runtime(lambda: _refuse_all(chat))
        else:
            submission = await self._place.on_runtime(lambda: _submission_of(chat, params.id))
            if submission is not None:
                submission.stop()
                await asyncio.shield(_outcome(submission))
        return await self._read(chat, params.id)

    # --- chats --------------------------------------------------------------------------------------------------

    async def _open(self, context_id: str, context: ServerCallContext, *, create: bool) -> Chat:
        try:
            chat = await self._place.open_chat(chat_id_of(context_id), identity_of(context), create=create)
        except ForbiddenError:
            raise TaskNotFoundError from None
        except ChatInUseError as error:
            raise InternalError(str(error)) from error
        except InputError as error:
            raise (InvalidParamsError(str(error)) if create else TaskNotFoundError()) from error
        except ChatnbError as error:
            raise InternalError("The conversation can't be opened now.") from error
        if chat is None:
            raise TaskNotFoundError
        return chat

    async def _find(self, task_id: str, context: ServerCallContext) -> Chat:
        if not context_of(task_id):
            raise TaskNotFoundError
        return await self._open(context_of(task_id), context, create=False)

    async def _read(self, chat: Chat, task_id: str) -> Task:
        task = await self._place.on_runtime(lambda: read_task(chat, task_id))
        if task is None:
            raise TaskNotFoundError
        if self._place.redact is not None:
            for artifact in task.artifacts:
                for part in artifact.parts:
                    part.text = self._place.redact(part.text)
        return task

    # --- not offered --------------------------------------------------------------------------------------------

    async def on_create_task_push_notification_config(self, params: Any, context: ServerCallContext) -> Any:
        """Refuse: this site sends no push notifications."""
        raise PushNotificationNotSupportedError

    async def on_get_task_push_notification_config(self, params: Any, context: ServerCallContext) -> Any:
        """Refuse: this site sends no push notifications."""
        raise PushNotificationNotSupportedError

    async def on_list_task_push_notification_configs(self, params: Any, context: ServerCallContext) -> Any:
        """Refuse: this site sends no push notifications."""
        raise PushNotificationNotSupportedError

    async def on_delete_task_push_notification_config(self, params: Any, context: ServerCallContext) -> None:
        """Refuse: this site sends no push notifications."""
        raise PushNotificationNotSupportedError

    async def on_get_extended_agent_card(self, params: Any, context: ServerCallContext) -> Any:
        """Refuse: there is one card."""
        raise UnsupportedOperationError


def identity_of(context: ServerCallContext) -> Identity | None:
    """Return who calls, as the site has authenticated them."""
    return context.state.get(IDENTITY_KEY)


def _begin(chat: Chat, task_id: str, submission: Submission) -> tuple[Task | None, str]:
    """Return a task without its answer, which the stream brings from the start, and the answer before this turn."""
    task = read_task(chat, task_id)
    if task is None:
        return None, ""
    writer = Writer("")
    said = "".join(map(writer.take, list(submission._log._chunks)))
    whole = "".join(part.text for artifact in task.artifacts for part in artifact.parts)
    task.ClearField("artifacts")
    return task, whole.removesuffix(said).removesuffix(BETWEEN) if said else whole


async def _outcome(submission: Submission) -> Any:
    return await submission


def _tasks_of(chat: Chat) -> list[Task]:
    ids = [m.id for m in chat._engine.tree.messages if m.role == "user" and ":" in m.id]
    return [task for task_id in reversed(ids) if (task := read_task(chat, task_id)) is not None]


def _submission_of(chat: Chat, task_id: str) -> Submission | None:
    """Return the submission that a task waits in, else the running one."""
    for input_ in chat._engine.queue:
        message = input_.row.payload.get("message") if isinstance(input_.row.payload, dict) else None
        if isinstance(message, dict) and message.get("id") == task_id:
            return input_.submissions[-1]
    return running_submission(chat)


def _refuse_all(chat: Chat) -> None:
    for pending in chat._engine.pending():
        decision = Decision(kind="reject", id=pending.id, reason="cancelled", continue_=False)
        chat._decide(decision, origin=ORIGIN)


def _part(given: Any) -> dict[str, JsonValue] | None:
    """Return a part of the user's message: text, files and links; data as its JSON."""
    kind = given.WhichOneof("content")
    media = given.media_type or "application/octet-stream"
    if kind == "text":
        return {"type": "text", "text": given.text}
    if kind == "data":
        return {"type": "text", "text": dumps(get_data_parts([given])[0])}
    if kind == "raw":
        url = f"data:{media};base64,{base64.b64encode(given.raw).decode()}"
        return {"type": "file", "mediaType": media, "url": url, **_named(given)}
    if kind == "url" and given.url.lower().startswith(("https:", "http:")):
        return {"type": "file", "mediaType": media, "url": given.url, **_named(given)}
    return None


def _named(given: Any) -> dict[str, JsonValue]:
    return {"filename": given.filename} if given.filename else {}
