"""A model that says what it is told, for tests and lessons (spec/notebook.md, section 8)."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, TypeAlias, get_args

from chatnb.errors import ConfigError, ScriptExhaustedError
from chatnb.models.options import check_choice, check_count, check_flag, check_seconds, check_text
from chatnb.models.port import Chunk, Continuation, ModelRequest, StepEnd, StepItem
from chatnb.models.usage import Usage

Call: TypeAlias = tuple[str, Any] | tuple[str, Any, str]


@dataclass(frozen=True)
class Reply:
    """One step of a script: reasoning, then text, then calls.

    Attributes:
        text: What to say.
        reasoning: What to think first.
        calls: `(name, args)` or `(name, args, id)` each. Arguments are JSON; a string is taken as the raw text that
            the model wrote, so a broken one becomes `tool-input-error`.
        delay: Seconds before each delta.
        chunk_size: Characters in a delta (default: a word).
        fail: An exception to raise.
        fail_after: After how many chunks (default: at the end).
        hang: Never end after the chunks.
        usage: What the step reports, None for nothing.
        finish_reason: Default: `tool-calls` with calls, else `stop`.

    Example:
        Reply("I was about to say", fail=ConnectionError("line lost"))
        Reply(calls=[("sales", {"region": "North"})])
    """

    text: str = ""
    _: KW_ONLY
    reasoning: str = ""
    calls: Sequence[Call] = ()
    delay: float = 0.0
    chunk_size: int | None = None
    fail: BaseException | type[BaseException] | None = None
    fail_after: int | None = None
    hang: bool = False
    usage: Usage | None = None
    finish_reason: str | None = None

    def __post_init__(self) -> None:
        """Raise `ConfigError` for values that can't work, at the line that has them."""
        if not isinstance(self.text, str) or not isinstance(self.reasoning, str):
            raise ConfigError("Reply(text, reasoning=...) takes texts.")
        are_calls = isinstance(self.calls, list | tuple) and all(map(_is_named_call, self.calls))
        if not are_calls:
            raise ConfigError("Reply(calls=...) takes a list of (name, args) or (name, args, id) tuples.")
        check_count("Reply(chunk_size=...)", self.chunk_size, least=1, what="characters", or_none=True)
        check_count("Reply(fail_after=...)", self.fail_after, least=0, what="chunks", or_none=True)
        check_seconds("Reply(delay=...)", self.delay)
        check_flag("Reply(hang=...)", self.hang)
        check_text("Reply(finish_reason=...)", self.finish_reason, or_none=True)
        if self.fail is not None and not is_failure(self.fail):
            raise ConfigError("Reply(fail=...) takes an exception.")
        if self.usage is not None and not isinstance(self.usage, Usage):
            raise ConfigError("Reply(usage=...) takes a chatnb.models.Usage, or None.")
        object.__setattr__(self, "calls", tuple(self.calls))


Step: TypeAlias = (
    str | Reply | Sequence[StepItem] | BaseException | type[BaseException] | Callable[[Any], "Step | Awaitable[Step]"]
)


