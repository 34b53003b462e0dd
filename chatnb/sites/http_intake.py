"""What a web client's request asks of a chat (the AI SDK's `DefaultChatTransport`, versions 6 and 7).

A client sends its whole history with every request. Of it only three things are taken: a new or edited message of the
user, outputs of client-side tools, and answers to approvals that this chat asked for. All else is the server's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from .._json import JsonValue
from ..actions import Identity
from ..history import has_something_to_answer
from ..store.records import TurnState
from ..turns import Submission
from ..turns.decisions import Decision
from ..turns.records import Pending
from .http_errors import HttpProblem

if TYPE_CHECKING:
    from ..chat import Chat
    from ..turns import ClientTool

ORIGIN = "http"
A2A = "a2a-"
"""Chats of A2A tasks: a bearer token never approves there."""
TRIGGERS = ("submit-message", "regenerate-message")
OWN_FIELDS = frozenset({"id", "messages", "trigger", "messageId", "clientData"})
USER_PARTS = ("text", "file")
AWAITING: tuple[TurnState, ...] = ("awaiting",)

Trigger = Literal["submit-message", "regenerate-message"]


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """The body of `POST /api/chat`, checked for its form.

    Attributes:
        body: Extra fields, for hooks.
        client_data: The field `clientData`; the agent's schema checks it.
    """

    id: str
    messages: Sequence[Mapping[str, JsonValue]]
    trigger: Trigger
    message_id: str | None = None
    body: Mapping[str, JsonValue] = field(default_factory=dict)
    client_data: JsonValue = None

    @classmethod
    def read(cls, given: JsonValue) -> ChatRequest:
        """Read a body.

        Raises:
            HttpProblem: It is not of the form; 400.
        """
        if not isinstance(given, Mapping):
            raise _invalid("The body has to be a JSON object.")
        messages, trigger = given.get("messages"), given.get("trigger", "submit-message")
        message_id = given.get("messageId")
        if not isinstance(given.get("id"), str):
            raise _invalid("The body needs `id`, the chat's id.")
        if not isinstance(messages, list) or not all(isinstance(m, Mapping) for m in messages):
            raise _invalid("The body needs `messages`, a list of messages.")
        if trigger not in TRIGGERS:
            raise _invalid(f"`trigger` is one of {', '.join(TRIGGERS)}.")
        if message_id is not None and not isinstance(message_id, str):
            raise _invalid("`messageId` is a text.")
        return cls(
            id=given["id"],
            messages=messages,
            trigger=trigger,
            message_id=message_id,
            body={key: value for key, value in given.items() if key not in OWN_FIELDS},
            client_data=given.get("clientData"),
        )


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What became of a request.

    Attributes:
        submission: Whose chunks answer it.
        is_own: The request has made it: when its reader goes away, it is stopped.
        message_id: The message that was decided on.
    """

    submission: Submission
    is_own: bool = True
    message_id: str | None = None


