"""The A2A site, by the official SDK's client (spec/actions.md, 11.2 and 11.5)."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from a2a.client.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError

from chatnb import Agent, action
from chatnb._clock import SystemClock
from chatnb.models import Reply, ScriptedModel
from chatnb.sites.a2a import app
from tests.sites.http_server import by_key, client_of, code_of, running

ran: list[Any] = []
DONE, WAITS, FAILED, CANCELED, WORKING = (
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_INPUT_REQUIRED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_WORKING,
)


@action(needs_approval=True)
def refund(order: str, amount: float, password: str = "p4ss") -> str:
    """Refund an order."""
    ran.append((order, amount))
    return "refunded"


@action(read_only=True)
def look() -> str:
    """Look."""
    return "seen"


@action(mcp_tool=False)
def vetoed() -> str:
    """Not for A2A."""
    ran.append("vetoed")
    return "x"


@action(ui_only=True)
def wipe() -> str:
    """Not for agents."""
    return "x"


REFUND = Reply(calls=[("refund", {"order": "7", "amount": 250.0})])


@pytest.fixture(autouse=True)
def clean() -> None:
    ran.clear()


@contextmanager
def serving(*steps: Any, **options: Any) -> Iterator[str]:
    agent = Agent(ScriptedModel([*steps]), actions=[refund, look, vetoed, wipe], instructions="You help.\nMore.")
    with running(app(agent, authenticate=by_key, **options)) as address:
        yield address


@asynccontextmanager
async def caller(address: str, who: str = "ann", streaming: bool = False) -> Any:
    """A client of the SDK for one identity."""
    headers = {"authorization": f"Bearer {who}"}
    async with httpx.AsyncClient(headers=headers, timeout=20) as http:
        card = (await http.get(f"{address}/.well-known/agent-card.json")).json()
        card["supportedInterfaces"][0]["url"] = f"{address}/"
        from a2a.client.card_resolver import parse_agent_card

        factory = ClientFactory(ClientConfig(httpx_client=http, streaming=streaming))
        yield factory.create(parse_agent_card(card))


def say(text: str, **fields: Any) -> SendMessageRequest:
    parts = [Part(text=text)]
    return SendMessageRequest(message=Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=parts, **fields))


async def ask(client: Any, text: str, **fields: Any) -> Any:
    """Send, and return the task."""
    async for event in client.send_message(say(text, **fields)):
        return event.task
    raise AssertionError("no answer")


def text_of(task: Any) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def joined(events: list[Any]) -> str:
    """The artifact that the events of a stream make."""
    text = ""
    for event in events:
        if event.HasField("task"):
            text = text_of(event.task)
        elif event.HasField("artifact_update"):
            piece = event.artifact_update.artifact.parts[0].text
            text = text + piece if event.artifact_update.append else piece
    return text


def approvals(task: Any) -> list[dict[str, Any]]:
    from google.protobuf.json_format import MessageToDict

    return MessageToDict(task.status.message.parts[1].data)["approvals"]


def decide(address: str, task: Any, who: str = "ann", approved: bool = True, proof: bool = True) -> httpx.Response:
    """Decide as a page of this identity does."""
    with client_of(address, who) as page:
        headers = {}
        if proof:
            assert page.get("/ui-capability").status_code == 204
            headers = {"x-chatnb-ui": "1", "origin": address}
        body = {"approvalId": approvals(task)[0]["id"], "approved": approved}
        return page.post(f"/actions/-/tasks/{task.id}/decision", json=body, headers=headers)


async def until(client: Any, task_id: str, state: Any) -> Any:
    for _ in range(300):
        task = await client.get_task(GetTaskRequest(id=task_id))
        if task.status.state == state:
            return task
        await asyncio.to_thread(threading.Event().wait, 0.02)
    raise AssertionError(f"the task is {task.status.state}")


class TestCard:
    """The agent card."""

    def test_skills(self) -> None:
        """11.2: the card lists what A2A shows, and nothing else."""
        with serving() as address, client_of(address, None) as nobody:
            card = nobody.get("/.well-known/agent-card.json").json()
        assert [skill["id"] for skill in card["skills"]] == ["refund", "look"]
        assert card["description"] == "You help."
        assert card["capabilities"]["streaming"] is True


class TestMessages:
    """Send and stream."""

    async def test_send(self) -> None:
        """A message is answered by its task, completed, with the answer as its artifact."""
        with serving(Reply(calls=[("look", {})]), "I have seen it.") as address:
            async with caller(address) as client:
                task = await ask(client, "look")
                assert task.status.state == DONE
                assert text_of(task) == "I have seen it."
                again = await client.get_task(GetTaskRequest(id=task.id))
                assert (again.id, text_of(again)) == (task.id, text_of(task))

    async def test_stream(self) -> None:
        """A stream begins with the task, goes on with pieces of the artifact, and ends with the last status."""
        with serving(Reply("one two three", delay=0.05)) as address:
            async with caller(address, streaming=True) as client:
                events = [event async for event in client.send_message(say("go"))]
        kinds = [event.WhichOneof("payload") for event in events]
        assert kinds[0] == "task"
        assert set(kinds[1:-1]) == {"artifact_update"}
        assert kinds[-1] == "status_update"
        pieces = [e.artifact_update for e in events[1:-1]]
        assert "".join(p.artifact.parts[0].text for p in pieces) == "one two three"
        assert [p.append for p in pieces] == [False] + [True] * (len(pieces) - 1)
        assert events[-1].status_update.status.state == DONE

    async def test_streamed_text_is_the_stored_one(self) -> None:
        """The pieces of a stream make the artifact as it is stored, over several steps and after a decision too."""
        steps = [
            Reply("Let me look.", calls=[("look", {})]),
            Reply("I ask.", calls=REFUND.calls),
            Reply("done", delay=1),
        ]
        with serving(*steps) as address:
            async with caller(address, streaming=True) as client:
                events = [event async for event in client.send_message(say("go"))]
                assert joined(events) == "Let me look.\n\nI ask."
                task = await client.get_task(GetTaskRequest(id=events[0].task.id))
                decide(address, task)
                events = [e async for e in client.subscribe(SubscribeToTaskRequest(id=task.id))]
                end = await until(client, task.id, DONE)
                assert joined(events) == text_of(end) == "Let me look.\n\nI ask.\n\ndone"

    async def test_context(self) -> None:
        """Messages of one context are one conversation; tasks are listed by their owner alone."""
        with serving("one", "two", "other") as address:
            async with caller(address) as ann, caller(address, "bob") as bob:
                first = await ask(ann, "a")
                second = await ask(ann, "b", context_id=first.context_id)
                assert second.context_id == first.context_id
                listed = await ann.list_tasks(ListTasksRequest())
                assert [t.id for t in listed.tasks] == [second.id, first.id]
                assert list((await bob.list_tasks(ListTasksRequest())).tasks) == []
                with pytest.raises(TaskNotFoundError):
                    await bob.get_task(GetTaskRequest(id=first.id))
                with pytest.raises(TaskNotFoundError):
                    await ask(bob, "c", context_id=first.context_id)

    async def test_failure(self) -> None:
        """A turn that fails is a failed task with a fixed text."""
        with serving(RuntimeError("password=hunter2")) as address:
            async with caller(address) as client:
                task = await ask(client, "x")
        assert task.status.state == FAILED
        assert "hunter2" not in str(task)

    async def test_veto(self) -> None:
        """11.2: what A2A does not show, a model can't call there."""
        with serving(Reply(calls=[("vetoed", {})]), "well") as address:
            async with caller(address) as client:
                assert (await ask(client, "x")).status.state == DONE
        assert ran == []

    def test_size_and_pages(self) -> None:
        """A request over the limit is 413, counted while it is read; a page has no negative size; ids are anything."""
        with serving("one", "two", max_body_bytes=2000) as address, client_of(address) as client:

            def call(method: str, **params: Any) -> httpx.Response:
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                return client.post("/", json=body, headers={"A2A-Version": "1.0"})

            message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
            assert "result" in call("SendMessage", message=message).json()
            assert "result" in call("SendMessage", message=message).json()
            assert code_of(call("SendMessage", message={**message, "parts": [{"text": "x" * 3000}]})) == (
                413,
                "body_too_large",
            )
            assert client.post("/", content=iter([b"x" * 1500] * 2)).status_code == 413
            assert len(call("ListTasks", pageSize=-1).json()["result"]["tasks"]) == 2
            for task_id in ("../x", "a/b:c", "x" * 300 + ":1", ":", ""):
                assert call("GetTask", id=task_id).json()["error"]["code"] == -32001
            for context_id in ("a/b", "\n", "x" * 300):
                refused = call("SendMessage", message={**message, "contextId": context_id})
                assert refused.json()["error"]["code"] == -32602

    def test_nobody(self) -> None:
        """Where there is authentication, who is not known is a 401."""
        with serving() as address, client_of(address, None) as nobody:
            assert nobody.post("/", json={}).status_code == 401


