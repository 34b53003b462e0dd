"""The body of a request to Anthropic's API, made of a `ModelRequest`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chatnb.errors import ConfigError, ModelRequestError
from chatnb.models.anthropic_blocks import Block
from chatnb.models.anthropic_mapping import anthropic_messages
from chatnb.models.anthropic_tools import AnthropicTools, anthropic_tools
from chatnb.models.port import ModelRequest

MIN_THINKING = 1024
MIN_TOP_P = 0.95
Thinking = int | Literal["adaptive"] | None

_SETTINGS = frozenset(
    {
        "max_tokens",
        "metadata",
        "output_config",
        "service_tier",
        "stop_sequences",
        "temperature",
        "thinking",
        "tool_choice",
        "top_k",
        "top_p",
    }
)


@dataclass(frozen=True)
class AnthropicRequest:
    """A request's body, and how the names in it map back.

    Attributes:
        body: What is sent, without `stream`.
        tools: How the names in it map back.
    """

    body: dict[str, Any]
    tools: AnthropicTools = field(default_factory=AnthropicTools)


def check_thinking(thinking: Any, max_tokens: int) -> Thinking:
    """Return the thinking option if the API can take it.

    Raises:
        ConfigError: It is neither None, nor `"adaptive"`, nor a budget of at least 1,024 and below `max_tokens`.
    """
    if thinking is None or thinking == "adaptive":
        return thinking  # type: ignore[no-any-return]
    if isinstance(thinking, int) and not isinstance(thinking, bool) and MIN_THINKING <= thinking < max_tokens:
        return thinking
    raise ConfigError(
        f'thinking takes None, "adaptive", or a budget in tokens of at least {MIN_THINKING} and below '
        f"max_tokens ({max_tokens})."
    )


def anthropic_request(
    name: str, request: ModelRequest, *, max_tokens: int, thinking: Thinking = None, cache: bool = True
) -> AnthropicRequest:
    """Make the body for one step.

    Args:
        name: The model's name.
        request: What is asked. Its `settings` may be those of the API that chatnb does not set itself.
        max_tokens: The most that may be written.
        thinking: As `check_thinking` gives it.
        cache: Whether to mark the prompt for the provider's cache.

    Raises:
        ModelRequestError: A setting that the API does not have.
    """
    settings = _checked_settings(request.settings)
    max_tokens = settings.pop("max_tokens", max_tokens)
    thinking = check_thinking(settings.pop("thinking", thinking), max_tokens)
    history: list[Mapping[str, Any]] = list(request.messages)
    if request.instructions:
        history.insert(0, {"role": "system", "content": request.instructions})
    system, messages = anthropic_messages(history, cache=cache, model=name)
    body: dict[str, Any] = {"model": name, "max_tokens": max_tokens, "messages": messages, **settings}
    if system:
        body["system"] = system
    tools = anthropic_tools(request.actions)
    if tools.blocks:
        body["tools"] = tools.blocks
        tools.rename_inputs(messages)
    else:
        _describe_past_tools(body)
    if "tools" not in body:
        body.pop("tool_choice", None)  # it may only stand beside tools
    if thinking is not None and not _is_loop_without_thinking(messages):
        _turn_thinking_on(body, thinking)
    return AnthropicRequest(body, tools)


def _checked_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(str(key) for key in settings if key not in _SETTINGS)
    if unknown:
        raise ModelRequestError(
            f"Anthropic's models have no setting {', '.join(unknown)}. Known: {', '.join(sorted(_SETTINGS))}."
        )
    return {key: value for key, value in settings.items() if value is not None}


def _describe_past_tools(body: dict[str, Any]) -> None:
    """Describe tools that only the history has: the API refuses calls in it when no tools are given."""
    names = {
        block["name"]: None
        for message in body["messages"]
        for block in message["content"]
        if block["type"] in ("tool_use", "server_tool_use")
    }
    if names:
        schema = {"type": "object", "properties": {}}
        text = "No longer available."
        body["tools"] = [{"name": name, "description": text, "input_schema": schema} for name in names]
        body["tool_choice"] = {"type": "none"}


def _is_loop_without_thinking(messages: list[Block]) -> bool:
    """Whether calls are being answered that were not made with thinking; the API refuses thinking then.

    It happens when the thinking lost its signature or came from another model. This one step goes without.
    """
    last = messages[-1]
    if last["role"] != "user" or last["content"][0]["type"] != "tool_result" or len(messages) < 2:
        return False
    return messages[-2]["content"][0]["type"] not in ("thinking", "redacted_thinking")


def _turn_thinking_on(body: dict[str, Any], thinking: Thinking) -> None:
    body["thinking"] = (
        {"type": "adaptive"} if thinking == "adaptive" else {"type": "enabled", "budget_tokens": thinking}
    )
    # Neither a temperature, nor a narrower choice of words, nor a forced choice of tools may stand beside thinking.
    body.pop("temperature", None)
    body.pop("top_k", None)
    if body.get("top_p", 1) < MIN_TOP_P:
        del body["top_p"]
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping) and choice.get("type") in ("any", "tool"):
        body["tool_choice"] = {"type": "auto"}
