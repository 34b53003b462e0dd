"""The chat routes: what the AI SDK's `DefaultChatTransport` asks for, and what other web clients need beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from .._json import JsonValue
from ..actions import Identity
from ..errors import ChatInUseError, InputError, LeaseLostError, MessageError
from ..messages import check_emittable
from ..turns import Outcome, Submission
from ..turns.wire import WireChunk
from .http_actions import read_json, read_object
from .http_errors import CompactJson, HttpProblem, problem_of
from .http_intake import ORIGIN, ChatRequest, Intake, Taken, running_submission
from .http_stream import Answer, EventStream, encoded

if TYPE_CHECKING:
    from ..chat import Chat
    from .http_site import HttpSite

SOON = 1.0
"""Seconds in which an input that can't be answered is found out; then the stream begins."""


class ChatRoutes:
    """The chat routes of one site."""

    def __init__(self, site: HttpSite) -> None:
        self._site = site

    # --- the AI SDK's transport ---------------------------------------------------------------------------------

    async def send(self, request: Request) -> Response | Answer:
        """`POST /api/chat`: take a message, outputs or answers, and stream the turn."""
        identity = await self._site.identify(request)
        asked = ChatRequest.read(await read_json(request, self._site.options.max_body_bytes))
        chat = await self._open(asked.id, identity)
        self._site.abandon_left(chat.id)
        intake = Intake(chat, identity, self._site.options.client_tools)
        taken = await self._site.on_runtime(lambda: intake.take(asked))
        return await self._stream(taken)

    async def resume(self, request: Request) -> Response | Answer:
        """`GET /api/chat/{id}/stream`: the running turn from its start; 204 when none runs."""
        chat = await self._find(request)
        if chat is None:
            return Response(status_code=204)
        submission = await self._site.on_runtime(lambda: running_submission(chat))
        if submission is None:
            return Response(status_code=204)
        return self._events(Taken(submission=submission), chat=chat)

    async def _whole(self, submission: Submission, chat: Chat) -> AsyncIterator[list[WireChunk]]:
        """Yield a turn's chunks from `start`, those of attempts in former processes too."""
        is_first = True
        async for batch in self._read(submission):
            if is_first and batch[0]["type"] != "start":
                earlier = await self._site.on_runtime(lambda: _earlier_chunks(chat))
                if earlier:
                    yield earlier
            is_first = False
            yield batch

    def _read(self, submission: Submission) -> AsyncIterator[list[WireChunk]]:
        return submission._log.read_batches(cross=self._site.crossing.take)

    async def _stream(self, taken: Taken) -> Response | Answer:
        submission = taken.submission
        await _begun(submission)
        if submission._log.is_ended and len(submission._log) == 0:
            outcome = await submission
            if outcome.status in ("error", "skipped"):
                raise problem_of_outcome(outcome)
            return self._events(taken, [*_unchanged(taken)])
        return self._events(taken)

    def _events(self, taken: Taken, chunks: list[WireChunk] | None = None, *, chat: Chat | None = None) -> Answer:
        submission = taken.submission
        sent = 0

        def count(number: int) -> None:
            nonlocal sent
            sent += number

        if chunks is not None:
            batches = _given(chunks)
        elif chat is not None:
            batches = self._whole(submission, chat)
        else:
            batches = self._read(submission)
        stops = submission._input is None or submission._input.origin == ORIGIN
        return EventStream(
            encoded(batches, self._site.redact, count),
            keep_alive=self._site.options.keep_alive,
            closing=self._site.closing,
            left=self._site.reading(submission, stops=stops),
            behind=lambda: len(submission._log) - sent,
        )

    # --- for web clients ----------------------------------------------------------------------------------------

    async def list_chats(self, request: Request) -> Response:
        """`GET /api/chats`: the chats of who asks, newest first."""
        identity = await self._site.identify(request)
        owner = identity.id if identity is not None else None
        store = self._site.store
        rows = await asyncio.to_thread(lambda: store.list_chats() if store.exists() else [])
        listed = [
            {"id": row.id, "createdAt": row.created_at.isoformat()}
            for row in rows
            if row.identity == owner and row.agent == self._site.agent.name and "/" not in row.id
        ]
        return CompactJson({"chats": listed})

    async def read(self, request: Request) -> Response:
        """`GET /api/chat/{id}`: the conversation as it is stored; a running turn comes by the stream."""
        identity = await self._site.identify(request)
        chat_id = request.path_params["id"]
        try:
            chat = await self._site.open_chat(chat_id, identity, create=False)
        except ChatInUseError as error:
            return await self._read_beside(chat_id, identity, error)
        if chat is None:
            raise _unknown_chat()
        return CompactJson(await self._site.on_runtime(lambda: _state(chat)))

    async def _read_beside(self, chat_id: str, identity: Identity | None, error: ChatInUseError) -> Response:
        """Read a chat that is open elsewhere: reading needs no lease."""
        from .chats import read_messages

        row = await asyncio.to_thread(self._site.store.find_chat, chat_id)
        if row is None:
            raise _unknown_chat()
        self._site.check_owner(row.identity, identity)
        messages = await asyncio.to_thread(read_messages, self._site.store, chat_id)
        place: JsonValue = {"host": error.host, "pid": error.pid, "kernelId": error.kernel_id, "label": error.label}
        return CompactJson(
            {"id": chat_id, "messages": [m.to_wire() for m in messages], "isStreaming": False, "openElsewhere": place}
        )

    async def act(self, request: Request) -> Response | Answer:
        """`POST /api/chat/{id}/actions`: a chat action; streams its turn to who accepts a stream."""
        identity = await self._site.identify(request)
        given = await read_object(request, self._site.options.max_body_bytes)
        action = given.get("action", given)
        if not isinstance(action, Mapping) or not isinstance(action.get("type"), str):
            raise HttpProblem(400, "invalid_body", "A chat action is an object with `type`.")
        body = given.get("body") if action is not given else None
        if body is not None and not isinstance(body, Mapping):
            raise HttpProblem(400, "invalid_body", "`body` is an object.")
        chat = await self._open(request.path_params["id"], identity, create=False)
        if action["type"] == "stop":
            chat.stop()
            return CompactJson({"status": "applied"})
        submission = await self._site.on_runtime(lambda: chat.act(action, body=body, _origin=ORIGIN))
        await _begun(submission, None)
        if len(submission._log) and "text/event-stream" in request.headers.get("accept", ""):
            return self._events(Taken(submission=submission))
        status = "started"
        if submission._log.is_ended and len(submission._log) == 0:
            outcome = await submission
            if outcome.status in ("error", "skipped"):
                raise problem_of_outcome(outcome)
            status = outcome.status
        return CompactJson({"status": status, **await self._site.on_runtime(lambda: _state(chat))})

    async def stop(self, request: Request) -> Response:
        """`POST /api/chat/{id}/stop`: stop the running turn."""
        chat = await self._find(request)
        if chat is None:
            raise _unknown_chat()
        chat.stop()
        return CompactJson({"status": "applied"})

    # --- chats --------------------------------------------------------------------------------------------------

    async def _open(self, chat_id: Any, identity: Identity | None, *, create: bool = True) -> Chat:
        chat = await self._site.open_chat(chat_id, identity, create=create)
        if chat is None:
            raise _unknown_chat()
        return chat

    async def _find(self, request: Request) -> Chat | None:
        identity = await self._site.identify(request)
        return await self._site.open_chat(request.path_params["id"], identity, create=False)