class TestApproval:
    """11.5: a gated call leaves its task waiting; its owner alone decides, with proof."""

    async def test_approve(self) -> None:
        """The task is input-required with all arguments, secrets masked; a proven click runs the call once."""
        with serving(REFUND, "done") as address:
            async with caller(address) as client:
                task = await ask(client, "refund")
                assert task.status.state == WAITS
                shown = approvals(task)[0]
                assert shown["arguments"]["amount"] == 250
                assert "p4ss" not in str(shown)
                assert ran == []
                assert decide(address, task).status_code == 200
                end = await until(client, task.id, DONE)
                assert text_of(end) == "done"
                assert code_of(decide(address, task)) == (409, "not_pending")
        assert ran == [("7", 250.0)]

    async def test_reject(self) -> None:
        """A refusal is told to the model; the handler does not run."""
        with serving(REFUND, "fine") as address:
            async with caller(address) as client:
                task = await ask(client, "refund")
                decide(address, task, approved=False)
                assert text_of(await until(client, task.id, DONE)) == "fine"
        assert ran == []

    async def test_who_decides(self) -> None:
        """404 for others, 401 or 403 without proof; a bearer token or a further message never approves."""
        with serving(REFUND, "never") as address:
            async with caller(address) as client:
                task = await ask(client, "refund")
                assert code_of(decide(address, task, who="bob")) == (404, "not_found")
                assert code_of(decide(address, task, proof=False)) == (403, "ui_capability_required")
                assert decide(address, task, who="nobody", proof=False).status_code == 401
                assert decide(address, task, who="robot", proof=False).status_code == 403
                with pytest.raises(UnsupportedOperationError):
                    await ask(client, "approve", task_id=task.id, context_id=task.context_id)
                assert (await client.get_task(GetTaskRequest(id=task.id))).status.state == WAITS
        assert ran == []

    async def test_restart(self) -> None:
        """A restart keeps the task waiting; then it is decided, and the call runs once."""
        model = ScriptedModel([REFUND, "done"])
        agent = Agent(model, actions=[refund])
        with running(app(agent, authenticate=by_key)) as address:
            async with caller(address) as client:
                task = await ask(client, "refund")
        with running(app(agent, authenticate=by_key)) as address:
            async with caller(address) as client:
                again = await client.get_task(GetTaskRequest(id=task.id))
                assert again.status.state == WAITS
                assert decide(address, again).status_code == 200
                await until(client, task.id, DONE)
        assert ran == [("7", 250.0)]

    async def test_expiry(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An ask is valid for 15 minutes."""
        with serving(REFUND, "never") as address:
            async with caller(address) as client:
                task = await ask(client, "refund")
                now = SystemClock.now
                monkeypatch.setattr(SystemClock, "now", lambda self: now(self) + timedelta(minutes=15, seconds=1))
                assert code_of(decide(address, task)) == (409, "expired")
        assert ran == []

    async def test_page(self) -> None:
        """The task names the page on which its owner finds it, and the server has it."""
        from google.protobuf.json_format import MessageToDict

        with serving(REFUND) as address:
            async with caller(address) as client:
                task = await ask(client, "refund")
            page = MessageToDict(task.status.message.parts[1].data)["page"]
            with client_of(address, "ann") as ann:
                assert page == f"/?chat=a2a-{task.context_id}"
                assert "panel" in ann.get(page).text


class TestControl:
    """Cancel and subscribe."""

    async def test_cancel_running(self) -> None:
        """A running task is stopped; an ended one can't be."""
        with serving(Reply("one", hang=True)) as address:
            async with caller(address) as client:
                request = say("x")
                request.configuration.return_immediately = True
                async for event in client.send_message(request):
                    task = event.task
                await until(client, task.id, WORKING)
                ended = await client.cancel_task(CancelTaskRequest(id=task.id))
                assert ended.status.state == CANCELED
                with pytest.raises(TaskNotCancelableError):
                    await client.cancel_task(CancelTaskRequest(id=task.id))

    async def test_cancel_waiting(self) -> None:
        """A waiting task is cancelled by refusing what it asks."""
        with serving(REFUND, "never") as address:
            async with caller(address) as client:
                task = await ask(client, "refund")
                ended = await client.cancel_task(CancelTaskRequest(id=task.id))
                assert ended.status.state == CANCELED
        assert ran == []

    async def test_subscribe(self) -> None:
        """A second reader of a running task is told from the start."""
        with serving(Reply("one two three four", delay=0.2)) as address:
            async with caller(address, streaming=True) as client:
                request = say("x")
                request.configuration.return_immediately = True
                first = aiter(client.send_message(request))
                task = (await anext(first)).task
                events = [e async for e in client.subscribe(SubscribeToTaskRequest(id=task.id))]
                texts = [e.artifact_update.artifact.parts[0].text for e in events if e.HasField("artifact_update")]
                assert "".join(texts) == "one two three four"
                assert [e async for e in first]
                with pytest.raises(UnsupportedOperationError):
                    [e async for e in client.subscribe(SubscribeToTaskRequest(id=task.id))]