class ScriptedModel:
    """Gives its steps one after another.

    A step is text, a `Reply`, a list of chunks, an exception, or a function of the request, sync or async, that returns
    one of these. A list without a `StepEnd` gets one: `tool-calls` if it has calls, else `stop`. Calls without an id
    are named `call-1`, `call-2`, … over the model's life. One model may serve several chats: steps go in the order of
    the requests.

    Args:
        steps: What to answer, one for each request.
        loop: Begin again after the last step.
        name: The model's name.
        continuation: How answers that broke off go on.
        accepts_images: Whether image results may be sent to it.

    Attributes:
        requests: Every request so far, also those beyond the last step.

    Example:
        model = ScriptedModel([Reply("Let me look.", calls=[("sales", {"region": "North"})]), "It is 1,250."])
        outcome = await Agent(model, actions=[sales]).chat().send("How much in the North?")
        assert model.requests[0].messages[-1]["role"] == "user"
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        loop: bool = False,
        name: str = "scripted",
        continuation: Continuation = "user-message",
        accepts_images: bool = False,
    ) -> None:
        if not isinstance(steps, Iterable) or isinstance(steps, str | bytes | Mapping):
            raise ConfigError("ScriptedModel takes a list of steps; put the one step into a list.")
        check_text("ScriptedModel(name=...)", name)
        check_choice("ScriptedModel(continuation=...)", continuation, get_args(Continuation))
        check_flag("ScriptedModel(loop=...)", loop)
        check_flag("ScriptedModel(accepts_images=...)", accepts_images)
        self.steps: tuple[Step, ...] = tuple(steps)
        self.loop = loop
        self.name = name
        self.continuation: Continuation = continuation
        self.accepts_images = accepts_images
        self.requests: list[ModelRequest] = []
        self._calls = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.steps)} steps, name={self.name!r})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[StepItem]:
        """Give the next step.

        Raises:
            ScriptExhaustedError: All steps have been given; the text has their number.
        """
        step = await settle_step(self._take(request), request)
        if isinstance(step, str):
            step = Reply(step)
        if isinstance(step, Reply):
            async for item in self._play(step, request):
                yield item
            return
        has_calls = False
        for chunk in step:
            yield chunk
            if isinstance(chunk, StepEnd):
                return
            has_calls = has_calls or _is_call(chunk)
        yield StepEnd("tool-calls" if has_calls else "stop")

    def _take(self, request: ModelRequest) -> Step:
        with self._lock:
            index = len(self.requests)
            self.requests.append(request)
        if self.loop and self.steps:
            return self.steps[index % len(self.steps)]
        if index >= len(self.steps):
            raise ScriptExhaustedError(
                f"The script of model {self.name!r} has {len(self.steps)} steps, and request {index + 1} came. "
                "Add a step, or use loop=True."
            )
        return self.steps[index]

    def _call_id(self) -> str:
        with self._lock:
            self._calls += 1
            return f"call-{self._calls}"

    async def _play(self, reply: Reply, request: ModelRequest) -> AsyncIterator[StepItem]:
        named = tuple(call if len(call) == 3 else (*call, self._call_id()) for call in reply.calls)
        for sent, chunk in enumerate(reply_chunks(replace(reply, calls=named))):
            if reply.fail is not None and sent == reply.fail_after:
                raise reply.fail
            if reply.delay and "delta" in chunk["type"]:
                await request.sleep(reply.delay)
            yield chunk
        if reply.fail is not None:
            raise reply.fail
        if reply.hang:
            await asyncio.get_running_loop().create_future()
        yield StepEnd(reply.finish_reason or ("tool-calls" if reply.calls else "stop"), reply.usage)


def is_failure(value: object) -> bool:
    """Tell whether a value can be raised."""
    return isinstance(value, BaseException) or (isinstance(value, type) and issubclass(value, BaseException))


def _is_named_call(call: object) -> bool:
    return isinstance(call, tuple) and len(call) in (2, 3) and isinstance(call[0], str)


async def settle_step(step: Any, argument: Any) -> str | Reply | Sequence[StepItem]:
    """Call a step until it is no function, and raise it if it is an exception.

    Args:
        step: A step.
        argument: What functions get.
    """
    while True:
        if is_failure(step):
            raise step
        if isinstance(step, str | Reply):
            return step
        if isinstance(step, list | tuple):
            return list(step)
        if not callable(step):
            kind = type(step).__name__
            raise TypeError(f"a step is text, a Reply, a list of chunks, an exception or a function, not {kind}")
        step = step(argument)
        if inspect.isawaitable(step):
            step = await step


def split_text(text: str, size: int | None) -> list[str]:
    """Cut a text into deltas: words with the white space that follows, or pieces of a fixed number of characters."""
    if size is None:
        return re.findall(r"\s*\S+\s?|\s+\Z", text)
    return [text[start : start + size] for start in range(0, len(text), size)]


def reply_chunks(reply: Reply) -> Iterator[Chunk]:
    """The content chunks of a reply whose calls all have ids."""
    for kind, text in (("reasoning", reply.reasoning), ("text", reply.text)):
        if text:
            yield {"type": f"{kind}-start", "id": f"{kind}-1"}
            for delta in split_text(text, reply.chunk_size):
                yield {"type": f"{kind}-delta", "id": f"{kind}-1", "delta": delta}
            yield {"type": f"{kind}-end", "id": f"{kind}-1"}
    for name, args, call_id in reply.calls:  # type: ignore[misc]
        raw = args if isinstance(args, str) else json.dumps(_plain(args), ensure_ascii=False)
        yield {"type": "tool-input-start", "toolCallId": call_id, "toolName": name}
        for delta in split_text(raw, reply.chunk_size):
            yield {"type": "tool-input-delta", "toolCallId": call_id, "inputTextDelta": delta}
        yield input_end(call_id, name, raw)


def input_end(call_id: str, name: str, raw: str, **more: Any) -> Chunk:
    """The chunk that ends a call's input: whole if a strict parser finds one JSON object, else an error.

    Args:
        call_id: The call.
        name: The action's name as the model wrote it.
        raw: All that was streamed; no text at all means no arguments.
        more: Further keys of the chunk.
    """
    head = {"toolCallId": call_id, "toolName": name, **more}
    try:
        value = json.loads(raw, parse_constant=_refuse_constant) if raw.strip() else {}
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return {"type": "tool-input-available", **head, "input": value}
    text = "The arguments are not one whole JSON object, so the action did not run."
    return {"type": "tool-input-error", **head, "input": raw, "errorText": text}


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _plain(args: Any) -> Any:
    return dict(args) if isinstance(args, Mapping) else args


def _is_call(chunk: StepItem) -> bool:
    return (
        isinstance(chunk, dict)
        and str(chunk.get("type", "")).startswith("tool-input-")
        and not chunk.get("providerExecuted")
    )