def _earlier_chunks(chat: Chat) -> list[WireChunk]:
    """Return what earlier attempts of the running turn have sent, as it was logged."""
    turn = chat._engine.turn
    resumed = turn.resumed if turn is not None else None
    if turn is None or resumed is None:
        return []
    logged = [record for record in chat._engine.store.load_chunks(turn.turn_id) if _is_sent(record)]
    return logged[: resumed.next_seq]


def _is_sent(record: JsonValue) -> bool:
    """Tell whether a record of the log is a chunk; the others are recovery's own notes."""
    try:
        check_emittable(record)
    except MessageError:
        return False
    return True


def _state(chat: Chat) -> dict[str, JsonValue]:
    engine = chat._engine
    running = running_submission(chat) is not None
    return {
        "id": chat.id,
        "messages": [message.to_wire() for message in engine.tree.messages],
        "isStreaming": running,
        "canUndo": any(m.role == "user" for m in engine.tree.messages),
        "canRedo": bool(engine.redo),
        "pending": [
            {"kind": p.kind, "id": p.id, "toolCallId": p.tool_call_id, "action": p.action, "messageId": p.message_id}
            for p in engine.pending()
        ],
    }


async def _begun(submission: Submission, seconds: float | None = SOON) -> None:
    """Wait until a submission has a chunk, or has ended without one; at most so long."""

    async def first() -> None:
        async for _ in submission._log.read_batches(most=1):
            return

    try:
        async with asyncio.timeout(seconds):
            await first()
    except TimeoutError:
        return


async def _given(chunks: list[WireChunk]) -> AsyncIterator[list[WireChunk]]:
    yield chunks


def _unchanged(taken: Taken) -> list[WireChunk]:
    """Return the stream of a decision that others have to follow: the message goes on later."""
    if taken.message_id is None:
        return []
    return [{"type": "start", "messageId": taken.message_id}, {"type": "finish", "finishReason": "tool-calls"}]


def problem_of_outcome(outcome: Outcome) -> HttpProblem:
    """Return what a client is told of an input that ran no turn."""
    error = outcome.error
    if outcome.status == "skipped" and error is None:
        return HttpProblem(409, "not_executed", "The chat did not take this: it was decided already, or was busy.")
    if error is None:
        return HttpProblem(500, "internal_error", "The chat could not take this.")
    if isinstance(error.cause, LeaseLostError):
        return problem_of(error.cause)
    if error.stage in ("store", "closed"):
        return HttpProblem(503, "store_unavailable", "The chat can't be written to now.")
    if isinstance(error.cause, InputError):
        return HttpProblem(400, "invalid_input", str(error.cause))
    if error.stage in ("action", "input", "client_data"):
        return HttpProblem(400, "invalid_input", "The chat refused this.")
    return HttpProblem(500, "internal_error", "The chat could not take this; the server's log says why.")


def _unknown_chat() -> HttpProblem:
    return HttpProblem(404, "unknown_chat", "There is no such chat.")