class Intake:
    """Takes one request into a chat. On the runtime, in one go.

    Args:
        chat: The chat; the caller has checked its owner.
        identity: Who asks.
        client_tools: What the page can run.
    """

    def __init__(self, chat: Chat, identity: Identity | None, client_tools: Sequence[ClientTool] = ()) -> None:
        self._chat = chat
        self._engine = chat._engine
        self._identity = identity
        self._client_tools = tuple(client_tools)

    def take(self, request: ChatRequest) -> Taken:
        """Make the submission that a request asks for, or find the turn that answers it already.

        Raises:
            HttpProblem: Nothing of it can be taken.
            ChatnbError: The chat refuses it.
        """
        if not request.messages and request.trigger == "submit-message":
            raise _invalid("`messages` is empty.")
        if request.trigger == "regenerate-message":
            return self._regenerate(request)
        last = request.messages[-1]
        decisions = list(find_decisions(self._engine.pending(), request.messages))
        self._check_decider(decisions)
        if last.get("role") == "user":
            return self._send(request, decisions)
        if last.get("role") == "assistant":
            return self._go_on(request, decisions)
        raise _invalid("The last message has to be one of the user, or the answer that goes on.")

    # --- messages -----------------------------------------------------------------------------------------------

    def _send(self, request: ChatRequest, decisions: Sequence[Decision]) -> Taken:
        message = user_message_of(request.messages[-1])
        chain = self._engine.tree.messages
        known = next((m for m in chain if m.id == message["id"]), None)
        if known is not None and known.role != "user":
            raise _invalid("The message has the id of an answer.")
        running = self._answering(message)
        if running is not None:
            return Taken(submission=running, is_own=False)
        self._decide(decisions, goes_on=False)
        edited = request.message_id
        if known is None and edited is not None and any(m.id == edited and m.role == "user" for m in chain):
            self._cut_before(edited)
        return Taken(submission=self._submit(message, request))

    def _submit(self, message: Mapping[str, JsonValue], request: ChatRequest) -> Submission:
        return self._chat.send(
            message,
            body=request.body or None,
            client_data=request.client_data,
            client_tools=self._client_tools,
            _origin=ORIGIN,
        )

    def _answering(self, message: Mapping[str, JsonValue]) -> Submission | None:
        """Return the submission that has brought just this message and is not done: it came twice."""
        queue = self._engine.queue
        for input_ in (*([queue.running] if queue.running is not None else []), *queue):
            if input_.kind == "send" and input_.origin == ORIGIN:
                came = input_.row.payload["message"]
                if came.get("id") == message["id"] and came.get("parts") == message["parts"]:
                    return input_.submissions[-1] if not input_.submissions[-1].done else None
        return None

    def _cut_before(self, message_id: str) -> None:
        """Put the head before a message that comes anew under another id."""
        chain = self._engine.tree.messages
        index = next(i for i, m in enumerate(chain) if m.id == message_id)
        if index > 0:
            self._chat.act({"type": "rollback", "messageId": chain[index - 1].id}, _origin=ORIGIN)
        else:
            self._chat.save_messages([], _origin=ORIGIN)

    def _regenerate(self, request: ChatRequest) -> Taken:
        chain = self._engine.tree.messages
        known = {m.id for m in chain}
        wanted = request.message_id
        if wanted is None or wanted not in known:
            # The client may never have learnt the answer's id; what it answers is known by the message before.
            theirs = [m for m in request.messages if m.get("role") == "user"]
            if not all(isinstance(m.get("id"), str) for m in theirs):
                raise _invalid("A message has an `id`, a text.")
            wanted = next((m["id"] for m in reversed(theirs) if m["id"] in known), None)
            if theirs and theirs[-1]["id"] not in known:
                return Taken(submission=self._submit(user_message_of(theirs[-1]), request))
            if wanted is None:
                raise HttpProblem(404, "unknown_message", "There is no such message in this chat.")
        submission = self._chat.regenerate(
            wanted, body=request.body or None, client_tools=self._client_tools, _origin=ORIGIN
        )
        return Taken(submission=submission)

    # --- decisions ----------------------------------------------------------------------------------------------

    def _check_decider(self, decisions: Sequence[Decision]) -> None:
        if not any(d.kind in ("approve", "reject") for d in decisions):
            return
        if self._chat.id.startswith(A2A):
            raise HttpProblem(403, "forbidden", "What a task asks is decided with a click in the page.")
        if self._identity is None:
            raise HttpProblem(401, "unauthenticated", "An approval needs a person who is signed in.")
        if self._identity.kind != "user":
            raise HttpProblem(403, "forbidden", "An approval is a person's; a service may not give it.")

    def _decide(self, decisions: Sequence[Decision], *, goes_on: bool) -> Submission | None:
        submission: Submission | None = None
        by = self._identity.id if self._identity is not None else None
        for decision in decisions:
            made = Decision(
                kind=decision.kind,
                id=decision.id,
                reason=decision.reason,
                output=decision.output,
                text=decision.text,
                continue_=goes_on,
                decided_by=by,
            )
            submission = self._chat._decide(made, origin=ORIGIN)
        return submission

    def _go_on(self, request: ChatRequest, decisions: Sequence[Decision]) -> Taken:
        answer = next((m for m in reversed(self._engine.tree.messages) if m.role == "assistant"), None)
        message_id = answer.id if answer is not None else None
        submission = self._decide(decisions, goes_on=True)
        if submission is not None:
            return Taken(submission=submission, message_id=message_id)
        running = running_submission(self._chat)
        if running is not None:
            return Taken(submission=running, is_own=False)
        if self._engine.pending():
            raise HttpProblem(409, "approval_required", "A call of this answer waits for a person.")
        if not has_something_to_answer(self._engine.tree.messages) or not self._was_left_open():
            raise HttpProblem(409, "already_decided", "There is nothing to go on with: this was decided already.")
        again = self._chat.continue_last_turn(request.body or None, client_tools=self._client_tools, _origin=ORIGIN)
        return Taken(submission=again, message_id=message_id)

    def _was_left_open(self) -> bool:
        """Tell whether the last turn ended waiting, and its answer has not gone on since."""
        turns = self._engine.store.load_turns(self._engine.chat_id, AWAITING)
        return bool(turns) and turns[-1].number == self._engine.next_number - 1


