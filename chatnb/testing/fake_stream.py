"""What the fake Anthropic server answers: a reply as the events of a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from chatnb.errors import (
    ConfigError,
    ModelAuthError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelStreamError,
)
from chatnb.models.scripted import Reply, split_text
from chatnb.models.usage import Usage
from chatnb.testing.fake_refusal import error_body, error_type_of
from chatnb.testing.fake_rules import sign_thinking

Kind = Literal["message", "status", "error", "reset", "cut", "stall", "close", "cut-json"]
Event: TypeAlias = tuple[str, dict[str, Any]]

_KINDS = get_args(Kind)
_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool-calls": "tool_use",
    "content-filter": "refusal",
    "other": "pause_turn",
}


@dataclass(frozen=True)
class FakeReply:
    """One answer of the fake server, with the way in which it fails.

    Attributes:
        kind: `"message"`: whole. `"status"`: no stream but a status. `"error"`: an `error` event. `"reset"`: the
            connection is reset. `"cut"`: the chunked coding breaks off. `"stall"`: silence until the client leaves.
            `"close"`: a clean end without `message_stop`. `"cut-json"`: the last call's input ends early, and its block
            stops.
        text: What is said.
        thinking: What is thought before, signed.
        calls: As a `Reply`'s.
        after: Events sent before it fails (default: all but the last two).
        status: Of kind `"status"`.
        error_type: The API's name of the error; the default goes by the status.
        message: The error's text.
        headers: More headers of the response.
        split: Bytes a write.
        delay: Seconds before each event.
        events: Events put in front: `{"type": …}` or `(name, data)`.
    """

    kind: Kind = "message"
    _: KW_ONLY
    text: str = ""
    thinking: str = ""
    calls: Sequence[Any] = ()
    after: int | None = None
    status: int = 529
    error_type: str | None = None
    message: str = ""
    headers: Mapping[str, str] | None = None
    split: int | None = None
    delay: float = 0.0
    events: Sequence[Any] = ()

    def __post_init__(self) -> None:
        """Raise `ConfigError` for an unknown kind."""
        if self.kind not in _KINDS:
            raise ConfigError(f"FakeReply has no kind {self.kind!r}. Known: {', '.join(_KINDS)}.")
        if self.split is not None and self.split < 1:
            raise ConfigError("FakeReply(split=...) is a number of bytes, at least 1.")


@dataclass(frozen=True)
class Plan:
    """An answer, worked out for one request.

    Attributes:
        kind: As `FakeReply.kind`.
        events: All events of the whole answer.
        after: How many are sent.
        status: The HTTP status.
        error: The body of an error.
        headers: More headers.
        split: Bytes a write, or None.
        delay: Seconds before each event.
    """

    kind: Kind
    events: tuple[Event, ...] = ()
    after: int = 0
    status: int = 200
    error: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    split: int | None = None
    delay: float = 0.0

    @property
    def sent(self) -> tuple[Event, ...]:
        """The events that go out."""
        return self.events if self.kind in ("message", "cut-json") else self.events[: self.after]


def make_plan(step: Any, body: Mapping[str, Any], call_id: Callable[[], str], request_id: str) -> Plan:
    """Work out the answer to an accepted request.

    Args:
        step: Text, a `Reply`, a `FakeReply` or an exception.
        body: The request.
        call_id: Gives ids to calls that have none.
        request_id: The id of the response.
    """
    if isinstance(step, BaseException):
        status, error_type = _error_of(step)
        return Plan("status", status=status, error=error_body(error_type, str(step) or type(step).__name__, request_id))
    if isinstance(step, str):
        step = Reply(step)
    if isinstance(step, Reply):
        return _plan_reply(step, body, call_id, request_id)
    if not isinstance(step, FakeReply):
        raise ConfigError(f"FakeAnthropic takes text, Reply, FakeReply, exceptions and functions, not {type(step)}.")
    error_type = step.error_type or (error_type_of(step.status) if step.kind == "status" else "overloaded_error")
    error = error_body(error_type, step.message or error_type.replace("_", " ").capitalize(), request_id)
    common: dict[str, Any] = {"headers": dict(step.headers or {}), "split": step.split, "error": error}
    if step.kind == "status":
        return Plan("status", status=step.status, **common)
    reply = Reply(step.text, reasoning=step.thinking, calls=step.calls)
    events = [*map(_front_event, step.events), *_events(reply, body, call_id, cut_json=step.kind == "cut-json")]
    after = max(0, len(events) - 2) if step.after is None else step.after
    return Plan(step.kind, tuple(events), after, delay=step.delay, **common)


def message_of(plan: Plan) -> dict[str, Any]:
    """The whole answer as one message, for a request that does not stream."""
    message: dict[str, Any] = {}
    for name, data in plan.events:
        if name == "message_start":
            message = {**data["message"], "content": []}
        elif name == "content_block_start":
            message["content"].append({**data["content_block"]})
        elif name == "content_block_delta":
            _add_delta(message["content"][-1], data["delta"])
        elif name == "message_delta":
            message.update(data["delta"])
            message["usage"] = {**message["usage"], **data["usage"]}
    for block in message["content"]:
        raw = block.pop("_input", None)
        if raw is not None:
            block["input"] = json.loads(raw)
    return message


def _add_delta(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    key = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}.get(delta["type"])
    if key is None:
        block["_input"] = block.get("_input", "") + delta["partial_json"]
    else:
        block[key] += delta[key]


def _plan_reply(reply: Reply, body: Mapping[str, Any], call_id: Callable[[], str], request_id: str) -> Plan:
    events = tuple(_events(reply, body, call_id))
    end = max(0, len(events) - 2)
    if reply.fail is not None:
        error = reply.fail if isinstance(reply.fail, BaseException) else reply.fail()
        after = end if reply.fail_after is None else min(end, reply.fail_after + 1)
        kind: Kind = "error"
        if isinstance(error, ModelStreamError):
            kind = "close" if error.kind == "incomplete" else "reset"
        data = error_body(_error_of(error)[1], str(error) or type(error).__name__, request_id)
        return Plan(kind, events, after, error=data, delay=reply.delay)
    if reply.hang:
        return Plan("stall", events, end, delay=reply.delay)
    return Plan("message", events, len(events), delay=reply.delay)


def _events(
    reply: Reply, body: Mapping[str, Any], call_id: Callable[[], str], *, cut_json: bool = False
) -> list[Event]:
    usage = reply.usage or Usage()
    read = usage.input_tokens if usage.input_tokens is not None else _tokens(json.dumps(body, ensure_ascii=False))
    written = usage.output_tokens if usage.output_tokens is not None else _tokens(f"{reply.text}{reply.calls}")
    first = {
        "input_tokens": read,
        "cache_creation_input_tokens": usage.cache_write_tokens or 0,
        "cache_read_input_tokens": usage.cache_read_tokens or 0,
        "output_tokens": 1,
    }
    model = str(body.get("model"))
    message = {"id": "msg_fake", "type": "message", "role": "assistant", "model": model, "content": []}
    ends = {"stop_reason": None, "stop_sequence": None, "usage": first}
    events: list[Event] = [_event("message_start", message={**message, **ends})]
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if reply.reasoning:
        pieces = split_text(reply.reasoning, reply.chunk_size)
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
        sign = {"type": "signature_delta", "signature": sign_thinking(model, reply.reasoning)}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, sign]))
    if reply.text:
        deltas = [{"type": "text_delta", "text": text} for text in split_text(reply.text, reply.chunk_size)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for number, call in enumerate(reply.calls, 1):
        is_cut = cut_json and number == len(reply.calls)
        blocks.append(_call_block(call, reply.chunk_size, call_id, is_cut))
    for index, (block, deltas) in enumerate(blocks):
        events.append(_event("content_block_start", index=index, content_block=block))
        events.extend(_event("content_block_delta", index=index, delta=delta) for delta in deltas)
        events.append(_event("content_block_stop", index=index))
    reason = reply.finish_reason or ("tool-calls" if reply.calls else "stop")
    stop = {"stop_reason": _STOP_REASONS.get(reason, reason), "stop_sequence": None}
    events.append(_event("message_delta", delta=stop, usage={"output_tokens": written}))
    events.append(_event("message_stop"))
    return events


def _call_block(
    call: Any, size: int | None, call_id: Callable[[], str], is_cut: bool
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    name, args, *rest = call
    raw = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
    pieces = split_text(raw[:-1] if is_cut else raw, size)
    block = {"type": "tool_use", "id": rest[0] if rest else call_id(), "name": name, "input": {}}
    return block, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _front_event(event: Any) -> Event:
    if isinstance(event, Mapping):
        return str(event.get("type", "unknown")), dict(event)
    if isinstance(event, str):
        return _event(event)
    name, data = event
    return str(name), dict(data)


def _event(name: str, **data: Any) -> Event:
    return name, {"type": name, **data}


def _error_of(error: BaseException) -> tuple[int, str]:
    status = getattr(error, "status", None)
    if not isinstance(status, int):
        known = {ModelAuthError: 401, ModelRequestError: 400, ModelRateLimitError: 429, ModelOverloadedError: 529}
        status = next((known[kind] for kind in known if isinstance(error, kind)), 500)
    return status, error_type_of(status)


def _tokens(text: str) -> int:
    return -(-len(text) // 4)
