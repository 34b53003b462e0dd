"""Small builders for the tests of models."""

from __future__ import annotations

from typing import Any

from chatnb.models import ActionSpec, Model, ModelRequest, StepEnd, stream_step


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def assistant(*items: dict[str, Any] | str) -> dict[str, Any]:
    content = [{"type": "text", "text": item} if isinstance(item, str) else item for item in items]
    return {"role": "assistant", "content": content}


def call(call_id: str, name: str = "f", args: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "tool-call", "toolCallId": call_id, "toolName": name, "input": args or {}, **more}


def results(*pairs: tuple[str, Any], name: str = "f") -> dict[str, Any]:
    """A tool message; an output that is no dict with a type is sent as JSON."""
    return {
        "role": "tool",
        "content": [
            {
                "type": "tool-result",
                "toolCallId": call_id,
                "toolName": name,
                "output": output
                if isinstance(output, dict) and "type" in output
                else {"type": "json", "value": output},
            }
            for call_id, output in pairs
        ],
    }


def spec(name: str = "f", description: str = "", required: tuple[str, ...] = (), /, **properties: Any) -> ActionSpec:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ActionSpec(name, description, schema)


class Waits:
    """A clock for models: notes each wait and does not wait."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def ask(*messages: dict[str, Any] | str, **more: Any) -> ModelRequest:
    more.setdefault("sleep", Waits())
    return ModelRequest(tuple(user(m) if isinstance(m, str) else m for m in messages), **more)


async def collect(model: Model, request: ModelRequest) -> list[Any]:
    return [item async for item in stream_step(model, request)]


async def chunks_until_error(model: Model, request: ModelRequest) -> tuple[list[Any], BaseException | None]:
    items: list[Any] = []
    try:
        async for item in stream_step(model, request):
            items.append(item)
    except Exception as error:  # noqa: BLE001
        return items, error
    return items, None


def text_of(items: list[Any]) -> str:
    return "".join(item["delta"] for item in items if isinstance(item, dict) and item["type"] == "text-delta")


def inputs_of(items: list[Any]) -> list[tuple[str, Any]]:
    found = [item for item in items if isinstance(item, dict) and item["type"] == "tool-input-available"]
    return [(item["toolName"], item["input"]) for item in found]


def end_of(items: list[Any]) -> StepEnd:
    assert isinstance(items[-1], StepEnd)
    return items[-1]