def running_submission(chat: Chat) -> Submission | None:
    """Return the submission whose turn runs or is about to, or None; on the runtime."""
    queue = chat._engine.queue
    for input_ in (*([queue.running] if queue.running is not None else []), *queue):
        submission: Submission | None = input_.submissions[0] if input_.submissions else None
        if submission is not None and not submission.done and not submission._log.is_ended:
            return submission
    return None


def find_decisions(pending: Sequence[Pending], messages: Sequence[Mapping[str, JsonValue]]) -> Iterator[Decision]:
    """Yield what a client's history says about the calls that wait, in their order; nothing else of it counts."""
    approvals: dict[str, Mapping[str, JsonValue]] = {}
    outputs: dict[str, Mapping[str, JsonValue]] = {}
    for message in messages:
        if message.get("role") != "assistant" or not isinstance(message.get("parts"), list):
            continue
        for part in message["parts"]:
            if not isinstance(part, Mapping) or not isinstance(part.get("toolCallId"), str):
                continue
            approval = part.get("approval")
            if isinstance(approval, Mapping) and isinstance(approval.get("id"), str):
                approvals[approval["id"]] = part
            outputs[part["toolCallId"]] = part
    for call in pending:
        found = approvals.get(call.id) if call.kind == "approval" else outputs.get(call.tool_call_id)
        decision = _decision_of(call, found) if found is not None else None
        if decision is not None:
            yield decision


def _decision_of(call: Pending, part: Mapping[str, JsonValue]) -> Decision | None:
    state = part.get("state")
    if call.kind == "approval":
        approval = part["approval"]
        if state != "approval-responded" or type(approval.get("approved")) is not bool:
            return None
        reason = approval.get("reason")
        return Decision(
            kind="approve" if approval["approved"] else "reject",
            id=call.id,
            reason=reason[:2000] if isinstance(reason, str) else None,
        )
    if state == "output-available" and "output" in part and part.get("preliminary") is not True:
        return Decision(kind="output", id=call.tool_call_id, output=part["output"])
    if state == "output-error":
        text = part.get("errorText")
        return Decision(kind="error", id=call.tool_call_id, text=text[:2000] if isinstance(text, str) else "")
    return None


def user_message_of(given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return what is taken of a user's message: id, text, files, the page's own data parts, metadata.

    Raises:
        HttpProblem: It is no message of a user; 400.
    """
    id_, parts = given.get("id"), given.get("parts")
    if not isinstance(id_, str) or not 1 <= len(id_) <= 200 or not id_.isprintable():
        raise _invalid("A message needs an `id` of 1 to 200 printable characters.")
    if not isinstance(parts, list) or not parts or not all(isinstance(part, Mapping) for part in parts):
        raise _invalid("A message needs `parts`, a list of parts.")
    kept: list[JsonValue] = []
    for part in parts:
        kind = part.get("type")
        if not isinstance(kind, str) or not (kind in USER_PARTS or kind.startswith("data-")):
            raise _invalid("A message of the user holds text, files and data parts alone.")
        if kind == "file":
            _check_file(part)
        kept.append({key: value for key, value in part.items() if key not in ("providerMetadata", "state")})
    message: dict[str, JsonValue] = {"id": id_, "role": "user", "parts": kept}
    if isinstance(given.get("metadata"), Mapping):
        message["metadata"] = given["metadata"]
    return message


def _check_file(part: Mapping[str, JsonValue]) -> None:
    url = part.get("url")
    if not isinstance(url, str) or not url.lower().startswith(("data:", "https:", "http:")):
        raise _invalid("A file comes as a data URL or a link.")


def _invalid(text: str) -> HttpProblem:
    return HttpProblem(400, "invalid_body", text)
